"""Convolutions and dense layers: products in groups of channels, sums of int32.

The map is copied once, with its pads and as the processor multiplies (`Factors`), so that the
channels of a group are 32 bits, which an instruction puts into all lanes; weights lie in the order
in which they are read.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from daedal.artifact.constants import Packing
from daedal.compiler import te
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.ops.graph.factors import PAIRS, REALS, SINGLES, Factors
from daedal.compiler.ops.graph.maps import (
    BLOCKED,
    LANES,
    depthwise_weight,
    depthwise_weights,
)
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.ops.graph.pair_scaling import scaled_bytes
from daedal.compiler.ops.graph.requantize import Requantization, by_channel, in_order
from daedal.compiler.ops.graph.windows import elements, padded_map, places
from daedal.compiler.ops.graph.winograd import integer_transform, winograd_sums
from daedal.compiler.ops.onnx.windows import taps_of
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = ["LOWERINGS"]

LEAST_RESULTS = 8
"""Of a group of a convolution: fewer do not fill a vector."""
WHOLE = 1 << 24
"""Integers below are exact in float32."""
LEAST_USES = 16
"""Of a weight that is worth more bytes."""
LARGE_BYTES = 1 << 20
"""Of a map that does not stay in the cache of one core."""


def _lower_conv2d(operation: GraphOperation) -> te.Tensor:
    weights = operation.constant(1)
    outs, ins, *kernel = weights.shape
    if operation.whole("groups") > 1:
        is_depthwise = ins == 1 and outs == operation.whole("groups")
        return _depthwise(operation) if is_depthwise else _grouped(operation)
    if not operation.layout.is_blocked:
        return _unbroken(operation)
    if not operation.reads_map(0) and kernel[1] > 1 and operation.ints("dilations")[1] == 1:
        return _conv2d_in_order(operation)
    transform = integer_transform(operation)
    if transform is not None:
        return _requantized(operation, winograd_sums(operation, transform), operation.constant(2))
    factors = _factors(operation)
    source = _groups_of_channels(operation, factors)
    groups = factors.groups(ins)
    if factors.step and operation.reads_map(0):  # as many as the map has: columns follow each other
        groups = operation.layout.filled(ins) // factors.group
    packed = operation.tensors.table(
        weights, factors.changes(_packing(weights.shape, factors.group, groups))
    )
    taps, axes = taps_of((*kernel, groups))

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps[:2])
        first = taps[2] * factors.group
        return factors.total(
            lambda number: source(n, row, column, first + number),
            lambda number: packed[block, *taps, lane, number],
            axes,
        )

    return _finished(operation, operation.shape, products, factors)


def _unbroken(operation: GraphOperation) -> te.Tensor:
    """Of maps whose channels are one block: the terms of a result follow each other in the weights,
    channels last, too."""
    weights, filled = operation.constant(1), operation.layout.filled
    source = _groups_of_channels(operation, SINGLES)
    outs, ins, *kernel = weights.shape
    if operation.reads_map(0):
        ins = filled(ins)
    packing = Packing((filled(outs), ins, *kernel), (0, 0, 0, 0), (0, 2, 3, 1))
    table = operation.tensors.table(weights, (packing,))
    taps, axes = taps_of((*kernel, ins))

    def products(n: Expr, h: Expr, w: Expr, _block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps[:2])
        element = source(n, row, column, taps[2])
        return te.sum(element.astype("int32") * table[lane, *taps].astype("int32"), axes)

    return _finished(operation, operation.shape, products, SINGLES)


def _conv2d_in_order(operation: GraphOperation) -> te.Tensor:
    """Of a map with its channels first, such as an image: groups are of columns, which lie side by
    side."""
    factors = _factors(operation)
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
    moved = np.moveaxis(weights, 3, 1)
    packed = operation.tensors.table(moved, factors.changes(_packing(moved.shape, factors.group)))
    taps, axes = taps_of((ins, rows, -(-columns // factors.group)))

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, _ = places(operation, (h, w), (taps[1], taps[2]))
        first = w * stride + taps[2] * factors.group
        return factors.total(
            lambda number: source[n, taps[0], row, first + number],
            lambda number: packed[block, *taps, lane, number],
            axes,
        )

    return _finished(operation, operation.shape, products, factors)


def _factors(operation: GraphOperation) -> Factors:
    """As the processor multiplies: a small layer as floats where that is no slower and exact."""
    factors, weights = operation.tensors.factors, operation.constant(1)
    bytes_each = ELEMENT_BYTES[REALS.dtype]
    suits = (
        weights.size * bytes_each <= factors.real_bytes
        and math.prod(operation.type(0).shape) * bytes_each <= LARGE_BYTES
        and math.prod(operation.kind.shape) >= LEAST_USES * len(weights)
    )
    return REALS if suits and _is_exact_in_reals(operation) else factors


def _is_exact_in_reals(operation: GraphOperation) -> bool:
    """Whether float32 holds all sums of products; biases are added as fits them."""
    return int(_largest_sums(operation).max()) < WHOLE


def _depthwise(operation: GraphOperation) -> te.Tensor:
    """Each element is read once for each tap only, so that it takes longer to make an int32 of it
    than to multiply it: maps have float32, which hold all sums where these are small. A large map
    stays int8 if windows share little of it: there memory decides."""
    weights = operation.constant(1)
    scaled = _scaled(operation)
    if scaled is not None:
        return scaled
    in_reals = operation.tensors.factors.group > 1 and _is_exact_in_reals(operation)
    kind = "float32" if in_reals else "int32"
    pads = operation.whole("pad_value")
    is_shared = math.prod(operation.ints("strides")) == 1
    reals = math.prod(operation.layout.shape(operation.type(0).shape)) * ELEMENT_BYTES["float32"]
    converts = in_reals and (is_shared or reals <= LARGE_BYTES)
    source = elements(operation, pads)
    if converts:
        copied = padded_map(operation, REALS.element, pads)
        source = lambda *i: copied[i]  # noqa: E731
    packed = depthwise_weights(weights.astype(kind if in_reals else np.int8), operation.layout)
    table = operation.tensors.table(packed)
    taps, axes = taps_of(weights.shape[2:])

    def products(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps)
        element = source(n, row, column, block, lane).astype(kind)
        return te.sum(element * depthwise_weight(table, taps, block, lane).astype(kind), axes)

    return _finished(operation, operation.shape, products)


def _scaled(operation: GraphOperation) -> te.Tensor | None:
    """A convolution that multiplies each element by a number of its channel, as a normalization
    does; None for others, and where float32 does not have every result."""
    weights = operation.constant(1)
    pads, strides = operation.ints("pads"), operation.ints("strides")
    is_plain = weights.size == len(weights) and not any(pads) and math.prod(strides) == 1
    if not is_plain or operation.tensors.factors.group == 1:
        return None
    low, high = (operation.whole(name) + 128 for name in ("low", "high"))
    rows = np.broadcast_to(operation.constant(2), (len(weights), 3))
    zero = operation.whole("zero_point") + 128
    found = scaled_bytes(weights.ravel(), rows, low, high, zero)
    if found is None:
        return None
    x = operation.map(0).tensor
    factors, offsets = found

    def formula(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        read = by_channel(operation, block, lane)
        element = x[n, h, w, block, lane].astype("float32")
        whole = te.nearest(te.multiply_add(element, read(factors), read(offsets)))
        return (te.clip(whole, low, high) - 128).astype("int8")

    return operation.compute(operation.shape, formula)


def _grouped(operation: GraphOperation) -> te.Tensor:
    """Several convolutions of parts of the channels. Vectors hold results of one group, which need
    not fill blocks, so these are stored in the order of the channels."""
    weights, groups = operation.constant(1), operation.whole("groups")
    outs, ins, *kernel = weights.shape
    factors = _factors_of_groups(operation, ins, groups)
    source = _groups_of_channels(operation, factors)
    own, count = outs // groups, -(-ins // factors.group)
    packing = Packing(
        (groups, own, count * factors.group, *kernel),
        (0, 0, factors.group, 0, 0),
        (0, 4, 5, 2, 1, 3),
    )
    split = weights.reshape(groups, own, ins, *kernel)
    table = operation.tensors.table(split, factors.changes(packing), laid_out=False)
    taps, axes = taps_of((*kernel, count))

    def products(n: Expr, h: Expr, w: Expr, out: Expr) -> Expr:
        row, column = places(operation, (h, w), taps[:2])
        first = out // own * ins + taps[2] * factors.group
        return factors.total(
            lambda number: source(n, row, column, first + number),
            lambda number: table[out // own, *taps, out % own, number],
            axes,
        )

    *extents, num_blocks, lanes = operation.shape
    sums = operation.compute((*extents, outs), products)
    rows = factors.biased(operation.constant(2), weights)
    finish = Requantization(operation, rows, _largest_sums(operation))
    found = operation.compute(sums.shape, lambda *i: finish(sums[i], in_order(operation, i[-1])))
    if outs % lanes:
        read = found.padded(0)
        found = operation.compute((*extents, num_blocks * lanes), lambda *i: read[i])
    return operation.tensors.viewed(found, (*extents, num_blocks, lanes))


def _factors_of_groups(operation: GraphOperation, ins: int, groups: int) -> Factors:
    """The best with which what is read for the last group ends with the map: groups of products
    may reach into the next group of channels, whose weights are 0 there."""
    channels = ins * groups
    room = operation.layout.filled(channels) if operation.reads_map(0) else channels
    return next(
        item
        for item in (operation.tensors.factors, PAIRS, SINGLES)
        if channels - ins + -(-ins // item.group) * item.group <= room
    )


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
    finish = Requantization(operation, rows, _largest_sums(operation))

    def formula(*i: Expr) -> Expr:
        return finish(sums[i], by_channel(operation, i[-2], i[-1]))

    return operation.compute(sums.shape, formula)


def _largest_sums(operation: GraphOperation) -> Array:
    """Magnitude of the sums of products with each row of the weights, and with what lies
    `Factors.offset` above elements."""
    weights = operation.constant(1).astype(np.int64)
    largest = 128 + operation.tensors.factors.offset
    sums = np.abs(weights).reshape(len(weights), -1).sum(axis=1)
    return np.asarray(sums * largest)


def _groups_of_channels(
    operation: GraphOperation, factors: Factors
) -> Callable[[Expr, Expr, Expr, Expr], Expr]:
    """Reads the padded map of factors at an image, a row, a column and a channel; there are
    channels for whole groups."""
    pad_value = operation.whole("pad_value")
    if operation.reads_map(0) and not operation.layout.is_blocked:
        change = None if factors is SINGLES else factors.element
        if pad_value or change is not None:  # asynchronous copies fill up with zeros
            copied = padded_map(operation, change, pad_value)
            return lambda n, h, w, c: copied[n, h, w, 0, c]
        element = elements(operation)
        return lambda n, h, w, c: element(n, h, w, IntImm(0), c)
    if operation.reads_map(0):
        padded = padded_map(operation, factors.element, pad_value)
        images, height, width, count, _ = padded.shape
        flat = operation.tensors.viewed(padded, (images, height, width, count * LANES))
        return lambda n, h, w, c: flat[n, h, w, c]
    images, channels, height, width = operation.type(0).shape
    top, left, bottom, right = operation.ints("pads")
    read = operation.plain(0).padded(pad_value)
    if not operation.layout.is_blocked:
        return lambda n, h, w, c: read[n, c, h - top, w - left]
    channels = factors.groups(channels) * factors.group
    shape = (images, top + height + bottom, left + width + right, channels)
    copy = operation.compute(
        shape, lambda n, h, w, c: factors.element(read[n, c, h - top, w - left])
    )
    return lambda n, h, w, c: copy[n, h, w, c]


def _packing(shape: Sequence[int], group: int, groups: int | None = None) -> Packing:
    """Weights (O, I, ...) of `shape` as (blocks of O, ..., groups of I, lanes, group); as few
    groups as hold them, or `groups`."""
    outs, ins, *kernel = shape
    places = range(4, 4 + len(kernel))
    count = -(-ins // group) if groups is None else groups
    return Packing(
        (BLOCKED.filled(outs), count * group, *kernel),
        (LANES, group, *(0 for _ in kernel)),
        (0, *places, 2, 1, 3),
    )


def _lower_dense(operation: GraphOperation) -> te.Tensor:
    """Results in the order of their axes, as what comes next reads them, so that it is computed
    where the sums are in registers. Weights lie as the register tile reads them, or as they are:
    the terms of a result follow each other, as tensor cores read them."""
    factors, weights = _factors(operation), operation.constant(1)
    groups = factors.groups(weights.shape[1])
    source = _groups_of_rows(operation, groups, factors)
    k = te.reduce_axis(groups, "k")
    packing = Packing((len(weights), groups * factors.group), (0, factors.group), (1, 0, 2))
    if factors is SINGLES:
        table = operation.tensors.table(weights)
    else:
        table = operation.tensors.table(weights, factors.changes(packing), laid_out=False)

    def products(*i: Expr) -> Expr:
        *rows, out = i
        return factors.total(
            lambda number: source[*rows, k * factors.group + number],
            lambda number: table[out, k] if factors is SINGLES else table[k, out, number],
            [k],
        )

    sums = operation.compute(operation.kind.shape, products)
    rows = factors.biased(operation.constant(2), weights)
    finish = Requantization(operation, rows, _largest_sums(operation))
    return operation.compute(sums.shape, lambda *i: finish(sums[i], in_order(operation, i[-1])))


def _groups_of_rows(operation: GraphOperation, groups: int, factors: Factors) -> te.Tensor:
    """The rows (..., K) of the first operand as factors, with elements for whole groups."""
    name = operation.node.inputs[0]
    x = operation.plain(0)
    *rows, depth = operation.type(0).shape
    count = groups * factors.group
    read = x if depth == count else x.padded(0)

    def copied() -> te.Tensor:
        source = operation.compute((*rows, count), lambda *i: factors.element(read[i]))
        # In memory, so that the elements of a group are one load, not several conversions.
        return (
            operation.tensors.viewed(source, source.shape)
            if operation.tensors.factors.group > 1
            else source
        )

    return operation.tensors.once(("rows", name, factors.dtype), copied)


def _conv2d_lacks(graph: Graph, node: Node) -> str:
    weights, groups = graph.types[node.inputs[1]], whole(node.attrs, "groups")
    if weights.dtype != "int8":
        return f"weights must be int8, not {weights.dtype}"
    outs, ins = weights.shape[:2]
    if groups == 1 or (groups == outs and ins == 1) or outs // groups >= LEAST_RESULTS:
        return ""
    return f"a group of a convolution must have {LEAST_RESULTS} results, not {outs // groups}"


def _dense_lacks(graph: Graph, node: Node) -> str:
    weights = graph.types[node.inputs[1]]
    return "" if weights.dtype == "int8" else f"weights must be int8, not {weights.dtype}"


LOWERINGS = {
    "q_conv2d": GraphLowering(_lower_conv2d, _conv2d_lacks),
    "q_dense": GraphLowering(_lower_dense, _dense_lacks, in_order=True),
}
"""By operator."""
