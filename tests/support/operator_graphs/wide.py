"""Layers with operands or results of 16 bits."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.integer import is_wide
from daedal.compiler.graph.types import TensorType
from daedal.isa.variant import Variant
from tests.support.operator_graphs.convolutions import (
    conv2d,
    depthwise_conv2d,
    grouped_conv2d,
    matmul,
)
from tests.support.operator_graphs.elementwise import two_maps
from tests.support.operator_graphs.layer_graph import Attrs, LayerGraph
from tests.support.operator_graphs.movement import permute
from tests.support.pick import Pick

__all__ = [
    "wide_add",
    "wide_conv2d",
    "wide_conv2d_add",
    "wide_conv2d_requantize",
    "wide_conv2d_sum",
    "wide_matmul",
    "wide_permute",
    "wide_requantize",
    "wide_sum",
]

HALF: Attrs = {"zero_point": 0, "low": -(1 << 14), "high": (1 << 14) - 1}
"""Bounds of the operands of a sum that has 16 bits."""


def wide_add(pick: Pick, variant: Variant) -> Graph:
    """Operands of either width, and a result of either."""
    wide = pick.one_of(((), (0,), (1,), (0, 1)))
    layer = two_maps(pick, variant, wide)
    first, second = pick.pair(-32767, 32767)
    return _finish_wide_sum(layer, pick, variant, first, second, narrow=len(wide) > 0)


def _finish_wide_sum(
    layer: LayerGraph, pick: Pick, variant: Variant, first: int, second: int, *, narrow: bool
) -> Graph:
    """With `narrow`, the result may have 8 bits."""
    narrow = narrow and pick.integer(0, 1) == 1
    bounds = pick.bounds() if narrow else pick.wide_bounds()
    attrs: Attrs = {"multiplier_a": first, "multiplier_b": second, **bounds}
    shifts = (38, 42) if narrow else (30, 34)
    return layer.finish("q_add", pick.params(variant, 1, shifts), attrs)


def wide_sum(pick: Pick, variant: Variant) -> Graph:
    """A sum that needs no bounds, as the pass `exact_sums` makes it."""
    layer = two_maps(pick, variant, (0, 1))
    return _finish_exact_sum(layer)


def _finish_exact_sum(layer: LayerGraph) -> Graph:
    bounds: Attrs = {"low": -(1 << 15), "high": (1 << 15) - 1}
    builder = layer.builder
    return builder.finish([builder.add("q_sum", layer.operands, bounds, output="y")])


def wide_requantize(pick: Pick, variant: Variant) -> Graph:
    wide = pick.one_of(((), (0,)))
    narrow = len(wide) > 0 and pick.integer(0, 1) == 1
    layer = LayerGraph(pick.map_shape(variant), wide=wide)
    params = pick.params(variant, 1, (22, 26) if narrow else (10, 16))
    bounds = pick.bounds() if narrow else pick.wide_bounds()
    return layer.finish("q_requantize", params, bounds)


def wide_permute(pick: Pick, variant: Variant) -> Graph:
    return permute(pick, variant, wide=True)


def _with_wide_result(graph: Graph, pick: Pick) -> Graph:
    """A layer of products with a result of 16 bits."""
    (node,) = graph.nodes
    builder = GraphBuilder("layer", graph)
    builder.copy_inputs()
    *others, params = node.inputs
    rows = graph.constant(params) - np.array([0, 0, 8])
    attrs = {**node.attrs, **pick.wide_bounds()}
    operands = [*others, builder.constant("wide_params", rows)]
    return builder.finish([builder.add(node.op, operands, attrs, output="y")])


def wide_conv2d(pick: Pick, variant: Variant) -> Graph:
    kinds = (conv2d, grouped_conv2d, depthwise_conv2d)
    return _with_wide_result(pick.one_of(kinds)(pick, variant), pick)


def wide_matmul(pick: Pick, variant: Variant) -> Graph:
    return _with_wide_result(matmul(pick, variant), pick)


def _wide_fused(
    pick: Pick, variant: Variant, bounds: Attrs | None = None
) -> tuple[LayerGraph, str]:
    """A convolution with a result of either width, or of 16 bits within `bounds`, for a sum or a
    change of scale behind it."""
    kinds = (conv2d, wide_conv2d) if bounds is None else (wide_conv2d,)
    conv = pick.one_of(kinds)(pick, variant)
    layer = LayerGraph()
    builder = layer.builder = GraphBuilder("layer", conv)
    builder.copy_inputs()
    (node,) = conv.nodes
    operands = [
        node.inputs[0],
        *(builder.constant(f"conv_{n}", conv.constant(n)) for n in node.inputs[1:]),
    ]
    attrs = node.attrs if bounds is None else {**node.attrs, **bounds}
    return layer, builder.add(node.op, operands, attrs, output="conv")


def wide_conv2d_add(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _wide_fused(pick, variant)
    shape = layer.builder.types[conv].shape
    extents = (pick.one_of((extent, extent, 1)) for extent in shape[2:])
    kind = TensorType((*shape[:2], *extents), pick.one_of(("int8", "int16")))
    skip = layer.builder.input("skip", kind)
    layer.operands = [conv, skip]
    first, second = pick.pair(-32767, 32767)
    narrow = any(is_wide(layer.builder.types[name]) for name in layer.operands)
    return _finish_wide_sum(layer, pick, variant, first, second, narrow=narrow)


def wide_conv2d_requantize(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _wide_fused(pick, variant)
    layer.operands = [conv]
    narrow = is_wide(layer.builder.types[conv]) and pick.integer(0, 1) == 1
    params = pick.params(variant, 1, (22, 26) if narrow else (10, 16))
    bounds = pick.bounds() if narrow else pick.wide_bounds()
    return layer.finish("q_requantize", params, bounds)


def wide_conv2d_sum(pick: Pick, variant: Variant) -> Graph:
    """A sum that needs no bounds, behind a convolution that has them."""
    layer, conv = _wide_fused(pick, variant, HALF)
    shape = layer.builder.types[conv].shape
    extents = (pick.one_of((extent, extent, 1)) for extent in shape[2:])
    skip = layer.builder.input("skip", TensorType((*shape[:2], *extents), "int16"))
    layer.operands = [conv, skip]
    return _finish_exact_sum(layer)
