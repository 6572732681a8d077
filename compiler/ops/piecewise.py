"""Functions of one axis that are constant over runs of it, as nested selects."""

from collections.abc import Sequence

from daedal.compiler.tir.expr import Expr, select

__all__ = ["piecewise"]


def piecewise(axis: Expr, values: Sequence[Expr]) -> Expr:
    """The value of each position of `axis`, as nested selects over runs of equal ones."""
    result = values[-1]
    for position in range(len(values) - 1, 0, -1):
        if values[position - 1] != values[position]:
            result = select(axis < position, values[position - 1], result)
    return result
