"""`OrderedLayer`: the layers of a launch in program order, and what they may keep on chip.

Where GEMM reads OUT, products take small results from there
(`compiler/link/on_chip/kept_results.py`); sums of 32 bits stay in the accumulators (residual
streams). Input: graphs as launches compile them. Output: for each layer, which layers compute its
operands, and which operands and results need not go through memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.layers.launch import is_move
from daedal.compiler.layers.workload import workload_of
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode
from daedal.isa.variant import Variant

__all__ = ["Operand", "OrderedLayer", "SmallTensor", "program_order"]

SHARE = 2
"""A tensor that takes more than one part in so many of a scratchpad goes through memory."""

_WIDE = "int32"
"""Sums in the accumulators' form."""


@dataclass(frozen=True)
class SmallTensor:
    """One that may stay on chip, in `memory`."""

    memory: Memory
    size_bytes: int

    def stays(self, variant: Variant) -> bool:
        """Whether a variant keeps it."""
        if self.memory is Memory.OUT and GemmMode.DENSE_OUT not in GemmMode.of(variant):
            return False
        pad = scratchpad(variant, self.memory)
        return SHARE * self.size_bytes <= pad.depth_rows * pad.row_bytes


@dataclass(frozen=True)
class Operand:
    """A tensor that a layer reads, and that is not constant.

    Attributes
    ----------
    producer : the number of the layer that computes it; None for an input of the launch.
    on_chip : it, where the layer could read it on chip.
    by_parts : whether each tile reads a part of it only, not all of it.
    """

    producer: int | None
    size_bytes: int
    on_chip: SmallTensor | None
    by_parts: bool

    def stays(self, variant: Variant) -> bool:
        """Whether the layer reads it on chip."""
        return self.on_chip is not None and self.on_chip.stays(variant)


@dataclass(frozen=True)
class OrderedLayer:
    """A layer.

    Attributes
    ----------
    key : of its workload.
    result : its result, if all that read it could do so on chip; else None, and it is stored.
    shape : of the result.
    moves : whether it stores elements of its operand as they are. If that is on chip, STORE does so
        from there, and nothing else is to be done.
    """

    key: str
    operands: tuple[Operand, ...]
    result: SmallTensor | None
    shape: tuple[int, ...]
    result_bytes: int
    constant_bytes: int
    moves: bool


def program_order(graph: Graph) -> tuple[OrderedLayer, ...]:
    """The layers of a launch, without views."""
    return _Order(graph).layers()


class _Order:
    """The tensors of one graph, and who reads them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes = [node for node in graph.nodes if not get_op(node.op).is_view]
        self._source: dict[str, str] = {}
        for node in graph.nodes:
            if get_op(node.op).is_view:
                self._source[node.output] = self._stored(node.inputs[0])
        self._readers: dict[str, list[tuple[str, Node]]] = {}
        for node in self._nodes:
            for name in dict.fromkeys(node.inputs):
                self._readers.setdefault(self._stored(name), []).append((name, node))
        self._outputs = {self._stored(name) for name in graph.outputs}

    def layers(self) -> tuple[OrderedLayer, ...]:
        numbers = {node.output: number for number, node in enumerate(self._nodes)}
        return tuple(self._layer(node, numbers) for node in self._nodes)

    def _layer(self, node: Node, numbers: Mapping[str, int]) -> OrderedLayer:
        graph = self._graph
        names = list(dict.fromkeys(node.inputs))
        constants = [name for name in names if graph.is_constant(name)]
        operands = [
            Operand(
                numbers.get(self._stored(name)),
                graph.types[name].size_bytes,
                self._small(name) if self._on_chip(name, node) else None,
                number == 0 or self._is_elementwise(node, name),
            )
            for number, name in enumerate(names)
            if name not in constants
        ]
        result = graph.types[node.output]
        return OrderedLayer(
            workload_of(graph, node).key,
            tuple(operands),
            self._small(node.output) if self._needed_nowhere_else(node.output) else None,
            result.shape,
            result.size_bytes,
            sum(graph.types[name].size_bytes for name in constants),
            is_move(graph, node),
        )

    def _stored(self, name: str) -> str:
        """The tensor that a layer stores, of which `name` is a view."""
        return self._source.get(name, name)

    def _small(self, name: str) -> SmallTensor:
        stored = self._stored(name)
        return SmallTensor(self._place(stored), self._graph.types[stored].size_bytes)

    def _place(self, name: str) -> Memory:
        return Memory.ACC if self._graph.types[name].dtype == _WIDE else Memory.OUT

    def _on_chip(self, name: str, reader: Node) -> bool:
        """Whether a layer may read an operand on chip: sums, what is multiplied by weights, and
        what is stored again as it is."""
        graph, stored = self._graph, self._stored(name)
        if stored not in graph.producers or graph.types[stored].rank < 2:
            return False
        if self._place(stored) is Memory.ACC or is_move(graph, reader):
            return True
        return name == reader.inputs[0] and reader.op in _PRODUCTS and _has_all_rows(reader)

    def _is_elementwise(self, node: Node, name: str) -> bool:
        """Whether an element of the result needs one of an operand behind the first."""
        types = self._graph.types
        same = types[name].shape == types[node.output].shape
        return same and node.op not in _ALL_OF_SECOND

    def _needed_nowhere_else(self, name: str) -> bool:
        """Whether all that read a result, or a view of it, may do so on chip."""
        readers = self._readers.get(name, ())
        return (
            bool(readers)
            and name not in self._outputs
            and all(self._on_chip(item, reader) for item, reader in readers)
        )


def _has_all_rows(node: Node) -> bool:
    """Whether windows have no padding but zeros, whose products are left out, or rows behind the
    map: rows of OUT cannot stand for those of other padding."""
    pads = node.attrs.get("pads")
    if not isinstance(pads, tuple) or node.attrs.get("pad_value", 0) == 0:
        return True
    top, left, _, right = pads
    return not (top or left or right)


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

_ALL_OF_SECOND = frozenset(("q_matmul", "q_attention_weights", "q_weighted_mean"))
"""Operators of which a row of the result needs all of the second operand."""
