"""`KeptRows`: what a layer neither loads nor stores, as small tensors stay on chip.

Where GEMM reads OUT, products take small results from there
(`compiler/link/on_chip/kept_results.py`); sums of 32 bits stay in the accumulators (residual
streams). Input: graphs as launches compile them. Output: the layers with such tensors, and the
cycles that they save by the estimates of the layers alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.codesign.cycles.busy import BusyUnits
from daedal.compiler.cost.memory import MemoryCost
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.layers.workload import workload_of
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode
from daedal.isa.variant import Variant

__all__ = ["KeptLayer", "KeptRows", "kept_rows_of", "saved_cycles"]

SHARE = 2
"""A tensor that takes more than one part in so many of a scratchpad goes through memory."""

OVERLAP = 0.5
"""Of what such layers would save if all units worked on all of them at the same time: each begins
before the one before it has ended, but needs its results. Chosen on a vision transformer with the
presets ddr and ulx3s, as is what `saved_cycles` says of gaps."""

_WIDE = "int32"
"""Sums in the accumulators' form."""


@dataclass(frozen=True)
class _Tensor:
    """One that a layer loads or stores. `memory` is where it may stay instead."""

    memory: Memory
    size_bytes: int

    def stays(self, variant: Variant) -> bool:
        if self.memory is Memory.OUT and GemmMode.DENSE_OUT not in GemmMode.of(variant):
            return False
        pad = scratchpad(variant, self.memory)
        return SHARE * self.size_bytes <= pad.depth_rows * pad.row_bytes


@dataclass(frozen=True)
class KeptRows:
    """A kind of layer with tensors that may stay on chip.

    Attributes
    ----------
    layer : key of its workload.
    tensors : of its operands and its result, those that no other layer needs in memory.
    """

    layer: str
    tensors: tuple[_Tensor, ...]

    def on(
        self, count: int, cycles: float, space: LayerSpace, variant: Variant, memory: MemoryModel
    ) -> "KeptLayer | None":
        """With the units of its default schedule; None where everything goes through memory.

        `cycles` are those of the layer alone. Raises UserError where nothing fits.
        """
        moved = sum(item.size_bytes for item in self.tensors if item.stays(variant))
        if not moved:
            return None
        alone = BusyUnits.of(space, memory)
        saved = moved / variant.bus_bytes * max(MemoryCost.of(memory).word_cycles, 1)
        kept = replace(alone, words=max(alone.words - saved, 0.0))
        return KeptLayer(count, cycles, max(cycles - alone.busiest, 0.0), kept)


@dataclass(frozen=True)
class KeptLayer:
    """A kind of layer on a variant that keeps some of its tensors on chip.

    Attributes
    ----------
    cycles, gap : of the layer alone, and those of them in which its busiest unit does not work.
    busy : its units without what stays on chip.
    """

    count: int
    cycles: float
    gap: float
    busy: BusyUnits


def saved_cycles(layers: Sequence[KeptLayer], memory: MemoryModel) -> float:
    """What layers with tensors on chip take less than each of them alone.

    A layer takes what its busiest unit takes, and a gap. Where the memory moves a word in each
    cycle, a neighbour of the same size hides the gap, and units work on neighbours at the same time
    (`OVERLAP`). A memory that takes two cycles or more for a word leaves the gaps as they are.
    """
    hidden = min(max(2.0 - MemoryCost.of(memory).word_cycles, 0.0), 1.0)
    saved = sum(
        item.count * max(item.cycles - item.gap - item.busy.busiest, 0.0)
        + item.count * hidden * min(item.gap, item.busy.busiest)
        for item in layers
    )
    together = sum(item.count * item.busy.busiest for item in layers)
    units = (
        sum(item.count * item.busy.products for item in layers),
        sum(item.count * item.busy.vectors for item in layers),
        sum(item.count * item.busy.words for item in layers),
    )
    return saved + OVERLAP * hidden * (together - max(units))


def kept_rows_of(graphs: Iterable[Graph]) -> Mapping[KeptRows, int]:
    """All layers with such tensors, and how often each is there."""
    found: Counter[KeptRows] = Counter()
    for graph in graphs:
        kept = _Kept(graph)
        for node in graph.nodes:
            tensors = () if get_op(node.op).is_view else kept.tensors(node)
            if tensors:
                found[KeptRows(workload_of(graph, node).key, tensors)] += 1
    return found


class _Kept:
    """The tensors of one graph that may stay on chip."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._source: dict[str, str] = {}
        for node in graph.nodes:
            if get_op(node.op).is_view:
                self._source[node.output] = self._stored(node.inputs[0])

    def _stored(self, name: str) -> str:
        """The tensor that a layer stores, of which `name` is a view."""
        return self._source.get(name, name)

    def tensors(self, node: Node) -> tuple[_Tensor, ...]:
        """Of a layer's operands and result."""
        graph = self._graph
        names = [
            self._stored(name) for name in dict.fromkeys(node.inputs) if self._on_chip(name, node)
        ]
        if self._needed_nowhere_else(node.output):
            names.append(node.output)
        return tuple(_Tensor(self._place(name), graph.types[name].size_bytes) for name in names)

    def _place(self, name: str) -> Memory:
        return Memory.ACC if self._graph.types[name].dtype == _WIDE else Memory.OUT

    def _on_chip(self, name: str, reader: Node) -> bool:
        """Whether a layer may read an operand on chip: sums, and what is multiplied by weights."""
        graph, stored = self._graph, self._stored(name)
        if stored not in graph.producers or graph.types[stored].rank < 2:
            return False
        return self._place(stored) is Memory.ACC or (
            name == reader.inputs[0] and reader.op in _PRODUCTS
        )

    def _needed_nowhere_else(self, name: str) -> bool:
        """Whether all that read a result, or a view of it, may do so on chip."""
        graph = self._graph
        names = [name, *(view for view, source in self._source.items() if source == name)]
        readers = [
            (item, reader)
            for item in names
            for reader in graph.users[item]
            if not get_op(reader.op).is_view
        ]
        return (
            bool(readers)
            and not set(names) & set(graph.outputs)
            and all(self._on_chip(item, reader) for item, reader in readers)
        )


_PRODUCTS = frozenset(
    (
        "q_conv2d",
        "q_conv2d_add",
        "q_conv2d_sum",
        "q_conv2d_lookup",
        "q_matmul",
        "q_attention_weights",
        "q_weighted_mean",
    )
)
"""Operators whose first operand is multiplied, row by row."""
