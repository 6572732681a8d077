"""`EstimatedWork`: what the units do for one image of a network, without compiling it.

Of each layer the compiler's default schedule, by the cost model of its space. That schedule decides
what is loaded again, so that it takes longer to find than the least cycles alone. Results that
chains of layers keep on chip (`chains`) are neither stored nor loaded; others are, although small
ones may stay in OUT.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.codesign.cycles.chains import Pair, pairs_of
from daedal.codesign.cycles.work import Work
from daedal.common.errors import ScheduleError, UserError
from daedal.compiler.cost.memory import DDR
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.passes.layout.moves_to_views import moves_to_views
from daedal.compiler.layers.workload import layer_kinds
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.accelerator.lowering import any_space_of, multiplications
from daedal.compiler.ops.accelerator.traffic import bytes_once
from daedal.compiler.pipeline import accelerator_graphs
from daedal.compiler.targets.capabilities import Capabilities
from daedal.isa.memory_model import MemoryModel
from daedal.isa.variant import Variant

__all__ = ["EstimatedWork"]


@dataclass(frozen=True)
class _Layer:
    """The key of its workload, how often the network has it, and its space on some variant; None of
    one schedule."""

    key: str
    count: int
    graph: Graph
    node: Node
    space: LayerSpace | None

    def on(self, variant: Variant) -> LayerSpace | None:
        """Its space on a variant. Raises UserError where nothing fits."""
        moved = None if self.space is None else self.space.on(variant)
        return moved or _space(self.graph, self.node, variant)

    def work(self, variant: Variant, memory: MemoryModel) -> Work:
        """Of all its occurrences. Raises UserError where no schedule fits."""
        space = self.on(variant)
        found = self._once(variant) if space is None else _of_default(space, memory)
        bits = self.graph.types[self.node.output].size_bytes * 8
        written = min(bits / variant.bus.data_bits, found["beats"])
        return Work(
            self.count * found.get("product_cycles", 0.0),
            self.count * found["vector_cycles"],
            self.count * (found["beats"] - written),
            self.count * written,
        )

    def _once(self, variant: Variant) -> dict[str, float]:
        """By the shapes, as if nothing were loaded twice."""
        elements = self.graph.types[self.node.output].num_elements
        return {
            "product_cycles": multiplications(self.graph, self.node) / variant.macs_per_cycle,
            "vector_cycles": elements / variant.units.requantize_lanes,
            "beats": bytes_once(self.graph, self.node, variant) / variant.bus_bytes,
        }


@dataclass(frozen=True)
class _Layers:
    """Those of a network by kind, and the pairs that may be chained, with how often each is
    there."""

    kinds: Sequence[_Layer]
    pairs: Mapping[Pair, int]

    def work(self, variant: Variant, memory: MemoryModel) -> Work:
        """Of all. Raises UserError where a layer does not fit."""
        found = [layer.work(variant, memory) for layer in self.kinds]
        kept = self._words_on_chip(variant, memory)
        return Work(
            sum(item.products for item in found),
            sum(item.vectors for item in found),
            sum(item.read for item in found) - kept,
            sum(item.written for item in found) - kept,
        )

    def _words_on_chip(self, variant: Variant, memory: MemoryModel) -> float:
        """Of results that chains keep on chip."""
        layers = {layer.key: layer for layer in self.kinds}
        words = 0.0
        for pair, count in self.pairs.items():
            second = layers[pair.second].on(variant)
            if second is not None:
                words += count * pair.saved_words(second, variant, memory)
        return words


class EstimatedWork:
    """Estimates for one network, without the instructions' bytes.

    Parameters
    ----------
    model : the serialized ONNX model.
    on_host : the quantized tensors that the host computes, as for `AnalyticCycles`.
    memory : what is behind the bus.
    """

    def __init__(
        self,
        model: bytes,
        on_host: frozenset[str] | Callable[[Variant], frozenset[str]] = frozenset(),
        memory: MemoryModel = DDR,
    ) -> None:
        self._memory = memory
        self._graph = load_onnx(model)
        self._on_host = on_host if callable(on_host) else lambda _variant: on_host
        self._layers: dict[tuple[object, ...], _Layers] = {}

    def __call__(self, variant: Variant) -> Work | None:
        """The work on a variant; None where a layer does not fit."""
        # The style of multipliers changes no schedule.
        array = replace(variant.array, multiplier_style="dsp")
        options = (Capabilities.of(variant), variant.units.narrow_weights)
        key = (array, variant.bus.data_bits, variant.units.multiplier_bits, *options)
        try:
            if key not in self._layers:
                self._layers[key] = self._blocked(variant)
            return self._layers[key].work(variant, self._memory)
        except UserError:
            return None

    def _blocked(self, variant: Variant) -> _Layers:
        parts = accelerator_graphs(
            self._graph, variant, on_host=self._on_host(variant), memory=self._memory
        )
        graphs = [moves_to_views(part, block_out=variant.array.block_out) for part in parts]
        kinds = [
            _Layer(
                kind.key,
                kind.count,
                kind.graph,
                kind.node,
                _space(kind.graph, kind.node, variant),
            )
            for kind in layer_kinds(graphs)
        ]
        return _Layers(kinds, pairs_of(graphs))


def _space(graph: Graph, node: Node, variant: Variant) -> LayerSpace | None:
    """What fits the scratchpads; None of one schedule. Raises UserError where nothing fits."""
    space = any_space_of(graph, node, variant)
    count = len(next(iter(space.all().values())))
    if not count:
        raise ScheduleError(f"layer {node.output!r} must fit the scratchpads of {variant.name!r}")
    return space if count > 1 else None


def _of_default(space: LayerSpace, memory: MemoryModel) -> Mapping[str, float]:
    """Features of the default schedule."""
    table = space.table([space.default_with(memory)])
    return {name: float(column[0]) for name, column in space.features(table).items()}
