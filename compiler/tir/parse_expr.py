"""Expressions and regions of the loop IR, read from their text; used by `parser`."""

from collections.abc import Mapping
from dataclasses import dataclass

from daedal.compiler.tir.dtype import BUFFER_DTYPES, INDEX_DTYPE, is_float, is_integer
from daedal.compiler.tir.expr import (
    And,
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Not,
    Or,
    Select,
    Var,
    as_expr,
    check_operands,
)
from daedal.compiler.tir.intrinsics import INTRINSICS, call
from daedal.compiler.tir.notation import DEFAULT_FLOAT, LEVEL, operand_dtypes
from daedal.compiler.tir.stmt import Range, Region
from daedal.compiler.tir.tokens import Line

__all__ = ["Scope", "parse_element", "parse_expr", "parse_index", "parse_ranges", "parse_region"]

Scope = Mapping[str, Var | Buffer]
"""What a name stands for, as it is written."""

_UNARY = 9


@dataclass(frozen=True)
class _Bare(Expr):
    """A number whose dtype is not known yet."""

    value: int | float
    dtype: str = ""


def parse_expr(line: Line, scope: Scope, wanted: str | None, what: str) -> Expr:
    """The next expression of a line, of the dtype that its place wants; None takes any.

    Raises
    ------
    ParseError, ExpressionError
        It is no expression, or one of another dtype; `what` names it.
    """
    expr = _Reader(line, scope).typed(wanted)
    if wanted is not None and expr.dtype != wanted:
        line.fail(f"{what} must be {wanted}, not {expr.dtype}; convert it, as in {wanted}(...)")
    return expr


def parse_index(line: Line, scope: Scope, what: str) -> Expr:
    """The next expression of a line, an integer of any dtype."""
    expr = _Reader(line, scope).typed(INDEX_DTYPE)
    if not is_integer(expr.dtype):
        line.fail(f"{what} must be an integer, not {expr.dtype}; convert it, as in int32(...)")
    return expr


def parse_element(line: Line, scope: Scope) -> tuple[Buffer, tuple[Expr, ...]]:
    """A buffer and indices, ``x[i, 0]``."""
    load = _Reader(line, scope).load()
    if load.pad_value is not None:
        line.fail("a store goes to an element inside a buffer; remove padded")
    return load.buffer, load.indices


def parse_region(line: Line, scope: Scope) -> Region:
    """A region, ``x.padded(0)[i, 0:+4]``."""
    buffer, pad_value = _Reader(line, scope).view("a region")
    line.expect("[", f"region of {buffer.name!r}")
    return Region(buffer, parse_ranges(line, scope, buffer), pad_value)


def parse_ranges(line: Line, scope: Scope, buffer: Buffer) -> tuple[Range, ...]:
    """The ranges of a region or a window, up to the bracket that closes them."""
    ranges: list[Range] = []
    while not ranges or line.take(","):
        begin = parse_index(line, scope, f"the begin of a range of {buffer.name!r}")
        extent = line.extent("the extent of a range") if line.take(":", "+") else 1
        ranges.append(Range(begin, extent))
    line.expect("]", f"a range of {buffer.name!r}")
    if len(ranges) != len(buffer.shape):
        line.fail(
            f"{buffer.name!r} has {len(buffer.shape)} dimensions and needs as many ranges, not "
            f"{len(ranges)}"
        )
    return tuple(ranges)


class _Reader:
    """Recursive descent over the rest of a line."""

    def __init__(self, line: Line, scope: Scope) -> None:
        self.line = line
        self.scope = scope

    def typed(self, wanted: str | None, level: int = 0) -> Expr:
        """An expression with dtypes; constants take the one that is wanted."""
        return self._with_dtypes(self._infix(level), wanted)

    def view(self, what: str) -> tuple[Buffer, int | float | None]:
        """A buffer, and what it is padded with."""
        line = self.line
        key = line.key(what)
        buffer = self.scope.get(key)
        if not isinstance(buffer, Buffer):
            line.fail(f"{line.plain(key)!r} is no buffer that lives here; allocate it above")
        if not line.take("."):
            return buffer, None
        if not line.take("padded", "("):
            line.fail(f"a buffer has only padded(value), not {line.found}")
        value = self.typed(buffer.dtype)
        line.expect(")", "padded")
        if not isinstance(value, IntImm | FloatImm) or value.dtype != buffer.dtype:
            line.fail(f"padded takes a constant of {buffer.dtype}")
        return buffer, value.value

    def load(self) -> Load:
        """An element of a buffer, perhaps outside of it."""
        line = self.line
        buffer, pad_value = self.view("an element")
        line.expect("[", f"{buffer.name!r}")
        indices: list[Expr] = []
        while not indices or line.take(","):
            indices.append(parse_index(line, self.scope, f"an index of {buffer.name!r}"))
        line.expect("]", f"an index of {buffer.name!r}")
        if len(indices) != len(buffer.shape):
            line.fail(
                f"{buffer.name!r} has {len(buffer.shape)} dimensions and needs as many indices, "
                f"not {len(indices)}"
            )
        return Load(buffer, tuple(indices), pad_value)

    # -- the grammar ------------------------------------------------------------------------------

    def _infix(self, level: int) -> Expr:
        """Operators that bind at least as strongly as `level`; constants without dtypes."""
        left = self._operand()
        while LEVEL.get(op := self.line.peek(), -1) >= level:
            self.line.take(op)
            left = self._joined(op, left, self._infix(LEVEL[op] + 1))
        return left

    def _joined(self, op: str, left: Expr, right: Expr) -> Expr:
        if op == "&":
            return And(self._with_dtypes(left, "bool"), self._with_dtypes(right, "bool"))
        if op == "|":
            return Or(self._with_dtypes(left, "bool"), self._with_dtypes(right, "bool"))
        if LEVEL[op] != LEVEL["<"]:
            return Binary(op, left, right)
        pair = Compare(op, left, right)
        a, b = self._operands(op, pair, (left, right), None)
        return Compare(op, a, b)

    def _operand(self) -> Expr:
        line = self.line
        if line.take("~"):
            return Not(self.typed("bool", _UNARY))
        if line.take("("):
            inner = self._infix(0)
            line.expect(")", "an expression in parentheses")
            return inner
        number = line.number_or_none()
        if number is not None:
            return self._number(number)
        if line.peek() == "-":
            line.fail("a minus sign without a left operand stands before a number; write 0 - x")
        if not line.at_name:
            line.fail(f"an expression cannot begin with {line.found}")
        if line.peek() in ("True", "False"):
            return IntImm(int(line.key("a constant") == "True"), "bool")
        if line.peek(1) == "(":
            return self._called()
        if line.peek(1) in ("[", "."):
            return self.load()
        return self._variable()

    def _number(self, value: int | float) -> Expr:
        dtype = self._ascribed()
        if dtype is None:
            return _Bare(value)
        if isinstance(value, float) != is_float(dtype):
            kind = "a float" if is_float(dtype) else "an integer"
            self.line.fail(f"a constant of {dtype} must be {kind}, not {value}")
        return as_expr(value, dtype)

    def _ascribed(self) -> str | None:
        """The dtype that stands behind a value."""
        if self.line.peek() == ":" and self.line.peek(1) in BUFFER_DTYPES:
            self.line.take(":")
            return self.line.key("a dtype")
        return None

    def _variable(self) -> Expr:
        line = self.line
        key = line.key("an operand")
        var = self.scope.get(key)
        if isinstance(var, Buffer):
            line.fail(f"{var.name!r} is a buffer; an expression takes an element, {key}[...]")
        if var is None:
            line.fail(
                f"{line.plain(key)!r} is not bound here; inside a block, use the variables that it "
                "binds"
            )
        return var

    def _called(self) -> Expr:
        line = self.line
        name = line.name("a function")
        line.expect("(", name)
        args = [] if line.peek() == ")" else [self._infix(0)]
        while line.take(","):
            args.append(self._infix(0))
        line.expect(")", f"an argument of {name}")
        if name in BUFFER_DTYPES:
            self._check_count(name, args, 1)
            return Cast(name, self._with_dtypes(args[0], None))
        if name in ("min", "max"):
            self._check_count(name, args, 2)
            return Binary(name, args[0], args[1])
        if name == "select":
            self._check_count(name, args, 3)
            return Select(args[0], args[1], args[2])
        if name not in INTRINSICS:
            known = ", ".join(("select", "min", "max", *INTRINSICS))
            line.fail(f"a function must be a dtype or one of {known}, not {name!r}")
        self._check_count(name, args, len(INTRINSICS[name].parameters))
        return Call(name, tuple(args), self._ascribed() or "")

    def _check_count(self, name: str, args: list[Expr], count: int) -> None:
        if len(args) != count:
            self.line.fail(f"{name} takes {count} arguments, not {len(args)}")

    # -- dtypes -----------------------------------------------------------------------------------

    def _with_dtypes(self, expr: Expr, wanted: str | None) -> Expr:
        """`expr` with the dtypes that its text leaves out; see `notation`."""
        match expr:
            case _Bare(value):
                default = DEFAULT_FLOAT if isinstance(value, float) else INDEX_DTYPE
                return as_expr(value, wanted or default)
            case Binary(op, a, b):
                left, right = self._operands(op, expr, (a, b), wanted)
                check_operands(op, left, right)
                return Binary(op, left, right)
            case Select(condition, true, false):
                where = self._with_dtypes(condition, "bool")
                if where.dtype != "bool":
                    self.line.fail(f"select needs a bool, not {where.dtype}; compare the value")
                dtypes = operand_dtypes(expr, wanted)[1:]
                return Select(where, *self._same("select", (true, false), dtypes))
            case Call(name, args, own):
                dtypes = operand_dtypes(expr, wanted)
                pairs = zip(args, dtypes, strict=True)
                typed = tuple(self._with_dtypes(arg, dtype) for arg, dtype in pairs)
                if INTRINSICS[name].uniform:
                    return call(name, typed, own or None)
                return call(name, typed, own or wanted or INDEX_DTYPE)
        return expr

    def _operands(
        self, op: str, expr: Expr, parts: tuple[Expr, Expr], wanted: str | None
    ) -> tuple[Expr, Expr]:
        return self._same(op, parts, operand_dtypes(expr, wanted))

    def _same(
        self, op: str, parts: tuple[Expr, Expr], dtypes: tuple[str | None, ...]
    ) -> tuple[Expr, Expr]:
        """Two operands with their dtypes, which must be one."""
        a, b = (self._with_dtypes(part, own) for part, own in zip(parts, dtypes, strict=True))
        if a.dtype != b.dtype:
            self.line.fail(
                f"both operands of {op} must have one dtype, not {a.dtype} and {b.dtype}; convert "
                f"one, as in {a.dtype}(...)"
            )
        return a, b
