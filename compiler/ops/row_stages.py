"""Stages that softmax and the norms share, on accumulators (NB, CB, H, W, U, batch, lanes).

A row is the channels of one pixel: all blocks, parts and lanes. What belongs to a row has extent 1
in these dimensions but the last, whose lanes all hold it. The arithmetic is that of
`daedal.compiler.integer.row_functions`.
"""

from collections.abc import Callable

from daedal.compiler import te
from daedal.compiler.integer.row_functions import INDEX_ZERO_POINT
from daedal.compiler.te.table import entry_of
from daedal.compiler.tir.expr import Binary, Expr, IntImm

__all__ = [
    "combine",
    "count_above",
    "each",
    "last_blocks",
    "look_up",
    "minus_leading_zeros",
    "over_lanes",
    "over_row",
    "requantize_wide",
    "shift_right_by",
    "widen",
    "with_immediate",
]


def each(x: te.Tensor, function: Callable[[Expr], Expr], name: str) -> te.Tensor:
    """`function` of every element."""
    return te.compute(x.shape, lambda *i: function(x[i]), name)


def widen(x: te.Tensor, accumulator: str, name: str) -> te.Tensor:
    """The elements in the accumulators."""
    return each(x, lambda value: value.astype(accumulator), name)


def last_blocks(x: te.Tensor, first: int, name: str) -> te.Tensor:
    """The elements of `x` behind `first` channel blocks of zeros."""
    filled = x.padded(0)
    return te.compute(
        (x.shape[0], first + x.shape[1], *x.shape[2:]),
        lambda n, c, h, w, u, b, o: filled[n, c - first, h, w, u, b, o],
        name,
    )


def combine(op: str, x: te.Tensor, y: te.Tensor, name: str) -> te.Tensor:
    """``x op y``, where `y` may have extents of 1."""
    return te.compute(x.shape, lambda *i: Binary(op, x[i], y[_at(y, i)]), name)


def with_immediate(op: str, x: te.Tensor, value: int, name: str) -> te.Tensor:
    """``x op value``, even if that is `x`."""
    return each(x, lambda element: Binary(op, element, IntImm(value, x.dtype)), name)


def shift_right_by(x: te.Tensor, amount: te.Tensor | int, name: str) -> te.Tensor:
    """``x * 2**-amount``, halves to even."""
    if isinstance(amount, int):
        return each(x, lambda element: te.shift_even(element, amount), name)
    return te.compute(x.shape, lambda *i: te.shift_even(x[i], amount[_at(amount, i)]), name)


def over_row(reduction: Callable[..., Expr], x: te.Tensor, name: str) -> te.Tensor:
    """Blocks and parts reduced, lane by lane."""
    blocks, parts = te.reduce_axis(x.shape[1], "blocks"), te.reduce_axis(x.shape[4], "parts")
    return te.compute(
        (x.shape[0], 1, *x.shape[2:4], 1, *x.shape[5:]),
        lambda n, c, h, w, u, b, o: reduction(x[n, blocks, h, w, parts, b, o], [blocks, parts]),
        name,
    )


def over_lanes(reduction: Callable[..., Expr], x: te.Tensor, name: str) -> te.Tensor:
    """Lanes reduced; all of them get the result."""
    lane = te.reduce_axis(x.shape[-1], "lane")
    return te.compute(
        x.shape, lambda n, c, h, w, u, b, o: reduction(x[n, c, h, w, u, b, lane], [lane]), name
    )


def look_up(
    x: te.Tensor,
    steps: te.Tensor,
    number: int,
    table: te.Tensor,
    name: str,
    zero_point: int = INDEX_ZERO_POINT,
) -> te.Tensor:
    """Entries of `table` by row `number` of `steps` (rows, lanes, 3)."""

    def element(*i: Expr) -> Expr:
        return _entry(x[i], steps, IntImm(number), i[-1], table, zero_point).astype(x.dtype)

    return te.compute(x.shape, lambda *i: element(*i), name)


def minus_leading_zeros(
    x: te.Tensor, steps: te.Tensor, first: int, count: int, table: te.Tensor, name: str
) -> te.Tensor:
    """`compiler.integer.row_functions.minus_leading_zeros` by `count` rows of `steps` from `first`.

    Intermediate tensor: ``bytes``, one for each step.
    """

    def byte(s: Expr, n: Expr, c: Expr, h: Expr, w: Expr, u: Expr, b: Expr, o: Expr) -> Expr:
        value = _entry(x[n, c, h, w, u, b, o], steps, s + first, o, table, INDEX_ZERO_POINT)
        return value.astype(x.dtype)

    found = te.compute((count, *x.shape), byte, "bytes")
    step = te.reduce_axis(count, "step")
    return te.compute(x.shape, lambda *i: te.sum(found[(step, *i)], step), name)


def count_above(x: te.Tensor, steps: te.Tensor, first: int, count: int, name: str) -> te.Tensor:
    """`compiler.integer.row_functions.count_above` by `count` rows of `steps` from `first`.

    A lane has another threshold in each, or zeros, which count nothing.

    Intermediate tensors: ``below``, -1 where x is; ``belows``, its sums over several rows.
    """

    def below(s: Expr, n: Expr, c: Expr, h: Expr, w: Expr, u: Expr, b: Expr, o: Expr) -> Expr:
        bias, multiplier, shift = (steps[s + first, o, part] for part in range(3))
        value = x[n, c, h, w, u, b, o]
        return te.requantize(value, bias, multiplier, shift, 0, -1, 0, "int8").astype(x.dtype)

    if count == 1:
        only = te.compute(x.shape, lambda *i: below(IntImm(0), *i), "below")
        return over_lanes(te.sum, only, name)
    found = te.compute((count, *x.shape), below, "below")
    step = te.reduce_axis(count, "step")
    belows = te.compute(x.shape, lambda *i: te.sum(found[(step, *i)], step), "belows")
    return over_lanes(te.sum, belows, name)


def requantize_wide(x: te.Tensor, steps: te.Tensor, number: int, name: str) -> te.Tensor:
    """16-bit results by row `number` of `steps`, without a zero point."""

    def element(*i: Expr) -> Expr:
        bias, multiplier, shift = (steps[number, i[-1], part] for part in range(3))
        low, high = -(1 << 15), (1 << 15) - 1
        return te.requantize(x[i], bias, multiplier, shift, 0, low, high, x.dtype)

    return te.compute(x.shape, lambda *i: element(*i), name)


def _entry(
    x: Expr, steps: te.Tensor, number: Expr, lane: Expr, table: te.Tensor, zero_point: int
) -> Expr:
    bias, multiplier, shift = (steps[number, lane, part] for part in range(3))
    index = te.requantize(x, bias, multiplier, shift, zero_point, -128, 127)
    return entry_of(table, index)


def _at(x: te.Tensor, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices of an element of `x`, 0 in dimensions of extent 1."""
    return tuple(
        IntImm(0) if extent == 1 else index for extent, index in zip(x.shape, indices, strict=True)
    )
