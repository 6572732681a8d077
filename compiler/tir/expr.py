"""Expressions shared by tensor expressions (te) and the loop IR (tir).

Every node is immutable. Python's operators build nodes (``+ - * // % < <= > >= & | ~``); ``==``
compares structure, so equality *inside* an expression is written `eq` and `ne`. `Var` and `Buffer`
compare by identity: two loops may have the same name.

Both operands of an operator have one dtype; Python numbers take the dtype of the other side;
anything else needs an explicit ``astype``. Integer arithmetic wraps at the width of its dtype.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daedal.compiler.tir.bfloat16 import BFLOAT16
from daedal.compiler.tir.dtype import INDEX_DTYPE, check_dtype, is_float, is_integer, limits
from daedal.compiler.tir.errors import ExpressionError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "And",
    "Axis",
    "Binary",
    "Buffer",
    "Call",
    "Cast",
    "Compare",
    "Expr",
    "ExprLike",
    "FloatImm",
    "IntImm",
    "Load",
    "Not",
    "Or",
    "PaddedView",
    "Reduce",
    "Select",
    "Var",
    "as_expr",
    "binary",
    "check_operands",
    "eq",
    "maximum",
    "minimum",
    "ne",
    "select",
]

ARITHMETIC = ("+", "-", "*", "/", "//", "%", "min", "max", "<<", ">>")


class Expr:
    """Base of all expressions; `dtype` is the type of the value."""

    dtype: str

    def __add__(self, other: ExprLike) -> Expr:
        return binary("+", self, other)

    def __radd__(self, other: ExprLike) -> Expr:
        return binary("+", other, self)

    def __sub__(self, other: ExprLike) -> Expr:
        return binary("-", self, other)

    def __rsub__(self, other: ExprLike) -> Expr:
        return binary("-", other, self)

    def __mul__(self, other: ExprLike) -> Expr:
        return binary("*", self, other)

    def __rmul__(self, other: ExprLike) -> Expr:
        return binary("*", other, self)

    def __truediv__(self, other: ExprLike) -> Expr:
        return binary("/", self, other)

    def __rtruediv__(self, other: ExprLike) -> Expr:
        return binary("/", other, self)

    def __floordiv__(self, other: ExprLike) -> Expr:
        return binary("//", self, other)

    def __mod__(self, other: ExprLike) -> Expr:
        return binary("%", self, other)

    def __lshift__(self, other: ExprLike) -> Expr:
        return binary("<<", self, other)

    def __rshift__(self, other: ExprLike) -> Expr:
        return binary(">>", self, other)

    def __neg__(self) -> Expr:
        return binary("-", 0, self)

    def __lt__(self, other: ExprLike) -> Expr:
        return _compare("<", self, other)

    def __le__(self, other: ExprLike) -> Expr:
        return _compare("<=", self, other)

    def __gt__(self, other: ExprLike) -> Expr:
        return _compare(">", self, other)

    def __ge__(self, other: ExprLike) -> Expr:
        return _compare(">=", self, other)

    def __and__(self, other: Expr) -> Expr:
        return And(self, other)

    def __or__(self, other: Expr) -> Expr:
        return Or(self, other)

    def __invert__(self) -> Expr:
        return Not(self)

    def astype(self, dtype: str) -> Expr:
        """This value as `dtype`: integers wrap, floats truncate towards zero and saturate, and
        not-a-number becomes the lowest integer."""
        return self if self.dtype == dtype else Cast(check_dtype(dtype), self)

    def __bool__(self) -> bool:
        raise ExpressionError(
            "an expression has no truth value while it is being written; use select, & and |"
        )


ExprLike = Expr | int | float


@dataclass(frozen=True, eq=False)
class Var(Expr):
    """A scalar that a loop or a block binds; compared by identity."""

    name: str
    dtype: str = INDEX_DTYPE


@dataclass(frozen=True, eq=False)
class Axis(Var):
    """A variable with a domain [0, extent): an axis of a tensor, or a variable of a block.

    `kind` is "spatial" (instances are independent) or "reduce" (instances accumulate).
    """

    extent: int = 1
    kind: str = "spatial"

    def __post_init__(self) -> None:
        if self.extent < 1:
            raise ExpressionError(
                f"extent must be positive, not {self.extent} (axis {self.name!r})"
            )
        assert self.kind in ("spatial", "reduce"), self.kind


@dataclass(frozen=True)
class IntImm(Expr):
    """An integer (or, with dtype bool, 0 or 1) constant."""

    value: int
    dtype: str = INDEX_DTYPE


@dataclass(frozen=True)
class FloatImm(Expr):
    """A float constant."""

    value: float
    dtype: str = "float32"


@dataclass(frozen=True)
class Binary(Expr):
    """`op` in ``+ - * / // % min max << >>``; ``//`` and ``%`` round to minus infinity."""

    op: str
    a: Expr
    b: Expr
    dtype: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        assert self.op in ARITHMETIC, self.op
        object.__setattr__(self, "dtype", self.a.dtype)


@dataclass(frozen=True)
class Compare(Expr):
    """`op` in ``< <= > >= == !=``."""

    op: str
    a: Expr
    b: Expr
    dtype: str = field(default="bool", init=False, compare=False)


@dataclass(frozen=True)
class And(Expr):
    """Logical conjunction."""

    a: Expr
    b: Expr
    dtype: str = field(default="bool", init=False, compare=False)

    def __post_init__(self) -> None:
        _check_bool("&", self.a, self.b)


@dataclass(frozen=True)
class Or(Expr):
    """Logical disjunction."""

    a: Expr
    b: Expr
    dtype: str = field(default="bool", init=False, compare=False)

    def __post_init__(self) -> None:
        _check_bool("|", self.a, self.b)


@dataclass(frozen=True)
class Not(Expr):
    """Logical negation."""

    a: Expr
    dtype: str = field(default="bool", init=False, compare=False)

    def __post_init__(self) -> None:
        _check_bool("~", self.a)


@dataclass(frozen=True)
class Select(Expr):
    """`true` where `condition` holds, else `false`; both sides may be evaluated."""

    condition: Expr
    true: Expr
    false: Expr
    dtype: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.true.dtype)


@dataclass(frozen=True)
class Cast(Expr):
    """`value` converted to `dtype`."""

    dtype: str
    value: Expr


@dataclass(frozen=True, eq=False)
class Buffer:
    """A named array in a memory scope; compared by identity.

    Parameters
    ----------
    scope
        "global" (DRAM), or a scratchpad: "inp", "wgt", "acc", "par", "tab", "out".
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str = "global"

    def __post_init__(self) -> None:
        check_dtype(self.dtype)
        if not self.shape or any(not isinstance(n, int) or n < 1 for n in self.shape):
            raise ExpressionError(
                f"every dimension must be a positive integer, not {list(self.shape)} (tensor "
                f"{self.name!r})"
            )

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        return Load(self, _indices(self, indices))

    def padded(self, value: int | float) -> PaddedView:
        """A view that reads `value` outside the shape: ``x.padded(0)[i - 1]``."""
        constant = as_expr(value, self.dtype)
        assert isinstance(constant, IntImm | FloatImm), "padded takes a number"
        return PaddedView(self, constant.value)


@dataclass(frozen=True)
class PaddedView:
    """What `Buffer.padded` returns; only to be indexed."""

    buffer: Buffer
    value: int | float

    def __getitem__(self, indices: ExprLike | tuple[ExprLike, ...]) -> Expr:
        return Load(self.buffer, _indices(self.buffer, indices), self.value)


@dataclass(frozen=True)
class Load(Expr):
    """``buffer[indices]``; outside the shape it reads `pad_value`, illegal where None."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    pad_value: int | float | None = None
    dtype: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.buffer.dtype)


@dataclass(frozen=True)
class Call(Expr):
    """A scalar intrinsic of `daedal.compiler.tir.intrinsics`, by name."""

    name: str
    args: tuple[Expr, ...]
    dtype: str


@dataclass(frozen=True)
class Reduce(Expr):
    """`value` combined over `axes` (te only); `op` in "sum", "prod", "max", "min", "any"."""

    op: str
    value: Expr
    axes: tuple[Axis, ...]
    dtype: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.value.dtype)


def as_expr(value: ExprLike, dtype: str = INDEX_DTYPE) -> Expr:
    """A Python number as a constant of `dtype`; expressions pass through.

    Raises
    ------
    ExpressionError
        `dtype` cannot hold the number.
    """
    if isinstance(value, Expr):
        return value
    if is_float(dtype):
        return FloatImm(float(value), dtype)
    if isinstance(value, float):
        raise ExpressionError(f"a float constant cannot be {dtype} ({value}); use astype")
    low, high = (0, 1) if dtype == "bool" else limits(dtype)
    if not low <= value <= high:
        raise ExpressionError(
            f"a constant of {dtype} must be from {low} to {high}, not {value}; convert the other "
            "operand with astype"
        )
    return IntImm(int(value), dtype)


def select(condition: Expr, true: ExprLike, false: ExprLike) -> Expr:
    """`true` where `condition` holds, else `false`."""
    left, right = _one_dtype("select", true, false)
    _check_bool("select", condition)
    return Select(condition, left, right)


def minimum(a: ExprLike, b: ExprLike) -> Expr:
    """The smaller of two values."""
    return binary("min", a, b)


def maximum(a: ExprLike, b: ExprLike) -> Expr:
    """The larger of two values."""
    return binary("max", a, b)


def eq(a: ExprLike, b: ExprLike) -> Expr:
    """Equality as an expression."""
    return _compare("==", a, b)


def ne(a: ExprLike, b: ExprLike) -> Expr:
    """Inequality as an expression."""
    return _compare("!=", a, b)


def _one_dtype(op: str, a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    dtype = a.dtype if isinstance(a, Expr) else b.dtype if isinstance(b, Expr) else INDEX_DTYPE
    left, right = as_expr(a, dtype), as_expr(b, dtype)
    if left.dtype != right.dtype:
        raise ExpressionError(
            f"both operands of {op} must have one dtype, not {left.dtype} and {right.dtype}; "
            "convert one with astype"
        )
    return left, right


def _check_bool(op: str, *operands: Expr) -> None:
    for operand in operands:
        if operand.dtype != "bool":
            raise ExpressionError(
                f"{op} needs a bool, not {operand.dtype}; compare the value first"
            )


def binary(op: str, a: ExprLike, b: ExprLike) -> Expr:
    """``a op b`` with its dtypes checked; constants and neutral elements of indices fold."""
    left, right = _one_dtype(op, a, b)
    check_operands(op, left, right)
    folded = _folded(op, left, right)
    return Binary(op, left, right) if folded is None else folded


def check_operands(op: str, left: Expr, right: Expr) -> None:
    """Raise ExpressionError unless `op` is defined for two operands of one dtype."""
    dtype = left.dtype
    whole = op in ("//", "%", "<<", ">>")
    if (
        dtype in ("bool", BFLOAT16)
        or (op == "/" and not is_float(dtype))
        or (whole and not is_integer(dtype))
    ):
        raise ExpressionError(f"{op} is not defined for {dtype}; convert with astype")
    if op in ("//", "%") and isinstance(right, IntImm) and right.value == 0:
        raise ExpressionError(f"{op} needs a divisor other than 0")
    if op in ("<<", ">>") and isinstance(right, IntImm):
        bits = (limits(dtype)[1] - limits(dtype)[0]).bit_length()
        if not 0 <= right.value < bits:
            raise ExpressionError(
                f"{op} of {dtype} shifts by 0 to {bits - 1} bits, not {right.value}"
            )


def _folded(op: str, a: Expr, b: Expr) -> Expr | None:
    """Index arithmetic on constants and neutral elements, so that printed indices stay short.

    Data stays as it was written, whatever its dtype: a multiplication by 1 is an instruction.
    """
    if a.dtype != INDEX_DTYPE or not (_is_index(a) and _is_index(b)):
        return None
    if isinstance(b, IntImm):
        if isinstance(a, IntImm):
            value = _FOLD[op](a.value, b.value) if op in _FOLD else None
            # What wraps is left to the interpreters.
            return None if value is None or abs(value) > _LARGEST else IntImm(value)
        if (op in ("+", "-") and b.value == 0) or (op in ("*", "//") and b.value == 1):
            return a
        if op == "+" and -_LARGEST <= b.value < 0:
            return Binary("-", a, IntImm(-b.value))
        if (op == "*" and b.value == 0) or (op == "%" and b.value == 1):
            return IntImm(0)
    if isinstance(a, IntImm):
        if op == "+" and a.value == 0:
            return b
        if op == "*" and a.value in (0, 1):
            return b if a.value else a
    return None


def _is_index(expr: Expr) -> bool:
    """Whether an integer depends on variables alone."""
    if isinstance(expr, Binary):
        return _is_index(expr.a) and _is_index(expr.b)
    return isinstance(expr, Var | IntImm)


_LARGEST = limits(INDEX_DTYPE)[1]

_FOLD: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": min,
    "max": max,
}


def _compare(op: str, a: ExprLike, b: ExprLike) -> Expr:
    left, right = _one_dtype(op, a, b)
    if left.dtype == BFLOAT16:
        raise ExpressionError(f"{op} is not defined for {BFLOAT16}; convert with astype")
    return Compare(op, left, right)


def _indices(buffer: Buffer, indices: ExprLike | tuple[ExprLike, ...]) -> tuple[Expr, ...]:
    given = indices if isinstance(indices, tuple) else (indices,)
    if len(given) != len(buffer.shape):
        raise ExpressionError(
            f"{buffer.name!r} has {len(buffer.shape)} dimensions and needs as many indices, not "
            f"{len(given)}"
        )
    exprs = tuple(as_expr(index) for index in given)
    for expr in exprs:
        if not is_integer(expr.dtype):
            raise ExpressionError(
                f"an index of {buffer.name!r} must be an integer, not {expr.dtype}"
            )
    return exprs
