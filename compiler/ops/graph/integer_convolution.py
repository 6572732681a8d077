"""Convolutions and dense layers: products in groups of channels, sums of int32.

The map is copied once, with its pads and as the processor multiplies (`Factors`), so that the
channels of a group are 32 bits, which an instruction puts into all lanes; weights lie in the order
in which they are read.
"""

from collections.abc import Callable

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.ops.graph.factors import Factors
from daedal.compiler.ops.graph.maps import LANES, blocks, map_shape
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.ops.graph.requantize import Requantization, by_channel, in_order
from daedal.compiler.ops.graph.windows import padded_map, places
from daedal.compiler.ops.graph.winograd import (
    INTEGERS,
    suits_integer_winograd,
    winograd_sums,
)
from daedal.compiler.ops.onnx.windows import taps_of
from daedal.compiler.tir.expr import Axis, Expr

__all__ = ["LOWERINGS"]


def _lower_conv2d(operation: GraphOperation) -> te.Tensor:
    if operation.whole("groups") > 1:
        return _depthwise(operation)
    weights = operation.constant(1)
    _, ins, *kernel = weights.shape
    if not operation.reads_map(0) and kernel[1] > 1 and operation.ints("dilations")[1] == 1:
        return _conv2d_in_order(operation)
    if suits_integer_winograd(operation):
        return _requantized(operation, winograd_sums(operation, INTEGERS), operation.constant(2))
    factors = operation.tensors.factors
    source = _groups_of_channels(operation, factors)
    packed = operation.tensors.table(_packed(weights, factors.group))
    taps, axes = taps_of((*kernel, -(-ins // factors.group)))

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps[:2])
        first = taps[2] * factors.group
        return factors.total(
            lambda number: source[n, row, column, first + number],
            lambda number: packed[block, *taps, lane, number],
            axes,
        )

    return _finished(operation, map_shape(operation.kind.shape), products, factors)


def _conv2d_in_order(operation: GraphOperation) -> te.Tensor:
    """Of a map with its channels first, such as an image: groups are of columns, which lie side by
    side."""
    factors = operation.tensors.factors
    weights = operation.constant(1)
    images, channels, height, width = operation.type(0).shape
    _, ins, rows, columns = weights.shape
    top, left, bottom, right = operation.ints("pads")
    stride = operation.ints("strides")[1]
    read = operation.plain(0).padded(operation.whole("pad_value"))
    extents = (top + height + bottom, left + width + right + -columns % factors.group)
    source = operation.compute(
        (images, channels, *extents),
        lambda n, c, h, w: factors.element(read[n, c, h - top, w - left]),
    )
    packed = operation.tensors.table(_packed(np.moveaxis(weights, 3, 1), factors.group))
    taps, axes = taps_of((ins, rows, -(-columns // factors.group)))

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, _ = places(operation, (h, w), (taps[1], taps[2]))
        first = w * stride + taps[2] * factors.group
        return factors.total(
            lambda number: source[n, taps[0], row, first + number],
            lambda number: packed[block, *taps, lane, number],
            axes,
        )

    return _finished(operation, map_shape(operation.kind.shape), products, factors)


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
    operation: GraphOperation,
    shape: tuple[int, ...],
    products: Callable[..., Expr],
    factors: Factors | None = None,
) -> te.Tensor:
    """The sums of `products`, with elements as `factors` has them, requantized."""
    rows = operation.constant(2)
    if factors is not None:
        rows = factors.biased(rows, operation.constant(1))
    return _requantized(operation, operation.compute(shape, products), rows)


def _requantized(operation: GraphOperation, sums: te.Tensor, rows: Array) -> te.Tensor:
    """The result, of sums and parameters [bias, multiplier, shift]."""
    finish = Requantization(operation, rows)

    def formula(*i: Expr) -> Expr:
        return finish(sums[i], by_channel(operation, i[-2], i[-1]))

    return operation.compute(sums.shape, formula)


def _groups_of_channels(operation: GraphOperation, factors: Factors) -> te.Tensor:
    """The padded map of factors (N, H, W, C), with channels for whole groups."""
    if operation.reads_map(0):
        padded = padded_map(operation, factors.element, operation.whole("pad_value"))
        images, height, width, count, _ = padded.shape
        return operation.tensors.viewed(padded, (images, height, width, count * LANES))
    images, channels, height, width = operation.type(0).shape
    top, left, bottom, right = operation.ints("pads")
    read = operation.plain(0).padded(operation.whole("pad_value"))
    channels += -channels % factors.group
    shape = (images, top + height + bottom, left + width + right, channels)
    return operation.compute(
        shape, lambda n, h, w, c: factors.element(read[n, c, h - top, w - left])
    )


def _packed(weights: Array, group: int) -> Array:
    """Weights (O, I, ...) as (blocks of O, ..., groups of I, lanes, group)."""
    outs, ins, *kernel = weights.shape
    groups = -(-ins // group)
    whole = np.zeros((blocks(outs) * LANES, groups * group, *kernel), np.int8)
    whole[:outs, :ins] = weights
    split = whole.reshape(-1, LANES, groups, group, *kernel)
    return np.ascontiguousarray(np.moveaxis(split, (1, 2, 3), (-2, -3, -1)))


def _lower_dense(operation: GraphOperation) -> te.Tensor:
    factors = operation.tensors.factors
    weights, shape = operation.constant(1), operation.kind.shape
    outs, depth = weights.shape
    groups = -(-depth // factors.group)
    source = _groups_of_rows(operation, groups, factors)
    k = te.reduce_axis(groups, "k")
    if factors.group > 1:
        return _dense_in_order(operation, source, k)
    packed = operation.tensors.table(_packed(weights, factors.group))

    def products(*i: Expr) -> Expr:
        *rows, block, lane = i
        return factors.total(
            lambda number: source[*rows, k * factors.group + number],
            lambda number: packed[block, k, lane, number],
            [k],
        )

    result = _finished(operation, (*shape[:-1], blocks(outs), LANES), products, factors)
    return operation.compute(shape, lambda *i: result[*i[:-1], i[-1] // LANES, i[-1] % LANES])


def _dense_in_order(operation: GraphOperation, source: te.Tensor, k: Axis) -> te.Tensor:
    """Results in the order of their axes, as what comes next reads them, so that it is computed
    where the sums are in registers. Weights lie as the register tile reads them."""
    factors, weights = operation.tensors.factors, operation.constant(1)
    outs, depth = weights.shape
    whole = np.zeros((outs, k.extent * factors.group), np.int8)
    whole[:, :depth] = weights
    groups = np.moveaxis(whole.reshape(outs, k.extent, factors.group), 0, 1)
    table = operation.tensors.table(groups, laid_out=False)

    def products(*i: Expr) -> Expr:
        *rows, out = i
        return factors.total(
            lambda number: source[*rows, k * factors.group + number],
            lambda number: table[k, out, number],
            [k],
        )

    sums = operation.compute(operation.kind.shape, products)
    finish = Requantization(operation, factors.biased(operation.constant(2), weights))
    return operation.compute(sums.shape, lambda *i: finish(sums[i], in_order(operation, i[-1])))


def _groups_of_rows(operation: GraphOperation, groups: int, factors: Factors) -> te.Tensor:
    """The rows (..., K) of the first operand as factors, with elements for whole groups."""
    name = operation.node.inputs[0]
    x = operation.plain(0)
    *rows, depth = operation.type(0).shape
    count = groups * factors.group
    read = x if depth == count else x.padded(0)

    def copied() -> te.Tensor:
        return operation.compute((*rows, count), lambda *i: factors.element(read[i]))

    return operation.tensors.once(("rows", name), copied)


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
    "q_dense": GraphLowering(_lower_dense, _dense_lacks, in_order=True),
}
"""By operator."""
