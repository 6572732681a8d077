"""Lowerings of operators whose results have one formula of an element of each operand.

Source: ONNX, "Multidirectional Broadcasting".
"""

import functools
from collections.abc import Callable, Mapping, Sequence

from daedal.compiler import te
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.tir.expr import Expr

__all__ = ["apply", "few", "in_float32", "pointwise", "variadic", "with_reals"]

MAX_OPERANDS = 32
"""Of one formula."""

Formula = Callable[..., Expr]
"""Takes an element of each operand, broadcast against the others."""


def apply(operation: Operation, formula: Formula, *operands: Operand) -> list[te.Tensor]:
    """One tensor: `formula` of the elements of `operands`."""
    shape = operation.result.shape
    for item in operands:
        ends = shape[len(shape) - item.rank :] if item.rank <= len(shape) else ()
        operation.require(
            len(ends) == item.rank
            and all(own in (1, wanted) for own, wanted in zip(item.shape, ends, strict=True)),
            f"operands must broadcast to {list(shape)}, and {list(item.shape)} does not",
        )
    return [operation.compute(shape, lambda *i: formula(*(item.broadcast(i) for item in operands)))]


def pointwise(num_operands: int, formula: Formula) -> Lowering:
    """The lowering of an operator without attributes."""

    def lower(operation: Operation) -> list[te.Tensor]:
        return apply(operation, formula, *map(operation.operand, range(num_operands)))

    return lower


def few(
    operation: Operation, formula: Callable[[Expr, Expr], Expr], operands: Sequence[Operand]
) -> list[Operand]:
    """At most `MAX_OPERANDS` that `formula` joins, from left to right, to what it makes of
    `operands`: the first ones are joined in tensors of their own, as a formula of hundreds nests
    too deeply."""
    found = list(operands)
    while len(found) > MAX_OPERANDS:
        first, found = found[:MAX_OPERANDS], found[MAX_OPERANDS:]
        (total,) = apply(operation, lambda *values: functools.reduce(formula, values), *first)
        found = [Operand(total, operation.result.shape), *found]
    return found


def variadic(formula: Callable[[Expr, Expr], Expr]) -> Lowering:
    """The lowering of an operator that joins any number of operands, from left to right."""

    def lower(operation: Operation) -> list[te.Tensor]:
        operands = [operation.operand(index) for index in range(max(len(operation.operands), 1))]
        operands = few(operation, formula, operands)
        return apply(operation, lambda *values: functools.reduce(formula, values), *operands)

    return lower


def with_reals(formula: Formula, **defaults: float) -> Lowering:
    """The lowering of an operator of one operand; `formula` takes its attributes by name."""

    def lower(operation: Operation) -> list[te.Tensor]:
        found: Mapping[str, float] = {
            name: operation.node.real(name, default) for name, default in defaults.items()
        }
        return apply(operation, functools.partial(formula, **found), operation.operand(0))

    return lower


def in_float32(formula: Formula) -> Formula:
    """`formula` of one element, in float32 where that is float16: only the result is rounded."""

    def wide(x: Expr, **attributes: float) -> Expr:
        if x.dtype != "float16":
            return formula(x, **attributes)
        return formula(x.astype("float32"), **attributes).astype("float16")

    return wide
