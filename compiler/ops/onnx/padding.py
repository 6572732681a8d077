"""Operators that put elements around a tensor, or take some of its border away.

Source: ONNX, Pad and CenterCropPad.
"""

import math
from collections.abc import Callable, Mapping

from daedal.compiler import te
from daedal.compiler.ops.onnx.movement import moved, normalized_axis
from daedal.compiler.ops.onnx.operation import Array, Lowering, Operand, Operation
from daedal.compiler.tir.condition import all_of
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = ["LOWERINGS"]


def _lower_pad(operation: Operation) -> list[te.Tensor]:
    """Pads are an attribute below opset 11, a constant operand from there on; some are negative."""
    x, mode = operation.operand(0), operation.node.text("mode", "constant")
    fill: Operand | float | None
    if operation.opset >= 11:
        pads, fill = operation.integers(1), operation.optional(2)
    else:
        pads, fill = operation.node.integers("pads", None), operation.node.real("value", 0.0)
    given = operation.integers(3) if operation.opset >= 18 else None
    axes = [normalized_axis(operation, axis, x.rank) for axis in given or range(x.rank)]
    if pads is None or len(pads) != 2 * len(axes) or len(set(axes)) < len(axes):
        raise operation.node.damaged(f"pads must be two per axis, not {pads} for {axes}")
    before, shape = [0] * x.rank, list(x.shape)
    for axis, first, last in zip(axes, pads[: len(axes)], pads[len(axes) :], strict=True):
        before[axis] = first
        shape[axis] += first + last
    if mode == "constant":
        return [_filled(operation, x, before, shape, fill)]
    if mode not in _PLACES:
        raise operation.node.damaged(f"mode must be constant, edge, reflect or wrap, not {mode!r}")
    return [
        moved(
            operation,
            x,
            shape,
            lambda i: [
                _PLACES[mode](index - first, old) if first or old < new else index
                for index, first, old, new in zip(i, before, x.shape, shape, strict=True)
            ],
        )
    ]


def _reflected(index: Expr, extent: int) -> Expr:
    """The border itself is not repeated."""
    if extent == 1:
        return IntImm(0)
    period = 2 * (extent - 1)
    inside = index % period
    # The last minimum changes nothing: it is the bound that the check of reads can see.
    return te.minimum(te.minimum(inside, period - inside), extent - 1)


_PLACES: Mapping[str, Callable[[Expr, int], Expr]] = {
    "edge": lambda index, extent: te.clip(index, 0, extent - 1),
    "reflect": _reflected,
    "wrap": lambda index, extent: index % extent,
}
"""By mode: the index inside a tensor that an index, also one outside, stands for."""


def _filled(
    operation: Operation,
    x: Operand,
    before: list[int],
    shape: list[int],
    fill: Operand | float | None,
) -> te.Tensor:
    """`fill` outside of `x`; None is 0."""
    if isinstance(fill, Operand):
        operation.require(math.prod(fill.shape) == 1, "the value to pad with must be one number")
    known = _known(fill, x.dtype)

    def element(*i: Expr) -> Expr:
        places = [index - first for index, first in zip(i, before, strict=False)]
        if not x.shape:
            return x[()]
        if known is not None:
            return x.tensor.padded(known)[tuple(places)]
        assert isinstance(fill, Operand)
        tests = [
            test
            for place, old in zip(places, x.shape, strict=True)
            for test in (place >= 0, place < old)
        ]
        clamped = [te.clip(place, 0, old - 1) for place, old in zip(places, x.shape, strict=True)]
        inside = all_of(tests)
        assert inside is not None
        return te.select(inside, x[tuple(clamped)], fill[(0,) * fill.rank])

    return operation.compute(shape, element)


def _known(fill: Operand | float | None, dtype: str) -> int | float | None:
    """The number to fill with, or None where only a tensor has it."""
    value: Array | float | None = fill.constant if isinstance(fill, Operand) else fill or 0.0
    if value is None:
        return None
    number = value.item() if not isinstance(value, float) else value
    return float(number) if dtype.startswith("float") else int(number)


def _lower_center_crop_pad(operation: Operation) -> list[te.Tensor]:
    """Zeros on both sides, or both sides cut; the odd element is at the end."""
    x, shape = operation.operand(0), list(operation.result.shape)
    operation.node.integers("axes", None)
    operation.require(len(shape) == x.rank, f"{list(shape)} must have the rank of {list(x.shape)}")
    before = [
        (new - old) // 2 if new >= old else -((old - new) // 2)
        for new, old in zip(shape, x.shape, strict=True)
    ]
    return [_filled(operation, x, before, shape, None)]


LOWERINGS: Mapping[str, Lowering] = {
    "CenterCropPad": _lower_center_crop_pad,
    "Pad": _lower_pad,
}
"""By operator."""
