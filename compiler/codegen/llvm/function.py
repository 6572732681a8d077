"""`function_text`: a scheduled function as a module of LLVM's text.

The symbol takes ``(ptr buffers, i64 begin, i64 end)``: the addresses of the parameters in order,
and which iterations of the outermost loop to run, if that is parallel (else 0 and 1). It returns an
i64: 0, or in the checked form 1 where an index was outside its buffer.

A vectorized loop becomes operations on vectors; where its body branches on the loop's variable, it
stays a loop. Small buffers live on the stack: LLVM turns those with constant indices into
registers.
"""

import re
from collections.abc import Callable

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.llvm.expressions import Expressions, Lane
from daedal.compiler.codegen.llvm.scalars import (
    ELEMENT_BYTES,
    Value,
    broadcast,
    llvm_type,
    memory_type,
    turned,
)
from daedal.compiler.tir.expr import Binary, Buffer, Expr, Load, Var
from daedal.compiler.tir.linear import Linear, element_number
from daedal.compiler.tir.lower import lower
from daedal.compiler.tir.stmt import Allocate, BufferStore, For, If, PrimFunc, Seq, Stmt
from daedal.compiler.tir.visit import free_vars, loads
from daedal.native.function_text import FunctionText

__all__ = ["MAX_STACK_BYTES", "function_text", "parallel_extent"]

MAX_STACK_BYTES = 1 << 18
"""Buffers inside one function."""

LANES = 16
"""Lanes of a vector where a loop has more iterations; LLVM splits what the processor has not."""

SQUARES = (4, 8, 16)
"""Sides of squares that are turned in registers."""

_CALL = re.compile(r"call ([^@]+) @([\w.]+)\(([^)]*)\)")


def parallel_extent(func: PrimFunc) -> int:
    """Iterations of the outermost loop if it is parallel, else 1."""
    body = func.body
    return body.extent if isinstance(body, For) and body.kind == "parallel" else 1


def function_text(
    func: PrimFunc, symbol: str, *, checked: bool = False, iterations: int | None = None
) -> str:
    """A module with the function as `symbol`.

    Parameters
    ----------
    checked : whether the checked form is written.
    iterations : how many its callers count; by default those of its parallel loop. It runs as many
        of its own as the same part of all.

    Raises UnsupportedError for what has no code: an intrinsic, or buffers too large for the stack.
    """
    writer = _Writer(lower(func), checked)
    body = writer.written()
    parameters = ", ".join(
        f"ptr noalias {'' if buffer in func.outputs else 'readonly '}%a{number}"
        for number, buffer in enumerate(func.params)
    )
    lines = []
    for number in range(len(func.params)):
        lines.append(f"  %s{number} = getelementptr ptr, ptr %buffers, i64 {number}")
        lines.append(f"  %p{number} = load ptr, ptr %s{number}, align 8")
    given = ", ".join(f"ptr %p{number}" for number in range(len(func.params)))
    entry = "\n".join(lines)
    text = (
        f"define internal i64 @body({parameters}, i64 %begin, i64 %end) #0 {{\n{body}\n}}\n\n"
        f"define i64 @{symbol}(ptr %buffers, i64 %begin, i64 %end) #0 {{\n{entry}\n"
        f"{_call(given, parallel_extent(func), iterations)}}}\n\n"
        'attributes #0 = { nounwind "prefer-vector-width"="512" }\n'
    )
    return _declarations(text) + text


def _call(given: str, own: int, iterations: int | None) -> str:
    """The call of the body, with its own iterations."""
    if iterations in (None, own):
        return f"  %r = call i64 @body({given}, i64 %begin, i64 %end)\n  ret i64 %r\n"
    return (
        f"  %m0 = mul i64 %begin, {own}\n  %first = udiv i64 %m0, {iterations}\n"
        f"  %m1 = mul i64 %end, {own}\n  %last = udiv i64 %m1, {iterations}\n"
        "  %some = icmp ult i64 %first, %last\n  br i1 %some, label %run, label %none\n"
        f"run:\n  %r = call i64 @body({given}, i64 %first, i64 %last)\n  ret i64 %r\n"
        "none:\n  ret i64 0\n"
    )


def _declarations(text: str) -> str:
    """A declaration for every function that is called and not defined."""
    found: dict[str, str] = {}
    for result, name, given in _CALL.findall(text):
        if name != "body":
            kinds = ", ".join(_argument_type(item) for item in _split(given))
            found[name] = f"declare {result} @{name}({kinds})\n"
    return "".join(found[name] for name in sorted(found)) + "\n"


def _split(arguments: str) -> list[str]:
    """Arguments at commas outside ``<...>`` and ``(...)``."""
    parts, depth, start = [], 0, 0
    for position, letter in enumerate(arguments):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append(arguments[start:position])
            start = position + 1
    return [*parts, arguments[start:]]


def _argument_type(argument: str) -> str:
    argument = argument.strip()
    if argument.startswith("<"):
        return argument[: argument.index(">") + 1]
    return argument.split(" ", 1)[0]


class _Writer:
    """Writes one lowered function."""

    def __init__(self, func: PrimFunc, checked: bool) -> None:
        self._func = func
        self._checked = checked
        self._text = FunctionText()
        pointers = {buffer: f"%a{number}" for number, buffer in enumerate(func.params)}
        self._failure = self._text.label()
        self._at = Expressions(self._text, pointers, checked=checked, failure=self._failure)
        self._stack_bytes = 0
        self._loops = 0

    def written(self) -> str:
        """The body of the function."""
        self._at.places.append(self._text.place())
        body = self._func.body
        if isinstance(body, For) and body.kind == "parallel":
            self._loop(body, "%begin", "%end")
        else:
            self._write(body)
        self._text.leave("ret i64 0")
        self._text.start(self._failure)
        self._text.leave("ret i64 1")
        return self._text.body()

    def _write(self, stmt: Stmt) -> None:
        match stmt:
            case Seq(body):
                for part in body:
                    self._write(part)
            case For(kind="unroll") | For(extent=1):
                self._unrolled(stmt)
            case For(kind="vectorize") if self._takes_lanes(stmt):
                self._vectorized(stmt)
            case For(body=For(kind="vectorize", body=BufferStore())) if self._is_turned(stmt):
                self._turned(stmt)
            case For():
                self._loop(stmt, "0", str(stmt.extent))
            case If(condition, body):
                self._guarded(condition, body)
            case Allocate(allocations, body):
                for item in allocations:
                    self._allocate(item.buffer)
                self._write(body)
            case BufferStore():
                self._store(stmt)
            case _:
                raise AssertionError(f"no code for {stmt!r}")

    def _loop(
        self, loop: For, begin: str, end: str, body: Callable[[], None] | None = None
    ) -> None:
        """A loop that runs at least once: its range is never empty. `body` stands for its own."""
        text = self._text
        self._loops += 1
        var, following = f"%i{self._loops}", f"%n{self._loops}"
        head, after = text.label(), text.label()
        before = text.block
        text.start(head)
        self._at.values[loop.var] = var
        self._at.extents[loop.var] = loop.extent
        slot = text.reserve()
        self._at.places.append(text.place())
        self._at.levels[loop.var] = len(self._at.places) - 1
        if body is None:
            self._write(loop.body)
        else:
            body()
        self._at.places.pop()
        text.line(f"{following} = add nuw nsw i64 {var}, 1")
        going_on = text.value(f"icmp ult i64 {following}, {end}")
        latch = text.block
        text.fill(slot, f"{var} = phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]")
        text.branch(going_on, head, after)
        text.start(after)
        del self._at.values[loop.var], self._at.levels[loop.var]

    def _unrolled(self, loop: For) -> None:
        self._at.extents[loop.var] = loop.extent
        for number in range(loop.extent):
            self._at.values[loop.var] = number
            self._write(loop.body)
        del self._at.values[loop.var]

    def _takes_lanes(self, loop: For) -> bool:
        return (
            not self._checked
            and self._at.lane is None
            and loop.extent > 1
            and not _branches_on(loop.body, loop.var)
        )

    def _vectorized(self, loop: For) -> None:
        """All iterations at once, or a loop over vectors and one vector of the rest."""
        self._at.extents[loop.var] = loop.extent
        whole, rest = divmod(loop.extent, LANES)
        if loop.extent <= 2 * LANES:
            self._lanes(loop, loop.extent, 0)
            return
        numbers = For(Var("vector"), whole, loop.body)
        self._loop(numbers, "0", str(whole), lambda: self._strip(loop, numbers.var))
        if rest:
            self._lanes(loop, rest, whole * LANES)

    def _strip(self, loop: For, number: Var) -> None:
        first = self._text.value(f"mul nuw nsw i64 {self._at.values[number]}, {LANES}")
        self._lanes(loop, LANES, first)

    def _lanes(self, loop: For, count: int, first: str | int) -> None:
        self._at.lane = Lane(loop.var, count, first)
        self._write(loop.body)
        self._at.lane = None

    def _is_turned(self, rows: For) -> bool:
        """Whether a square of elements is stored along the inner loop and read along the outer.

        All are read before one is stored, so each must have a place of its own, and be computed
        of other buffers: a loop of a reduction is no such square.
        """
        assert isinstance(rows.body, For) and isinstance(rows.body.body, BufferStore)
        columns, store = rows.body, rows.body.body
        if self._checked or self._at.lane is not None or rows.extent != columns.extent:
            return False
        if rows.extent not in SQUARES or store.buffer.dtype == "bool":
            return False
        read = loads(store.value)
        if any(item.buffer is store.buffer for item in read):
            return False
        place = element_number(store.indices, store.buffer.shape)
        if _steps(place, columns.var) != 1 or abs(_steps(place, rows.var) or 0) < columns.extent:
            return False
        forms = [element_number(item.indices, item.buffer.shape) for item in read]
        return any(
            _steps(form, rows.var) == 1 and _steps(form, columns.var) not in (0, 1)
            for form in forms
        )

    def _turned(self, rows: For) -> None:
        """Vectors along the outer loop, turned in registers, stored along the inner one."""
        assert isinstance(rows.body, For) and isinstance(rows.body.body, BufferStore)
        at, columns, store = self._at, rows.body, rows.body.body
        count = rows.extent
        at.extents[rows.var] = at.extents[columns.var] = count
        vectors = []
        at.lane = Lane(rows.var, count)
        for number in range(count):
            at.values[columns.var] = number
            vectors.append(broadcast(self._text, at.value(store.value), count))
        del at.values[columns.var]
        at.lane = Lane(columns.var, count)
        for number, vector in enumerate(turned(self._text, vectors)):
            at.values[rows.var] = number
            place = at.place(store.buffer, store.indices)
            self._put(store.buffer, at.address(store.buffer, place), vector)
        del at.values[rows.var]
        at.lane = None

    def _guarded(self, condition: Expr, body: Stmt) -> None:
        text = self._text
        inside, after = text.label(), text.label()
        value = self._at.scalar(condition)
        text.branch(value.text, inside, after)
        text.start(inside)
        self._write(body)
        text.start(after)

    def _allocate(self, buffer: Buffer) -> None:
        count = 1
        for extent in buffer.shape:
            count *= extent
        self._stack_bytes += count * ELEMENT_BYTES[buffer.dtype]
        if self._stack_bytes > MAX_STACK_BYTES:
            raise UnsupportedError(
                f"buffers inside a function must have at most {MAX_STACK_BYTES} bytes, not "
                f"{self._stack_bytes} ({self._func.name!r}, buffer {buffer.name!r}); schedule "
                "smaller tiles"
            )
        self._at.pointers[buffer] = self._text.stack(f"[{count} x {memory_type(buffer.dtype)}]")

    def _store(self, store: BufferStore) -> None:
        at, buffer, lane = self._at, store.buffer, self._at.lane
        at.contract = _accumulates(store)
        value = at.value(store.value)
        at.contract = False
        place = at.place(buffer, store.indices)
        if lane is None or place.step == 0:
            assert not value.lanes, "lanes that write one place"
            self._put(buffer, at.address(buffer, place), value)
            return
        wide = broadcast(self._text, value, lane.count)
        if place.step == 1:
            self._put(buffer, at.address(buffer, place), wide)
            return
        for number in range(lane.count):
            one = self._text.value(f"extractelement {wide}, i64 {number}")
            self._put(buffer, at.address(buffer, place, number), Value(one, value.dtype))

    def _put(self, buffer: Buffer, address: str, value: Value) -> None:
        if value.dtype == "bool":
            kind = memory_type("bool", value.lanes)
            value = Value(self._text.value(f"zext {value} to {kind}"), "uint8", value.lanes)
            assert llvm_type("uint8", value.lanes) == kind
        align = ELEMENT_BYTES[buffer.dtype]
        self._text.line(f"store {value}, ptr {address}, align {align}")


def _steps(form: Linear, var: Var) -> int | None:
    """By how many elements a place moves along `var`; None where that differs."""
    mixed = any(term is not var and var in free_vars(term) for term, _ in form.terms)
    return None if mixed else form.coefficient(var)


def _accumulates(store: BufferStore) -> bool:
    """Whether a store adds to what it writes: the order of a sum's roundings is free already."""
    match store.value:
        case Binary("+", Load(buffer, indices), _):
            return buffer is store.buffer and indices == store.indices
    return False


def _branches_on(stmt: Stmt, var: Var) -> bool:
    """Whether a condition in `stmt` differs from lane to lane, or a store does not follow them."""
    match stmt:
        case Seq(body):
            return any(_branches_on(part, var) for part in body)
        case For(_, _, body) | Allocate(_, body):
            return _branches_on(body, var)
        case If(condition, body):
            return var in free_vars(condition) or _branches_on(body, var)
        case BufferStore(_, indices, _):
            return all(var not in free_vars(index) for index in indices)
    return False
