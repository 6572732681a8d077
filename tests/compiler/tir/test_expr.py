"""Expressions as they are built: dtypes, and index arithmetic that folds."""

import pytest

from daedal.compiler.tir.errors import ExpressionError
from daedal.compiler.tir.expr import And, Binary, Buffer, IntImm, Load, Or, Var
from daedal.compiler.tir.printer import expr_text

VAR = Var("i")
DATA = Load(Buffer("x", (4,), "int32"), (VAR,))


@pytest.mark.parametrize("dtype", ["bfloat8", "int7", ""])
def test_unknown_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(ExpressionError, match=f"dtype must be one of int8, .*, not {dtype!r}"):
        VAR.astype(dtype)
    with pytest.raises(ExpressionError, match="dtype must be one of"):
        Buffer("x", (4,), dtype)


def test_index_arithmetic_folds() -> None:
    assert VAR + 0 is VAR and VAR - 0 is VAR and VAR * 1 is VAR and VAR // 1 is VAR
    assert 0 + VAR is VAR and 1 * VAR is VAR
    for zero in (VAR * 0, VAR % 1, 0 * VAR):
        assert isinstance(zero, IntImm) and zero.value == 0
    seven = IntImm(3) * 2 + 1
    assert isinstance(seven, IntImm) and seven.value == 7
    assert isinstance(VAR * 2, Binary) and isinstance(0 - VAR, Binary)


def test_constants_that_wrap_do_not_fold() -> None:
    largest = IntImm((1 << 31) - 1)
    assert isinstance(largest + 0, IntImm)
    assert isinstance(largest + 1, Binary)


def test_data_stays_as_it_was_written() -> None:
    """A multiplication by 1 is an instruction."""
    for expr in (DATA + 0, DATA * 1, DATA * 0, 0 + DATA, VAR + DATA * 1):
        assert isinstance(expr, Binary)


def test_brackets_are_printed_where_they_are_needed() -> None:
    a, b, c = (VAR < 1, VAR < 2, VAR < 3)
    assert expr_text(Or(And(a, b), c)) == "i < 1 & i < 2 | i < 3"
    assert expr_text(And(Or(a, b), c)) == "(i < 1 | i < 2) & i < 3"
    assert expr_text((VAR + 1) * 2 - VAR // 3) == "(i + 1) * 2 - i // 3"
    assert expr_text(VAR - (VAR - 2)) == "i - (i - 2)"
