"""Convolutions of floats on maps with their channels last: a vector holds the channels of a result,
and each element of the map is repeated in its lanes."""

import math
from collections.abc import Callable

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.ops.graph.maps import (
    BLOCKED,
    LANES,
    depthwise_weight,
    depthwise_weights,
)
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.ops.graph.windows import elements, padded_map, places
from daedal.compiler.ops.graph.winograd import real_transform, winograd_sums
from daedal.compiler.ops.onnx.windows import taps_of
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = ["LOWERINGS"]


def _lower_conv2d(operation: GraphOperation) -> te.Tensor:
    weights, groups = operation.constant(1), operation.whole("groups")
    if groups > 1 and weights.shape[1] == 1 and weights.shape[0] == groups:
        return _depthwise(operation)
    transform = real_transform(operation)
    if transform is not None:
        return _with_bias(operation, winograd_sums(operation, transform))
    if not operation.layout.is_blocked:
        return _with_bias(operation, _unbroken_sums(operation, groups))
    outs, ins, *kernel = weights.shape
    source = _channels(operation)
    packed = operation.tensors.table(_packed(weights))
    taps, axes = taps_of((*kernel, ins))
    per_group = outs // groups // LANES

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps[:2])
        channel = taps[2] if groups == 1 else block // per_group * ins + taps[2]
        return te.sum(source(n, row, column, channel) * packed[block, *taps, lane], axes)

    return _with_bias(operation, operation.compute(operation.shape, products))


def _unbroken_sums(operation: GraphOperation, groups: int) -> te.Tensor:
    """The sums of products of a map whose channels are one block, or that has its channels first:
    the terms of a result follow each other in the weights, channels last, too."""
    weights = operation.constant(1)
    source = _channels(operation)
    filled = operation.layout.filled
    outs, ins = weights.shape[:2]
    if groups == 1 and operation.reads_map(0):
        ins = filled(ins)
    full = np.zeros((filled(outs), ins, *weights.shape[2:]), weights.dtype)
    full[:outs, : weights.shape[1]] = weights
    table = operation.tensors.table(np.moveaxis(full, 1, -1))
    taps, axes = taps_of(table.shape[1:])
    own = outs // groups

    def products(n: Expr, h: Expr, w: Expr, _block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps[:2])
        channel = taps[2] if groups == 1 else lane // own * ins + taps[2]
        return te.sum(source(n, row, column, channel) * table[lane, *taps], axes)

    return operation.compute(operation.shape, products)


def _depthwise(operation: GraphOperation) -> te.Tensor:
    weights = operation.constant(1)
    source = elements(operation)
    table = operation.tensors.table(depthwise_weights(weights, operation.layout))
    taps, axes = taps_of(weights.shape[2:])

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps)
        return te.sum(
            source(n, row, column, block, lane) * depthwise_weight(table, taps, block, lane), axes
        )

    return _with_bias(operation, operation.compute(operation.shape, products))


def _with_bias(operation: GraphOperation, sums: te.Tensor) -> te.Tensor:
    if len(operation.node.inputs) < 3:
        return sums
    bias = operation.per_channel(operation.constant(2), "float32")
    return operation.compute(sums.shape, lambda *i: sums[i] + bias[i[-2], i[-1]])


def _channels(operation: GraphOperation) -> Callable[[Expr, Expr, Expr, Expr], Expr]:
    """Reads the padded map at an image, a row, a column and a channel. A map that has its channels
    first stays as it is: each of its elements is read alone."""
    if operation.reads_map(0) and not operation.layout.is_blocked:
        source = elements(operation)
        return lambda n, h, w, c: source(n, h, w, IntImm(0), c)
    if operation.reads_map(0):
        padded = padded_map(operation)
        images, height, width, count, _ = padded.shape
        flat = operation.tensors.viewed(padded, (images, height, width, count * LANES))
        return lambda n, h, w, c: flat[n, h, w, c]
    x, (top, left, bottom, right) = operation.plain(0), operation.ints("pads")
    if not any((top, left, bottom, right)):
        return lambda n, h, w, c: x[n, c, h, w]
    images, channels, height, width = operation.type(0).shape
    read = x.padded(0)
    if not operation.layout.is_blocked:
        return lambda n, h, w, c: read[n, c, h - top, w - left]
    copy = operation.compute(
        (images, channels, top + height + bottom, left + width + right),
        lambda n, c, h, w: read[n, c, h - top, w - left],
    )
    return lambda n, h, w, c: copy[n, c, h, w]


def _packed(weights: Array) -> Array:
    """Weights (O, I, ...) as (blocks of O, ..., I, lanes)."""
    outs = len(weights)
    full = np.zeros((BLOCKED.filled(outs), *weights.shape[1:]), weights.dtype)
    full[:outs] = weights
    split = full.reshape(-1, LANES, *weights.shape[1:])
    return np.ascontiguousarray(np.moveaxis(split, (1, 2), (-1, -2)))


def _stays_in_order(operation: GraphOperation) -> bool:
    """Whether neither what a depthwise convolution reads nor what it gives has its channels last
    anywhere: two transposes would take longer than it, unless its rows do not fill vectors."""
    is_alone = not operation.has_map(0) and not operation.graph.users[operation.node.output]
    if operation.tensors.factors.group == 1 or not is_alone:  # vectors of processors
        return False
    least = LANES if math.prod(operation.ints("strides")) > 1 else LANES // 2
    return operation.kind.shape[-1] >= least


def _suits_conv2d(operation: GraphOperation) -> bool:
    """With constant weights, and groups whose results fill blocks or that have one channel."""
    if not all(operation.graph.is_constant(name) for name in operation.node.inputs[1:]):
        return False
    groups = whole(operation.node.attrs, "groups")
    outs, ins = operation.type(1).shape[:2]
    if ins == 1 and outs == groups > 1 and _stays_in_order(operation):
        return False
    return groups == 1 or (ins == 1 and outs == groups) or outs // groups % LANES == 0


LOWERINGS = {"conv2d": GraphLowering(_lower_conv2d, suits=_suits_conv2d)}
"""By operator."""
