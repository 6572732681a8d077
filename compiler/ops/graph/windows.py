"""What windows slide over: padded copies of maps, or maps that are read with pads around them."""

from collections.abc import Callable, Sequence

from daedal.compiler import te
from daedal.compiler.ops.graph.operation import GraphOperation
from daedal.compiler.ops.onnx.windows import is_faster_in_turn, taps_of
from daedal.compiler.tir.expr import Axis, Expr

__all__ = ["Element", "elements", "over_windows", "padded_map", "places"]

Element = Callable[[Expr, Expr, Expr, Expr, Expr], Expr]
"""An element of a padded map at an image, a row, a column, a block and a lane."""


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


def elements(operation: GraphOperation, value: int | float = 0) -> Element:
    """Reads the first operand, a map, with pads of `value` around it.

    Processors copy it with its pads; threads of a GPU that copy a part to shared memory, or that
    read what others have in the cache, see for themselves where it ends.
    """
    top, left, bottom, right = operation.ints("pads")
    if operation.layout.is_blocked or not any((top, left, bottom, right)):
        source = padded_map(operation, value=value)
        return lambda n, h, w, block, lane: source[n, h, w, block, lane]
    read = operation.map(0).tensor.padded(value)
    return lambda n, h, w, block, lane: read[n, h - top, w - left, block, lane]


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
    value: int | float,
    reduce: Callable[[Expr, Sequence[Axis]], Expr],
    dtype: str,
) -> te.Tensor:
    """``reduce`` over the elements, as `dtype`, of the windows of the first operand, a map, with
    pads of `value` around it; those of large windows along rows first."""
    kernel, shape = operation.ints("kernel"), operation.shape
    taps, axes = taps_of(kernel)
    source = elements(operation, value)
    images, _, _, *rest = shape
    top, _, bottom, _ = operation.ints("pads")
    rows = top + operation.type(0).shape[2] + bottom
    if not is_faster_in_turn(kernel, rows, shape[1]):

        def whole(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
            row, column = places(operation, (h, w), taps)
            return reduce(source(n, row, column, block, lane).astype(dtype), axes)

        return operation.compute(shape, whole)

    def along_row(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        _, column = places(operation, (h, w), taps)
        return reduce(source(n, h, column, block, lane).astype(dtype), axes[1:])

    part = operation.compute((images, rows, shape[2], *rest), along_row)

    def along_column(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, _ = places(operation, (h, w), taps)
        return reduce(part[n, row, w, block, lane], axes[:1])

    return operation.compute(shape, along_column)
