"""`AnalyticCycles`: a network's estimated cycles on any variant, without compiling it.

Its layers, each with the schedule whose estimate is least, by the cost models of the compiler's
spaces, less what they gain together (`timeline`).
Graphs and the layers' spaces are made once for each array and bus, and for each choice of layers'
forms that depends on sizes; then spaces move from variant to variant, and convolutions are
enumerated together. Layers of a kind are estimated once for all variants that differ only in what
they do not use.

Both schedules and estimates are for the memory behind the machine, as the compiler's are.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import inf
from typing import ParamSpec, TypeVar

import numpy as np

from daedal.codesign.cycles.busy import BusyUnits
from daedal.codesign.cycles.chains import Pair, pairs_of
from daedal.codesign.cycles.kept import OrderedLayer, program_order
from daedal.codesign.cycles.timeline import Estimate, launch_cycles
from daedal.common.errors import UserError
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.passes.layout.fold_padding import rows_for_classes
from daedal.compiler.graph.passes.layout.moves_to_views import moves_to_views
from daedal.compiler.graph.passes.layout.rewrite_first_layer import chosen_streams
from daedal.compiler.graph.passes.partition import partition
from daedal.compiler.layers.workload import layer_kinds
from daedal.compiler.ops.accelerator.conv.layers import ConvLayers
from daedal.compiler.ops.accelerator.conv.space import ConvSpace
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of, multiplications
from daedal.compiler.ops.space import Table
from daedal.compiler.pipeline import graph_passes
from daedal.compiler.targets.capabilities import Capabilities
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.latencies import alu_latency_cycles
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.row_stream import RowStream
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import instruction_bytes
from daedal.isa.variant import Variant

__all__ = ["AnalyticCycles"]

_Key = tuple[object, ...]


class _Kind(Enum):
    """Layers whose estimates depend on the same parameters: convolutions, which are estimated
    together, other products, and those that only the ALU computes."""

    CONVOLUTION = 1
    PRODUCT = 2
    VECTOR = 3


@dataclass(frozen=True)
class _Layer:
    """The key of its workload, how often the network has it, and its space on some variant."""

    key: str
    count: int
    graph: Graph
    node: Node
    space: LayerSpace

    @property
    def kind(self) -> _Kind:
        if isinstance(self.space, ConvSpace):
            return _Kind.CONVOLUTION
        return _Kind.PRODUCT if multiplications(self.graph, self.node) else _Kind.VECTOR

    def on(self, variant: Variant) -> LayerSpace:
        """Its space on a variant. Raises UserError where nothing fits."""
        moved = self.space.on(variant)
        return any_space_of(self.graph, self.node, variant) if moved is None else moved

    def least(self, variant: Variant, memory: MemoryModel) -> Estimate:
        """The least estimate of its schedules."""
        try:
            space = self.on(variant)
        except UserError:
            return Estimate(inf)
        table = space.all()
        if not len(next(iter(table.values()))):
            return Estimate(inf)
        number = int(np.argmin(space.cycles_with(table, memory)))
        rows = {knob: column[number : number + 1] for knob, column in table.items()}
        return self._estimate(space, rows, memory)

    def usual(self, variant: Variant, memory: MemoryModel) -> Estimate:
        """The estimate of its default schedule."""
        try:
            space = self.on(variant)
            table = space.table([space.default_with(memory)])
        except UserError:
            return Estimate(inf)
        return self._estimate(space, table, memory)

    def of_features(
        self, cycles: float, features: Mapping[str, float], latency: float, memory: MemoryModel
    ) -> Estimate:
        """That of a schedule with these `LayerSpace.features`."""
        shape = self.graph.types[self.node.output].shape
        return Estimate(cycles, latency, BusyUnits.of(features, memory, shape))

    def _estimate(self, space: LayerSpace, table: Table, memory: MemoryModel) -> Estimate:
        """That of a table of one row."""
        features = {name: float(column[0]) for name, column in space.features(table).items()}
        cycles = float(space.cycles_with(table, memory)[0])
        return self.of_features(cycles, features, space.latency_cycles(memory), memory)


@dataclass(frozen=True)
class _Blocked:
    """The layers of a blocked graph, and those of each kind by their numbers.

    `launches` are the layers in program order, `pairs` those that may be chained and how often they
    are there; `known` are estimates of all layers of a kind, `chained` those that are.
    """

    layers: Sequence[_Layer]
    launches: Sequence[Sequence[OrderedLayer]]
    pairs: Mapping[Pair, int]
    kinds: Mapping[_Kind, Sequence[int]]
    joined: ConvLayers | None
    known: dict[_Key, Sequence[Estimate]] = field(default_factory=dict)
    chained: dict[_Key, Collection[tuple[str, str]]] = field(default_factory=dict)

    @classmethod
    def of(cls, layers: Sequence[_Layer], graphs: Sequence[Graph]) -> "_Blocked":
        """From all layers of some graphs."""
        kinds: dict[_Kind, list[int]] = {}
        for number, layer in enumerate(layers):
            kinds.setdefault(layer.kind, []).append(number)
        spaces = [layer.space for layer in layers]
        shapes = [space.shapes for space in spaces if isinstance(space, ConvSpace)]
        joined = ConvLayers(shapes) if shapes else None
        launches = [program_order(graph) for graph in graphs]
        return cls(layers, launches, pairs_of(graphs), kinds, joined)

    def cycles(self, variant: Variant, memory: MemoryModel, *, usual: bool) -> float:
        """Of all launches, with the default schedules or with those whose estimates are least."""
        found = self.estimates(variant, memory, usual=usual)
        chained = self._chained(variant, memory)
        return sum(launch_cycles(item, found, variant, memory, chained) for item in self.launches)

    def estimates(
        self, variant: Variant, memory: MemoryModel, *, usual: bool
    ) -> Mapping[str, Estimate]:
        """Of each layer alone, by the key of its workload."""
        found: dict[str, Estimate] = {}
        for kind, numbers in self.kinds.items():
            key = (kind, usual, *_used(kind, variant))
            if key not in self.known:
                self.known[key] = self._estimates(kind, variant, memory, usual)
            for number, estimate in zip(numbers, self.known[key], strict=True):
                found[self.layers[number].key] = estimate
        return found

    def _chained(self, variant: Variant, memory: MemoryModel) -> Collection[tuple[str, str]]:
        """The layers that a chain joins, by the keys of their workloads."""
        key = (variant.units.gemm_reads_out, *_used(_Kind.PRODUCT, variant))
        if key not in self.chained:
            layers = {item.key: item for item in self.layers}
            self.chained[key] = {
                (pair.first, pair.second)
                for pair in self.pairs
                if pair.saved_words(layers[pair.second].on(variant), variant, memory)
            }
        return self.chained[key]

    def _estimates(
        self, kind: _Kind, variant: Variant, memory: MemoryModel, usual: bool
    ) -> Sequence[Estimate]:
        layers = [self.layers[number] for number in self.kinds[kind]]
        if usual:
            return [layer.usual(variant, memory) for layer in layers]
        if kind is _Kind.CONVOLUTION and self.joined is not None:
            cycles, features = self.joined.least_rows(variant, memory)
            latency = machine_cost(variant, memory).launch
            return [
                layer.of_features(float(cycles[number]), features[number], latency, memory)
                if number in features
                else Estimate(inf)
                for number, layer in enumerate(layers)
            ]
        return [layer.least(variant, memory) for layer in layers]


@dataclass(frozen=True)
class _Array:
    """What all variants with one array and bus share.

    Attributes
    ----------
    graph : before the first pass that depends on sizes of scratchpads.
    classes : rows that layers need in some form; `fold_padding` tells them.
    memory : what is behind the bus.
    streams : the layouts of images, by the rows of scratchpads and the lanes.
    spaces : of kinds of layers, by the keys of their workloads.
    blocked : by these layouts, and by which forms fit.
    """

    graph: Graph
    classes: Sequence[int]
    memory: MemoryModel
    streams: dict[_Key, tuple[RowStream | None, ...]] = field(default_factory=dict)
    spaces: dict[str, LayerSpace] = field(default_factory=dict)
    blocked: dict[_Key, _Blocked | None] = field(default_factory=dict)

    def fitting(self, variant: Variant) -> _Key:
        """The layouts of images, and which forms of layers fit the scratchpads: all that the
        blocked graph depends on."""
        depths = {name: pad.depth_rows for name, pad in scratchpads(variant).items()}
        used = (*depths.values(), *_lanes(variant))
        if used not in self.streams:
            self.streams[used] = chosen_streams(self.graph, variant, self.memory)
        return (*self.streams[used], *(rows <= depths[Memory.PAR] for rows in self.classes))

    def space(self, kind: str, graph: Graph, node: Node, variant: Variant) -> LayerSpace:
        """The space of a kind of layer, on any variant. Raises UserError where nothing fits."""
        if kind not in self.spaces:
            self.spaces[kind] = any_space_of(graph, node, variant)
        return self.spaces[kind]


class AnalyticCycles:
    """Estimates for one network.

    Parameters
    ----------
    model : the serialized ONNX model.
    on_host : the quantized tensors that the host computes in any case, or beside a variant, which
        may depend on its `Capabilities`. Where that raises UserError, no cycles are finite.
    memory : what is behind the bus.
    """

    def __init__(
        self,
        model: bytes,
        on_host: frozenset[str] | Callable[[Variant], frozenset[str]] = frozenset(),
        memory: MemoryModel = PRESETS["ddr"],
    ) -> None:
        self._memory = memory
        self._graph = load_onnx(model)
        self._on_host = on_host if callable(on_host) else lambda _variant: on_host
        self._lowered: dict[_Key, int] = {}
        self._graphs: list[Graph] = []
        self._arrays: dict[_Key, _Array | None] = {}

    def __call__(self, variant: Variant, *, usual: bool = False) -> float:
        """Estimated cycles; infinite where a layer does not fit.

        With `usual`, those of the compiler's default schedules, and not the least of each layer.
        """
        blocked = self._blocked_for(variant)
        return inf if blocked is None else blocked.cycles(variant, self._memory, usual=usual)

    def alone(self, variant: Variant, *, usual: bool = False) -> float:
        """The sum of the estimates of each layer alone."""
        blocked = self._blocked_for(variant)
        if blocked is None:
            return inf
        found = blocked.estimates(variant, self._memory, usual=usual)
        return sum(item.count * found[item.key].cycles for item in blocked.layers)

    def _blocked_for(self, variant: Variant) -> _Blocked | None:
        """The layers on a variant; None where one does not fit."""
        number = _or_none(self._lowering, variant)
        if number is None:
            return None
        key = (number, *_array_key(variant))
        if key not in self._arrays:
            self._arrays[key] = _or_none(self._array, self._graphs[number], variant)
        array = self._arrays[key]
        if array is None:
            return None
        fitting = array.fitting(variant)
        if fitting not in array.blocked:
            array.blocked[fitting] = _or_none(self._blocked, array, variant)
        return array.blocked[fitting]

    def forget(self) -> None:
        """Drop the estimates, but not the blocked graphs."""
        for array in self._arrays.values():
            for blocked in () if array is None else array.blocked.values():
                if blocked is not None:
                    blocked.known.clear()
                    blocked.chained.clear()

    def _lowering(self, variant: Variant) -> int:
        """The number of the lowered graph, among `_graphs`: most networks have one."""
        key = (
            variant.units.multiplier_bits,
            variant.array.accumulator_bits,
            Capabilities.of(variant),
        )
        if key not in self._lowered:
            graph = self._passed(self._graph, variant, None, _FIRST_OF_ARRAY)
            same = (
                number
                for number, known in enumerate(self._graphs)
                if known.nodes == graph.nodes and known.types == graph.types
            )
            self._lowered[key] = next(same, len(self._graphs))
            if self._lowered[key] == len(self._graphs):
                self._graphs.append(graph)
        return self._lowered[key]

    def _array(self, lowered: Graph, variant: Variant) -> _Array:
        graph = self._passed(lowered, variant, _FIRST_OF_ARRAY, _FIRST_OF_SIZES)
        return _Array(graph, rows_for_classes(graph, variant), self._memory)

    def _blocked(self, array: _Array, variant: Variant) -> _Blocked:
        graph = self._passed(array.graph, variant, _FIRST_OF_SIZES, None)
        parts = [
            moves_to_views(part.graph, block_out=variant.array.block_out)
            for part in partition(graph)
            if part.target == ACCELERATOR
        ]
        return _Blocked.of(
            [
                _Layer(
                    kind.key,
                    kind.count,
                    kind.graph,
                    kind.node,
                    array.space(kind.key, kind.graph, kind.node, variant),
                )
                for kind in layer_kinds(parts)
            ],
            parts,
        )

    def _passed(self, graph: Graph, variant: Variant, begin: str | None, end: str | None) -> Graph:
        """After the passes from `begin` to the one before `end`."""
        on_host = self._on_host(variant)
        passes = graph_passes(variant, (), (), on_host=on_host, memory=self._memory)
        names = [name for name, _ in passes]
        places = (
            0 if begin is None else names.index(begin),
            len(names) if end is None else names.index(end),
        )
        for _, run_pass in passes[slice(*places)]:
            graph = run_pass(graph)
        return graph


_FIRST_OF_ARRAY, _FIRST_OF_SIZES = "split_wide_weights", "rewrite_first_layer"
"""The first passes that depend on the array, and on the scratchpads' sizes."""

T = TypeVar("T")
P = ParamSpec("P")


def _or_none(make: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """None where a layer does not fit."""
    try:
        return make(*args, **kwargs)
    except UserError:
        return None


def _array_key(variant: Variant) -> _Key:
    """What the blocked graph depends on but for the lowered one and sizes: the style of multipliers
    changes no cycle."""
    array, units = replace(variant.array, multiplier_style="dsp"), variant.units
    return (array, variant.bus.data_bits, units.multiplier_bits, units.narrow_weights)


def _used(kind: _Kind, variant: Variant) -> _Key:
    """What estimates of a kind of layers depend on, beyond the array and the bus."""
    memory, units = variant.memory, variant.units
    used: _Key = (memory.acc_bytes, memory.out_bytes, *_lanes(variant))
    if kind is _Kind.VECTOR:
        return (*used, memory.acc_banks)
    sizes = (memory.inp_bytes, memory.wgt_bytes, memory.par_bytes)
    return (*used, *sizes, units.queue_depth, instruction_bytes(variant))


def _lanes(variant: Variant) -> _Key:
    """The ALU's rates and its latency, which options change."""
    units = variant.units
    return (units.alu_lanes, units.requantize_lanes, alu_latency_cycles(variant))
