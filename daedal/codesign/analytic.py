"""`AnalyticCycles`: a network's estimated cycles on any variant, without compiling it.

Its layers alone, each with the schedule whose estimate is least, by the cost models of the
compiler's spaces. The blocked graph depends on array and bus only, so that it is made once for each
of these; then a variant costs milliseconds.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from math import inf

from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.ops.accelerator.lowering import multiplications, space_of
from daedal.compiler.pipeline import accelerator_graphs
from daedal.compiler.space import Space
from daedal.compiler.workload import workload_of
from daedal.isa.errors import UserError
from daedal.isa.variant import Variant

__all__ = ["AnalyticCycles"]


@dataclass(frozen=True)
class _Layer:
    """A kind of layer: how often the network has it, and its space on a variant.

    `space` is None where it has one schedule only. `multiplies` is whether it uses GEMM, and with
    it INP and WGT. `known` are estimates of other variants.
    """

    count: int
    graph: Graph
    node: Node
    space: Space | None
    multiplies: bool
    known: dict[tuple[object, ...], float] = field(default_factory=dict)

    def cycles(self, variant: Variant) -> float:
        """The least estimate of its schedules; infinite where none fits."""
        key = _key(variant, operands=self.multiplies)
        if key not in self.known:
            self.known[key] = self._cycles(variant)
        return self.known[key]

    def _cycles(self, variant: Variant) -> float:
        moved = None if self.space is None else self.space.on(variant)
        try:
            space = moved or space_of(self.graph, self.node, variant)
        except UserError:
            return inf
        if space is None:
            return 0.0
        table = space.all()
        return float(space.cycles(table).min()) if len(next(iter(table.values()))) else inf


class AnalyticCycles:
    """Estimates for one network.

    Parameters
    ----------
    model : the serialized ONNX model.
    base : a variant that it compiles for, whose fallbacks to the host hold for all.
    """

    def __init__(self, model: bytes, on_host: frozenset[str] = frozenset()) -> None:
        self._graph = load_onnx(model)
        self._on_host = on_host
        self._layers: dict[tuple[object, ...], list[_Layer] | None] = {}
        self._known: dict[tuple[object, ...], float] = {}

    def __call__(self, variant: Variant) -> float:
        """Estimated cycles; infinite where a layer does not fit."""
        key = _key(variant)
        if key not in self._known:
            self._known[key] = self._estimate(variant)
        return self._known[key]

    def forget(self) -> None:
        """Drop the estimates, but not the blocked graphs."""
        self._known.clear()
        for layers in self._layers.values():
            for layer in layers or ():
                layer.known.clear()

    def _estimate(self, variant: Variant) -> float:
        layers = self._layers_of(variant)
        if layers is None:
            return inf
        return sum(layer.count * layer.cycles(variant) for layer in layers)

    def _layers_of(self, variant: Variant) -> list[_Layer] | None:
        """The kinds of layers in blocked graphs for the variant's array and bus."""
        key = (*_array(variant), variant.units.multiplier_bits)
        if key not in self._layers:
            try:
                self._layers[key] = self._blocked(variant)
            except UserError:
                self._layers[key] = None
        return self._layers[key]

    def _blocked(self, variant: Variant) -> list[_Layer]:
        graphs = accelerator_graphs(self._graph, variant, on_host=self._on_host)
        found: dict[str, tuple[Graph, Node]] = {}
        counts: Counter[str] = Counter()
        for graph in graphs:
            for node in graph.nodes:
                if not get_op(node.op).is_view:
                    kind = workload_of(graph, node).key
                    counts[kind] += 1
                    found.setdefault(kind, (graph, node))
        return [
            _Layer(
                counts[kind],
                graph,
                node,
                space_of(graph, node, variant),
                multiplications(graph, node) > 0,
            )
            for kind, (graph, node) in found.items()
        ]


def _key(variant: Variant, *, operands: bool = True) -> tuple[object, ...]:
    """What an estimate depends on; `operands` says whether on INP and WGT."""
    memory, units = variant.memory, variant.units
    sizes = (memory.acc_bytes, memory.out_bytes, memory.par_bytes, memory.acc_banks)
    used = (memory.inp_bytes, memory.wgt_bytes) if operands else ()
    lanes = (units.alu_lanes, units.requantize_lanes, units.multiplier_bits, units.counters)
    return (*_array(variant), *sizes, *used, *lanes)


def _array(variant: Variant) -> tuple[object, ...]:
    """What the blocked graph depends on: the style of multipliers changes no cycle."""
    return (replace(variant.array, multiplier_style="dsp"), variant.bus.data_bits)
