"""Convolutions of one to three dimensions: grouped, dilated, transposed, on integers.

A convolution is a copy of the map with its pads (none where all are 0), a sum of products, and an
elementwise epilogue for what follows the sum.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import centered, converted, requantized, wide
from daedal.compiler.ops.onnx.deformable import deformable_sums
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.ops.onnx.windows import (
    auto_pad,
    padded_copy,
    per_dimension,
    taps_of,
    window_of,
)
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]


def _conv(operation: Operation) -> list[te.Tensor]:
    """Conv-1, -11, -22."""
    total = _convolution(operation, operation.operand(0), operation.operand(1))
    return [_with_bias(operation, total, operation.optional(2))]


def _conv_integer(operation: Operation) -> list[te.Tensor]:
    """ConvInteger-10: zero points of the map for all, of the weights for all or per channel."""
    x = centered(operation, operation.operand(0), operation.optional(2), None)
    w = centered(operation, operation.operand(1), operation.optional(3), 0)
    return [_convolution(operation, x, w)]


def _qlinear_conv(operation: Operation) -> list[te.Tensor]:
    """QLinearConv-10: ``saturate(round((acc + bias) * (x_scale * w_scale / y_scale)) + zero)``."""
    x = centered(operation, operation.operand(0), operation.optional(2), None)
    w = centered(operation, operation.operand(3), operation.optional(5), 0)
    total = _convolution(operation, x, w)
    bias = operation.optional(8)
    x_scale, w_scale, y_scale = (operation.operand(index) for index in (1, 4, 6))
    zero = operation.optional(7)

    def formula(*i: Expr) -> Expr:
        acc = total[i] if bias is None else total[i] + bias[i[1]]
        scale = _single(x_scale) * _per_channel(w_scale, i[1]) / _single(y_scale)
        offset = None if zero is None else _single(zero)
        return requantized(acc, scale, offset, operation.result.dtype)

    return [operation.compute(total.shape, formula)]


def _single(operand: Operand) -> Expr:
    return operand[(0,) * operand.rank]


def _per_channel(operand: Operand, channel: Expr) -> Expr:
    """The element for a channel of an operand with one for all, or one per channel."""
    return operand[channel] if operand.rank == 1 and operand.shape != (1,) else _single(operand)


def _convolution(operation: Operation, x: Operand, w: Operand) -> te.Tensor:
    """The sums of products (N, M, *out) of `x` (N, C, *map) and `w` (M, C / groups, *kernel)."""
    node = operation.node
    window = window_of(node, x.shape[2:], _kernel(operation, x, w))
    num_maps, groups = w.shape[0], node.integer("group", 1)
    if x.shape[1] != w.shape[1] * groups or num_maps % groups:
        raise node.damaged("channels of map and weights must match the groups")
    padded = padded_copy(operation, x, window.before, window.overhang)
    taps, axes = taps_of(w.shape[1:])
    dtype = wide(x.dtype)

    def formula(*i: Expr) -> Expr:
        channel = i[1] // (num_maps // groups) * w.shape[1] + taps[0] if groups > 1 else taps[0]
        read = padded[(i[0], channel, *window.places(i[2:], taps[1:]))]
        return te.sum(read.astype(dtype) * w[(i[1], *taps)].astype(dtype), axes)

    return operation.compute((x.shape[0], num_maps, *window.out), formula, "sums")


def _kernel(operation: Operation, x: Operand, w: Operand) -> tuple[int, ...]:
    """The extents of the window. Raises UnsupportedError for other than one to three."""
    node = operation.node
    if x.rank != w.rank:
        raise node.damaged("map and weights must have the same rank")
    if not 3 <= x.rank <= 5:
        raise node.refuse("a convolution must have one to three dimensions", "reshape the map")
    kernel = tuple(w.shape[2:])
    if (node.integers("kernel_shape", None) or kernel) != kernel:
        raise node.damaged("kernel_shape must be the shape of the weights")
    return kernel


def _with_bias(operation: Operation, total: te.Tensor, bias: Operand | None) -> te.Tensor:
    """`total` plus the bias of each channel, in the dtype of the result."""
    dtype = operation.result.dtype
    if bias is None:
        return converted(operation, total, dtype)
    return operation.compute(
        total.shape, lambda *i: (total[i] + bias[i[1]].astype(total.dtype)).astype(dtype)
    )


def _deform_conv(operation: Operation) -> list[te.Tensor]:
    """DeformConv-19, -22."""
    return [_with_bias(operation, deformable_sums(operation), operation.optional(3))]


@dataclass(frozen=True)
class _Gather:
    """One dimension of a transposed convolution, as what each result reads.

    The result at o sums ``map[(o + before) // stride - tap * step] * weights[(o + before) % stride
    + stride * tap]``: no product with a zero between the elements of the map.

    Attributes
    ----------
    weights : extent of the weights after `spread`, a multiple of the stride.
    spread : how far apart the taps are in the weights' copy.
    """

    extent: int
    kernel: int
    stride: int
    dilation: int
    before: int
    out: int

    @property
    def spread(self) -> int:
        return self.dilation if self.stride > 1 else 1

    @property
    def step(self) -> int:
        return 1 if self.stride > 1 else self.dilation

    @property
    def taps(self) -> int:
        return -(-((self.kernel - 1) * self.spread + 1) // self.stride)

    @property
    def weights(self) -> int:
        return self.taps * self.stride

    @property
    def lead(self) -> int:
        """Zeros before the map."""
        return max((self.taps - 1) * self.step - self.before // self.stride, 0)

    @property
    def tail(self) -> int:
        """Zeros behind the map."""
        return max((self.out - 1 + self.before) // self.stride - (self.extent - 1), 0)

    def place(self, position: Expr, tap: Expr) -> Expr:
        return (position + self.before) // self.stride - tap * self.step + self.lead

    def weight(self, position: Expr, tap: Expr) -> Expr:
        return (position + self.before) % self.stride + tap * self.stride


def _conv_transpose(operation: Operation) -> list[te.Tensor]:
    """ConvTranspose-1, -11, -22."""
    node, x, w = operation.node, operation.operand(0), operation.operand(1)
    dims = _gathers(operation, x, _kernel(operation, x, w))
    groups = node.integer("group", 1)
    if x.shape[1] != w.shape[0] or x.shape[1] % groups:
        raise node.damaged("channels of map and weights must match the groups")
    depth, width = x.shape[1] // groups, w.shape[1]
    padded = padded_copy(operation, x, [dim.lead for dim in dims], [dim.tail for dim in dims])
    weights = _spread_weights(operation, w, dims)
    taps, axes = taps_of((depth, *(dim.taps for dim in dims)))
    dtype = wide(x.dtype)

    def formula(*i: Expr) -> Expr:
        channel = i[1] // width * depth + taps[0] if groups > 1 else taps[0]
        each = list(zip(dims, i[2:], taps[1:], strict=True))
        read = padded[(i[0], channel, *(dim.place(at, tap) for dim, at, tap in each))]
        column = i[1] % width if groups > 1 else i[1]
        factor = weights[(channel, column, *(dim.weight(at, tap) for dim, at, tap in each))]
        return te.sum(read.astype(dtype) * factor.astype(dtype), axes)

    out = (x.shape[0], width * groups, *(dim.out for dim in dims))
    total = operation.compute(out, formula, "sums")
    return [_with_bias(operation, total, operation.optional(2))]


def _gathers(operation: Operation, x: Operand, kernel: Sequence[int]) -> list[_Gather]:
    """Each dimension of a transposed convolution.

    Source: ONNX, ConvTranspose-22: output_shape makes pads superfluous; an odd pad is larger at the
    beginning unless auto_pad is SAME_UPPER. Pads are never negative (onnxruntime,
    conv_transpose_attributes.h).
    """
    node, count = operation.node, len(kernel)
    mode = auto_pad(node)
    strides = per_dimension(node, "strides", count, 1)
    dilations = per_dimension(node, "dilations", count, 1)
    pads = per_dimension(node, "pads", 2 * count, 0)
    extra = per_dimension(node, "output_padding", count, 0)
    wanted = node.integers("output_shape", None)
    same = mode in ("SAME_UPPER", "SAME_LOWER") and not wanted
    found = []
    for dim, extent in enumerate(x.shape[2:]):
        span = (kernel[dim] - 1) * dilations[dim] + 1
        full = strides[dim] * (extent - 1) + extra[dim] + span
        if wanted or same:
            out = wanted[len(wanted) - count + dim] if wanted else extent * strides[dim]
            out = min(out, full) if same else out
            total = max(full - out, 0)
            before = total // 2 if mode == "SAME_UPPER" else total - total // 2
        else:
            before, after = (0, 0) if mode == "VALID" else (pads[dim], pads[count + dim])
            out = full - before - after
        if out < 1:
            raise node.damaged("the pads must leave at least one result")
        found.append(_Gather(extent, kernel[dim], strides[dim], dilations[dim], before, out))
    return found


def _spread_weights(operation: Operation, w: Operand, dims: Sequence[_Gather]) -> Operand:
    """`w` with zeros between its taps, up to a multiple of the stride in each dimension."""
    shape = (*w.shape[:2], *(dim.weights for dim in dims))
    if shape == w.shape:
        return w

    def formula(*i: Expr) -> Expr:
        view = w.tensor.padded(0)[
            (*i[:2], *(at // dim.spread for dim, at in zip(dims, i[2:], strict=True)))
        ]
        value: Expr = view
        for dim, at in zip(dims, i[2:], strict=True):
            if dim.spread > 1:
                value = te.select(te.eq(at % dim.spread, 0), value, 0)
        return value

    return Operand(operation.compute(shape, formula, "spread"), shape)


LOWERINGS: Mapping[str, Lowering] = {
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "DeformConv": _deform_conv,
    "QLinearConv": _qlinear_conv,
}
"""By operator."""
