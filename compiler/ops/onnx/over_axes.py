"""Reductions of an operand over some of its axes, and the softmax that is made of them."""

import math
from collections.abc import Callable, Sequence

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import wide
from daedal.compiler.ops.onnx.operation import Operand, Operation
from daedal.compiler.ops.onnx.windows import taps_of
from daedal.compiler.tir.dtype import is_float
from daedal.compiler.tir.expr import Axis, Expr, FloatImm

__all__ = [
    "count_of",
    "first_extreme",
    "log_softmax",
    "normalized_axes",
    "normalized_axis",
    "number",
    "over_axes",
    "power",
    "softmax",
]

Index = tuple[Expr, ...]
"""Indices of one element of the operand."""

_LEAST_EXPONENTS = {"float32": -87.33654, "float64": -708.3964}
"""Of normal numbers: the logarithms of 2^-126 and 2^-1022, rounded up."""

Reduction = Callable[[Expr, Sequence[Axis]], Expr]


def normalized_axis(operation: Operation, axis: int, rank: int) -> int:
    """`axis` from 0 on. Raises ModelError where there is no such axis."""
    if not -rank <= axis < rank:
        raise operation.node.damaged(f"axis must be from {-rank} to {rank - 1}, not {axis}")
    return axis % rank


def normalized_axes(operation: Operation, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """`axes` from 0 on, in order. Raises ModelError where one is missing or given twice."""
    found = sorted(normalized_axis(operation, axis, rank) for axis in axes)
    if len(set(found)) < len(found):
        raise operation.node.damaged(f"axes must differ, not {list(axes)}")
    return tuple(found)


def count_of(x: Operand, axes: Sequence[int]) -> int:
    """How many elements are reduced to one."""
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return count


def over_axes(
    operation: Operation,
    x: Operand,
    axes: Sequence[int],
    reduce: Reduction,
    value: Callable[[Index], Expr],
    *,
    keepdims: bool = True,
    name: str = "reduced",
) -> Operand:
    """``reduce`` over `axes` of ``value(indices of an element of x)``.

    Parameters
    ----------
    keepdims : whether reduced axes are left with an extent of 1.
    """
    taps, reduced = taps_of([x.shape[axis] for axis in axes])
    inner = dict(zip(axes, taps, strict=True))
    shape = tuple(
        1 if dim in inner else extent
        for dim, extent in enumerate(x.shape)
        if keepdims or dim not in inner
    )

    def formula(*i: Expr) -> Expr:
        given = list(i)
        index = []
        for dim in range(x.rank):
            if dim not in inner:
                index.append(given.pop(0))
                continue
            index.append(inner[dim])
            if keepdims:
                given.pop(0)
        term = value(tuple(index))
        return reduce(term, reduced) if reduced else term

    return Operand(operation.compute(shape, formula, name), shape)


def number(element: Expr) -> Expr:
    """`element`, or minus infinity for a NaN: what maxima leave out."""
    return te.number_or(element, FloatImm(-math.inf, element.dtype))


def power(x: Expr, *, most: float | None = 0.0, terms: int = 1) -> Expr:
    """``exp(x)``, or 0 where that divided by `terms` is subnormal: in a sum that has an ``exp(0)``
    it is too small to matter, and some processors take a hundred times as long for such numbers.

    `x` is at most `most`: code for a limited range is shorter.
    """
    least = FloatImm(_LEAST_EXPONENTS[x.dtype] + math.log(terms), x.dtype)
    inside = te.maximum(x, least)
    if most is not None:
        inside = te.minimum(inside, FloatImm(most, x.dtype))
    return te.select(x < least, FloatImm(0.0, x.dtype), te.exp(inside))


def softmax(operation: Operation, x: Operand, axes: Sequence[int], dtype: str) -> Operand:
    """``exp(x - max) / sum(exp(x - max))`` over `axes`, as `dtype`: maximum, exponents, the inverse
    of their sum, products."""
    own = wide(x.dtype)
    highest = over_axes(operation, x, axes, te.max, lambda i: number(x[i]), name="max")
    terms = max(1, count_of(x, axes))  # a sum of powers of 0 at most is at most as large

    def formula(*i: Expr) -> Expr:
        return power(x[i].astype(own) - highest.broadcast(i).astype(own), terms=terms)

    powers = operation.compute(x.shape, formula, "exp")
    total = over_axes(operation, x, axes, te.sum, lambda i: powers[i], name="sum")
    share = Operand(operation.compute(total.shape, lambda *i: 1 / total[i], "share"), total.shape)
    quotient = operation.compute(x.shape, lambda *i: (powers[i] * share.broadcast(i)).astype(dtype))
    return Operand(quotient, x.shape)


def log_softmax(operation: Operation, x: Operand, axes: Sequence[int], dtype: str) -> Operand:
    """``x - max - log(sum(exp(x - max)))`` over `axes`, as `dtype`."""
    own = wide(x.dtype)
    highest = over_axes(operation, x, axes, te.max, lambda i: number(x[i]), name="max")

    def below(i: Index) -> Expr:
        return x[i].astype(own) - highest.broadcast(i).astype(own)

    total = over_axes(operation, x, axes, te.sum, lambda i: power(below(i)), name="sum")
    logarithm = operation.compute(total.shape, lambda *i: te.log(total[i]), "log")
    rest = Operand(logarithm, total.shape)
    result = operation.compute(x.shape, lambda *i: (below(i) - rest.broadcast(i)).astype(dtype))
    return Operand(result, x.shape)


def first_extreme(
    operation: Operation,
    x: Operand,
    axes: Sequence[int],
    extreme: Reduction,
    *,
    keepdims: bool = True,
    last: bool = False,
) -> Operand:
    """The row-major number along `axes` of the first (or last) largest or smallest element, int32.

    NaN is more extreme than any number, as it is for numpy.
    """
    best = over_axes(operation, x, axes, extreme, lambda i: x[i], name="extreme")
    count = count_of(x, axes)

    def number(i: Index) -> Expr:
        place: Expr | int = 0
        for axis in axes:
            place = i[axis] if isinstance(place, int) else place * x.shape[axis] + i[axis]
        found = te.eq(x[i], best.broadcast(i))
        if is_float(x.dtype):
            found = found | te.ne(x[i], x[i])
        return te.select(found, place, 0 if last else count - 1)

    reduce = te.max if last else te.min
    return over_axes(operation, x, axes, reduce, number, keepdims=keepdims, name="place")
