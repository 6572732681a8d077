"""Convolutions and dense layers: products of int16 in pairs of channels, sums of int32.

The map is copied once, with its pads and as int16, so that two channels of a pixel are 32 bits,
which an instruction puts into all lanes; weights lie in the order in which they are read.
"""

from collections.abc import Callable

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.ops.graph.maps import LANES, blocks, map_shape
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.ops.graph.requantize import Requantization, by_channel
from daedal.compiler.ops.graph.windows import padded_map, places
from daedal.compiler.ops.onnx.windows import taps_of
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]

PAIR = 2


def _lower_conv2d(operation: GraphOperation) -> te.Tensor:
    if operation.whole("groups") > 1:
        return _depthwise(operation)
    weights = operation.constant(1)
    _, ins, *kernel = weights.shape
    if not operation.has_map(0) and kernel[1] > 1 and operation.ints("dilations")[1] == 1:
        return _conv2d_in_order(operation)
    source = _pairs_of_channels(operation)
    packed = operation.tensors.table(_packed(weights))
    taps, axes = taps_of((*kernel, -(-ins // PAIR)))

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps[:2])

        def element(number: int) -> Expr:
            return source[n, row, column, taps[2] * PAIR + number]

        def weight(number: int) -> Expr:
            return packed[block, *taps, lane, number].astype("int16")

        return te.sum(te.dot_pairs((element(0), element(1)), (weight(0), weight(1))), axes)

    return _finished(operation, map_shape(operation.kind.shape), products)


def _conv2d_in_order(operation: GraphOperation) -> te.Tensor:
    """Of a map with its channels first, such as an image: pairs are of columns, which lie side by
    side."""
    weights = operation.constant(1)
    images, channels, height, width = operation.type(0).shape
    _, ins, rows, columns = weights.shape
    top, left, bottom, right = operation.ints("pads")
    stride = operation.ints("strides")[1]
    read = operation.plain(0).padded(operation.whole("pad_value"))
    extents = (top + height + bottom, left + width + right + columns % PAIR)
    source = operation.compute(
        (images, channels, *extents),
        lambda n, c, h, w: read[n, c, h - top, w - left].astype("int16"),
    )
    packed = operation.tensors.table(_packed(np.moveaxis(weights, 3, 1)))
    taps, axes = taps_of((ins, rows, -(-columns // PAIR)))

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, _ = places(operation, (h, w), (taps[1], taps[2]))

        def element(number: int) -> Expr:
            return source[n, taps[0], row, w * stride + taps[2] * PAIR + number]

        def weight(number: int) -> Expr:
            return packed[block, *taps, lane, number].astype("int16")

        return te.sum(te.dot_pairs((element(0), element(1)), (weight(0), weight(1))), axes)

    return _finished(operation, map_shape(operation.kind.shape), products)


def _depthwise(operation: GraphOperation) -> te.Tensor:
    weights = operation.constant(1)
    channels, _, *kernel = weights.shape
    source = padded_map(operation, value=operation.whole("pad_value"))
    packed = np.zeros((*kernel, blocks(channels) * LANES), np.int8)
    packed[..., :channels] = np.moveaxis(weights[:, 0], 0, -1)
    table = operation.tensors.table(packed.reshape(*kernel, -1, LANES))
    taps, axes = taps_of(kernel)

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps)
        element = source[n, row, column, block, lane].astype("int32")
        return te.sum(element * table[*taps, block, lane].astype("int32"), axes)

    return _finished(operation, map_shape(operation.kind.shape), products)


def _finished(
    operation: GraphOperation, shape: tuple[int, ...], products: Callable[..., Expr]
) -> te.Tensor:
    sums = operation.compute(shape, products)
    finish = Requantization(operation, operation.constant(2))

    def formula(*i: Expr) -> Expr:
        return finish(sums[i], by_channel(operation, i[-2], i[-1]))

    return operation.compute(shape, formula)


def _pairs_of_channels(operation: GraphOperation) -> te.Tensor:
    """The padded map as int16 (N, H, W, C), with an even number of channels."""
    if operation.has_map(0):
        padded = padded_map(operation, "int16", operation.whole("pad_value"))
        images, height, width, count, _ = padded.shape
        return operation.tensors.viewed(padded, (images, height, width, count * LANES))
    images, channels, height, width = operation.type(0).shape
    top, left, bottom, right = operation.ints("pads")
    read = operation.plain(0).padded(operation.whole("pad_value"))
    shape = (images, top + height + bottom, left + width + right, channels + channels % PAIR)
    return operation.compute(
        shape, lambda n, h, w, c: read[n, c, h - top, w - left].astype("int16")
    )


def _packed(weights: Array) -> Array:
    """Weights (O, I, ...) as (blocks of O, ..., pairs of I, lanes, 2)."""
    outs, ins, *kernel = weights.shape
    whole = np.zeros((blocks(outs) * LANES, ins + ins % PAIR, *kernel), np.int8)
    whole[:outs, :ins] = weights
    split = whole.reshape(-1, LANES, (ins + ins % PAIR) // PAIR, PAIR, *kernel)
    return np.ascontiguousarray(np.moveaxis(split, (1, 2, 3), (-2, -3, -1)))


def _lower_dense(operation: GraphOperation) -> te.Tensor:
    x, weights = operation.plain(0), operation.constant(1)
    outs, depth = weights.shape
    pairs = -(-depth // PAIR)
    read = x if depth % PAIR == 0 else x.padded(0)
    (rows, _) = operation.kind.shape
    wide = operation.compute((rows, pairs * PAIR), lambda n, k: read[n, k].astype("int16"))
    packed = operation.tensors.table(_packed(weights))
    k = te.reduce_axis(pairs, "k")

    def products(n: Expr, block: Expr, lane: Expr) -> Expr:
        elements = wide[n, k * PAIR], wide[n, k * PAIR + 1]
        factors = (packed[block, k, lane, number].astype("int16") for number in range(PAIR))
        return te.sum(te.dot_pairs(elements, (next(factors), next(factors))), k)

    result = _finished(operation, (rows, blocks(outs), LANES), products)
    return operation.compute((rows, outs), lambda n, o: result[n, o // LANES, o % LANES])


def _conv2d_lacks(graph: Graph, node: Node) -> str:
    weights, groups = graph.types[node.inputs[1]], whole(node.attrs, "groups")
    if weights.dtype != "int8":
        return f"weights must be int8, not {weights.dtype}"
    channels, per_group = weights.shape[:2]
    if groups != 1 and (groups != channels or per_group != 1):
        return f"a convolution must have one group or one per channel, not {groups}"
    return ""


def _dense_lacks(graph: Graph, node: Node) -> str:
    weights = graph.types[node.inputs[1]]
    return "" if weights.dtype == "int8" else f"weights must be int8, not {weights.dtype}"


LOWERINGS = {
    "q_conv2d": GraphLowering(_lower_conv2d, _conv2d_lacks),
    "q_dense": GraphLowering(_lower_dense, _dense_lacks),
}
"""By operator."""
