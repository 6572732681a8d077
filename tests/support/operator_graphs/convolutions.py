"""Convolutions and matrix products, some with an operator to be fused, as graphs of one layer."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.ops.conv_transpose import sub_kernels_of
from daedal.compiler.graph.ops.matmul import correction
from daedal.compiler.graph.ops.sub_kernels import transposed_extents
from daedal.compiler.graph.types import TensorType
from daedal.isa.variant import Variant
from tests.support.operator_graphs.elementwise import maximum_attrs
from tests.support.operator_graphs.layer_graph import Array, Attrs, LayerGraph
from tests.support.pick import Pick

__all__ = [
    "conv2d",
    "conv2d_add",
    "conv2d_leaky_relu",
    "conv2d_max_requantized",
    "conv2d_maximum",
    "conv2d_mul",
    "conv2d_requantize",
    "conv_transpose2d",
    "depthwise_conv2d",
    "grouped_conv2d",
    "matmul",
    "other_operand",
]


def _convolution(
    pick: Pick, variant: Variant, groups: int, per_group: tuple[int, int], images: int
) -> tuple[LayerGraph, Array, Attrs]:
    """A layer with map and weights, and the parameters and attributes that finish it."""
    extents, attrs = pick.window(dilated=True)
    kernel = attrs.pop("kernel")
    assert isinstance(kernel, tuple)
    ins, outs = per_group
    layer = LayerGraph((images, groups * ins, *extents))
    layer.constant("w", pick.int8((groups * outs, ins, *kernel)))
    # Products with pads of 0 may be left out.
    pad_value = pick.one_of((0, pick.integer(-128, 127)))
    attrs.update(groups=groups, pad_value=pad_value, **pick.bounds())
    return layer, pick.params(variant, groups * outs, (22, 28), any_bias=True), attrs


def _dense(pick: Pick, variant: Variant) -> tuple[LayerGraph, Array, Attrs]:
    channels = pick.channels(variant), pick.channels(variant)
    return _convolution(pick, variant, 1, channels, pick.integer(1, 2))


def conv2d(pick: Pick, variant: Variant) -> Graph:
    layer, params, attrs = _dense(pick, variant)
    return layer.finish("q_conv2d", params, attrs)


def grouped_conv2d(pick: Pick, variant: Variant) -> Graph:
    groups, per_group = pick.integer(2, 4), pick.pair(1, 6)
    layer, params, attrs = _convolution(pick, variant, groups, per_group, 1)
    return layer.finish("q_conv2d", params, attrs)


def depthwise_conv2d(pick: Pick, variant: Variant) -> Graph:
    channels, images = pick.channels(variant), pick.integer(1, 2)
    layer, params, attrs = _convolution(pick, variant, channels, (1, 1), images)
    return layer.finish("q_conv2d", params, attrs)


def _fused(pick: Pick, variant: Variant) -> tuple[LayerGraph, str]:
    """A convolution of any kind, for another operator to be fused behind it."""
    kinds = (conv2d, grouped_conv2d, depthwise_conv2d)
    conv = pick.one_of(kinds)(pick, variant)
    layer = LayerGraph()
    builder = layer.builder = GraphBuilder("layer", conv)
    builder.copy_inputs()
    (node,) = conv.nodes
    names = dict(zip(node.inputs[1:], ("conv_w", "conv_params"), strict=True))
    for name, new in names.items():
        builder.constant(new, conv.constant(name))
    operands = [node.inputs[0], *names.values()]
    return layer, builder.add(node.op, operands, node.attrs, output="conv")


def other_operand(layer: LayerGraph, conv: str, pick: Pick) -> str:
    """Another map as large as the result of `conv`, or of one row or column."""
    shape = layer.builder.types[conv].shape
    extents = (pick.one_of((extent, extent, 1)) for extent in shape[2:])
    return layer.builder.input("skip", TensorType((*shape[:2], *extents), "int8"))


def conv2d_add(pick: Pick, variant: Variant) -> Graph:
    """A convolution and an addition to its result, which the compiler joins."""
    layer, conv = _fused(pick, variant)
    skip = other_operand(layer, conv, pick)
    types = layer.builder.types
    swap = types[skip] == types[conv] and pick.integer(0, 1)
    layer.operands = [skip, conv] if swap else [conv, skip]
    first, second = pick.pair(-32767, 32767)
    attrs = {"multiplier_a": first, "multiplier_b": second, **pick.bounds()}
    return layer.finish("q_add", pick.params(variant, 1, (8, 20), multiplier=1), attrs)


def conv2d_mul(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _fused(pick, variant)
    layer.operands = [conv, other_operand(layer, conv, pick)]
    first, second = pick.pair(-128, 127)
    attrs = {"zero_point_a": first, "zero_point_b": second, **pick.bounds()}
    return layer.finish("q_mul", pick.params(variant, 1, (22, 26)), attrs)


def conv2d_maximum(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _fused(pick, variant)
    layer.operands = [conv, other_operand(layer, conv, pick)]
    params = pick.params(variant, 1, (8, 18), multiplier=1)
    return layer.finish("q_maximum", params, maximum_attrs(pick))


def conv2d_leaky_relu(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _fused(pick, variant)
    layer.operands = [conv]
    attrs = {
        "zero_point_x": pick.integer(-128, 127),
        "multiplier_positive": pick.integer(0, 32767),
        "multiplier_negative": pick.integer(-32767, 32767),
        **pick.bounds(),
    }
    return layer.finish("q_leaky_relu", pick.params(variant, 1, (8, 18), multiplier=1), attrs)


def conv2d_max_requantized(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _fused(pick, variant)
    layer.operands = [conv]
    return layer.finish("q_max_requantized", pick.params(variant, 1, (15, 18)), pick.bounds())


def conv2d_requantize(pick: Pick, variant: Variant) -> Graph:
    layer, conv = _fused(pick, variant)
    layer.operands = [conv]
    return layer.finish("q_requantize", pick.params(variant, 1, (15, 18)), pick.bounds())


def conv_transpose2d(pick: Pick, variant: Variant) -> Graph:
    """Each part of the result, by its place between the strides, has parameters of its own."""
    extents, kernel = pick.pair(1, 5), pick.pair(1, 4)
    strides, dilations = pick.pair(1, 3), pick.pair(1, 2)
    pads = tuple(pick.integer(0, (kernel[side % 2] - 1) * dilations[side % 2]) for side in range(4))
    padding = tuple(pick.integer(0, stride - 1) for stride in strides)
    if min(transposed_extents(extents, kernel, strides, pads, dilations, padding)) < 1:
        pads = (0, 0, 0, 0)
    outs, ins = pick.channels(variant), pick.channels(variant)
    attrs: Attrs = {"strides": strides, "pads": pads, "dilations": dilations}
    attrs.update(output_padding=padding, pad_value=pick.integer(-128, 127), **pick.bounds())
    result = transposed_extents(extents, kernel, strides, pads, dilations, padding)
    parts = len(sub_kernels_of(kernel, result, attrs))
    layer = LayerGraph((pick.integer(1, 2), ins, *extents))
    layer.constant("w", pick.int8((outs, ins, *kernel)))
    params = pick.params(variant, parts * outs, (22, 28), any_bias=True)
    return layer.finish("q_conv_transpose2d", params, attrs)


def matmul(pick: Pick, variant: Variant) -> Graph:
    """Every pixel of one map with every pixel of another, over their channels."""
    images, depth = pick.integer(1, 2), pick.channels(variant)
    left, right = pick.pair(1, 4), pick.pair(1, 6)
    first, second = (pick.one_of((-128, -7, 0, 127)) for _ in range(2))
    layer = LayerGraph((images, depth, *left), (images, depth, *right))
    layer.constant("factor", np.array([correction(second)[0]], dtype=np.int8))
    attrs: Attrs = {"zero_point_a": first, "zero_point_b": second, "columns": right[0] * right[1]}
    attrs.update(pick.bounds())
    return layer.finish("q_matmul", pick.params(variant, 1, (22, 28)), attrs)
