"""What windows slide over: padded copies of maps."""

from collections.abc import Callable, Sequence

from daedal.compiler import te
from daedal.compiler.ops.graph.maps import map_shape
from daedal.compiler.ops.graph.operation import GraphOperation
from daedal.compiler.ops.onnx.windows import is_faster_in_turn, taps_of
from daedal.compiler.tir.expr import Axis, Expr

__all__ = ["over_windows", "padded_map", "places"]


def padded_map(
    operation: GraphOperation,
    change: Callable[[Expr], Expr] | None = None,
    value: int | float = 0,
) -> te.Tensor:
    """The first operand, a map, with pads of `value` around it, and each element changed."""
    x, pads = operation.map(0).tensor, operation.ints("pads")
    top, left, bottom, right = pads
    if not any(pads) and change is None:
        return x
    images, height, width, *rest = x.shape
    read = x.padded(value) if any(pads) else x

    def formula(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        element = read[n, h - top, w - left, block, lane]
        return element if change is None else change(element)

    shape = (images, top + height + bottom, left + width + right, *rest)
    key = ("padded", operation.node.inputs[0], pads, value, change)
    return operation.tensors.once(key, lambda: operation.compute(shape, formula))


def places(
    operation: GraphOperation, positions: Sequence[Expr], taps: Sequence[Expr]
) -> list[Expr]:
    """Row and column of the padded map that the taps of the windows at `positions` read."""
    strides = operation.ints("strides")
    dilations = operation.ints("dilations") if "dilations" in operation.node.attrs else (1, 1)
    return [
        place * stride + tap * dilation
        for place, stride, tap, dilation in zip(positions, strides, taps, dilations, strict=True)
    ]


def over_windows(
    operation: GraphOperation,
    source: te.Tensor,
    reduce: Callable[[Expr, Sequence[Axis]], Expr],
    dtype: str,
) -> te.Tensor:
    """``reduce`` over the elements, as `dtype`, of the windows of a padded map; those of large
    windows along rows first."""
    kernel, shape = operation.ints("kernel"), map_shape(operation.kind.shape)
    taps, axes = taps_of(kernel)
    images, rows, _, *rest = source.shape
    if not is_faster_in_turn(kernel, rows, shape[1]):

        def whole(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
            row, column = places(operation, (h, w), taps)
            return reduce(source[n, row, column, block, lane].astype(dtype), axes)

        return operation.compute(shape, whole)

    def along_row(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        _, column = places(operation, (h, w), taps)
        return reduce(source[n, h, column, block, lane].astype(dtype), axes[1:])

    part = operation.compute((images, rows, shape[2], *rest), along_row)

    def along_column(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, _ = places(operation, (h, w), taps)
        return reduce(part[n, row, w, block, lane], axes[:1])

    return operation.compute(shape, along_column)
