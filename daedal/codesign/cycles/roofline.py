"""`RooflineCycles`: the cheapest step: of each layer the busiest of multipliers, ALU and bus.

From the logical shapes of the layers alone, in microseconds. It knows array, lanes and bus, and
nothing of scratchpads.
"""

from dataclasses import dataclass
from math import prod

from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.attention import MATMULS
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.ops.accelerator.lowering import multiplications
from daedal.compiler.pipeline import accelerator_graphs
from daedal.isa.variant import Variant

__all__ = ["RooflineCycles"]


@dataclass(frozen=True)
class _Layer:
    """`pixels` times `taps` products of `inner` by `outer` channels; bytes, and results."""

    pixels: int
    taps: int
    inner: int
    outer: int
    depthwise: bool
    moved: int
    results: int

    def cycles(self, variant: Variant) -> float:
        array, units = variant.array, variant.units
        outer = -(-self.outer // array.block_out)
        if self.depthwise and array.depthwise_taps:
            products = self.pixels * outer * -(-self.taps // array.depthwise_taps)
        elif self.inner < array.block_in and not self.depthwise:
            # A first layer of few channels: the compiler puts taps side by side.
            products = self.pixels * outer * -(-self.taps * self.inner // array.block_in)
        else:
            products = self.pixels * outer * self.taps * -(-self.inner // array.block_in)
        bus = self.moved * variant.array.input_bits / variant.bus.data_bits
        return max(products, self.results / units.requantize_lanes, bus)


class RooflineCycles:
    """A network's estimate; `base` is a variant that it compiles for."""

    def __init__(self, model: bytes, base: Variant) -> None:
        self._layers = [
            _layer(graph, node)
            for graph in accelerator_graphs(load_onnx(model), base)
            for node in graph.nodes
            if not get_op(node.op).is_view
        ]

    def __call__(self, variant: Variant) -> float:
        """Cycles, too few by what does not overlap and what is loaded again."""
        return sum(layer.cycles(variant) for layer in self._layers)


def _layer(graph: Graph, node: Node) -> _Layer:
    result = graph.types[node.output]
    moved = sum(prod(graph.types[name].shape) for name in (*node.inputs, node.output))
    results = prod(result.shape)
    if not multiplications(graph, node):
        return _Layer(0, 0, 0, 0, False, moved, results)
    if node.op in MATMULS:
        inner = graph.types[node.inputs[0]].shape[1]
        return _Layer(results // result.shape[1], 1, inner, result.shape[1], False, moved, results)
    outer, inner, *window = graph.types[node.inputs[1]].shape
    pixels = multiplications(graph, node) // (outer * inner * prod(window))
    return _Layer(pixels, prod(window), inner, outer, inner == 1, moved, results)
