"""What windows slide over: padded copies of maps."""

from collections.abc import Callable, Sequence

from daedal.compiler import te
from daedal.compiler.ops.graph.operation import GraphOperation
from daedal.compiler.tir.expr import Expr

__all__ = ["padded_map", "places"]


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
