"""DeformConv: a convolution that reads its map where offsets say, between elements."""

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import wide
from daedal.compiler.ops.onnx.operation import Operand, Operation
from daedal.compiler.ops.onnx.windows import Window, taps_of, window_of
from daedal.compiler.tir.expr import Expr

__all__ = ["deformable_sums"]


def deformable_sums(operation: Operation) -> te.Tensor:
    """The sums of products (N, M, OH, OW) of DeformConv-19, -22 of two dimensions, without bias.

    Raises UnsupportedError for other dimensions, ModelError where shapes do not match.
    """
    node, x, w = operation.node, operation.operand(0), operation.operand(1)
    if x.rank != 4 or w.rank != 4:
        raise node.refuse("a deformable convolution must have two dimensions", "reshape the map")
    kernel = tuple(w.shape[2:])
    if (node.integers("kernel_shape", None) or kernel) != kernel:
        raise node.damaged("kernel_shape must be the shape of the weights")
    window, num_maps = window_of(node, x.shape[2:], kernel), w.shape[0]
    groups = node.integer("group", 1)
    if x.shape[1] != w.shape[1] * groups or num_maps % groups:
        raise node.damaged("channels of map and weights must match the groups")
    samples = _samples(operation, x, window)
    taps, axes = taps_of(w.shape[1:])
    dtype = wide(x.dtype)

    def formula(*i: Expr) -> Expr:
        channel = i[1] // (num_maps // groups) * w.shape[1] + taps[0] if groups > 1 else taps[0]
        return te.sum(
            samples[(i[0], channel, *taps[1:], *i[2:])] * w[(i[1], *taps)].astype(dtype), axes
        )

    return operation.compute((x.shape[0], num_maps, *window.out), formula, "sums")


def _samples(operation: Operation, x: Operand, window: Window) -> te.Tensor:
    """What each tap reads: (N, C, KH, KW, OH, OW), bilinear between elements, 0 outside."""
    node = operation.node
    offset_groups = node.integer("offset_group", 1)
    taps = window.kernel[0] * window.kernel[1]
    offset, mask, dtype = operation.operand(2), operation.optional(4), wide(x.dtype)
    if x.shape[1] % offset_groups or offset.shape[1] != offset_groups * taps * 2:
        raise node.damaged("offset_group must divide the channels, and match the offsets")
    depth, map_view = x.shape[1] // offset_groups, x.tensor.padded(0)

    def place(dim: int) -> te.Tensor:
        """Where each tap reads along a dimension, (N, offset_groups, KH, KW, OH, OW)."""

        def formula(n: Expr, g: Expr, u: Expr, v: Expr, i: Expr, j: Expr) -> Expr:
            at = window.places((i, j), (u, v))[dim] - window.before[dim]
            row = (g * taps + u * window.kernel[1] + v) * 2 + dim
            return at.astype(dtype) + offset[n, row, i, j].astype(dtype)

        shape = (x.shape[0], offset_groups, *window.kernel, *window.out)
        return operation.compute(shape, formula, "place")

    rows, columns = place(0), place(1)

    def formula(n: Expr, c: Expr, u: Expr, v: Expr, i: Expr, j: Expr) -> Expr:
        group = c // depth
        row, column = (tensor[n, group, u, v, i, j] for tensor in (rows, columns))
        top, left = te.floor(row), te.floor(column)
        below, beyond = row - top, column - left
        y, z = top.astype("int32"), left.astype("int32")

        def between(at: Expr) -> Expr:
            near = map_view[n, c, at, z].astype(dtype) * (1.0 - beyond)
            return near + map_view[n, c, at, z + 1].astype(dtype) * beyond

        value = between(y) * (1.0 - below) + between(y + 1) * below
        if mask is None:
            return value
        tap = group * taps + u * window.kernel[1] + v
        return value * mask[n, tap, i, j].astype(dtype)

    shape = (*x.shape[:2], *window.kernel, *window.out)
    return operation.compute(shape, formula, "samples")
