"""`combined`: a row of a small constant matrix times elements, as sums that rows share.

A reduction would multiply by every number of the matrix, zeros and ones too. Here each row is a sum
of its own, and the number of the row chooses among them. Where loops over rows are unrolled
(`compiler.cpu.combinations`), the chosen sums alone are left, and their equal parts are computed
once. Two rows that differ in signs alone share both parts, as do two columns::

    (-4, -4, 1, 1) . x = e + o, (4, -4, -1, 1) . x = e - o      e = x3 - 4 x1, o = x2 - 4 x0
    (1, 1) . x = p, (2, -2) . x = 2 m                           p = x0 + x1, m = x0 - x1
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt

from daedal.compiler.tir.expr import Expr, eq, select

__all__ = ["combined"]

Matrix = npt.NDArray[Any]
Terms = list[tuple[int, Expr]]
"""Factors, and what they multiply."""


def combined(matrix: Matrix, row: Expr, element: Callable[[int], Expr]) -> Expr:
    """Row number `row` of a matrix of whole numbers times the elements, in their dtype, in which
    integers wrap."""
    sums = [_sum(matrix, number, element) for number in range(len(matrix))]
    value = sums[-1]
    for number in reversed(range(len(sums) - 1)):
        value = select(eq(row, number), sums[number], value)
    return value


def _sum(matrix: Matrix, row: int, element: Callable[[int], Expr]) -> Expr:
    """One row times the elements."""
    partner = _partner(matrix, row)
    if partner is None:
        return _total(_terms(matrix, row, element))
    alike = matrix[row] == matrix[partner]
    first = min(row, partner)
    even, odd = (
        _total([(int(matrix[first, n]), element(n)) for n in range(len(part)) if part[n]])
        for part in (alike, ~alike)
    )
    return even + odd if row == first else even - odd


def _partner(matrix: Matrix, row: int) -> int | None:
    """The number of the row that has the same numbers as `row`, of which some have another sign."""
    own = matrix[row]
    for other in range(len(matrix)):
        alike = matrix[other] == own
        if (alike | (matrix[other] == -own)).all() and not alike.all() and own[alike].any():
            return other
    return None


def _terms(matrix: Matrix, row: int, element: Callable[[int], Expr]) -> Terms:
    """Those of one row; columns that differ in signs alone are added or subtracted first."""
    found: Terms = []
    left = list(range(matrix.shape[1]))
    while left:
        column = left.pop(0)
        own, factor = matrix[:, column], int(matrix[row, column])
        other = next(
            (n for n in left if ((matrix[:, n] == own) | (matrix[:, n] == -own)).all()), None
        )
        value = element(column)
        if other is not None:
            left.remove(other)
            again = element(other)
            value = value + again if matrix[row, other] == factor else value - again
        found.append((factor, value))
    return found


def _total(terms: Sequence[tuple[int, Expr]]) -> Expr:
    """The sum of products; at least one factor is not 0."""
    (factor, value), *rest = sorted(
        (item for item in terms if item[0]), key=lambda item: item[0] < 0
    )
    total = value if factor == 1 else value * factor
    for factor, value in rest:
        size = abs(factor)
        term = value if size == 1 else value * size
        total = total + term if factor > 0 else total - term
    return total
