"""Values of expressions in LLVM's text: scalars, and vectors with a lane per iteration of a loop.

Indices are 64-bit integers. An address is split into a part that changes and a constant, so that
unrolled copies share the first.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

from daedal.compiler.codegen.llvm.approximations import normal_exp
from daedal.compiler.codegen.llvm.formulas import (
    decided,
    follows,
    has_normal_power,
    is_no_negative_zero,
    is_whole,
    quotient,
)
from daedal.compiler.codegen.llvm.intrinsics import (
    Library,
    c_library,
    called,
    nearest_quotient,
    rounded_product,
)
from daedal.compiler.codegen.llvm.places import REPEATED, Lane, Place, in_panels, swizzled
from daedal.compiler.codegen.llvm.scalars import (
    ELEMENT_BYTES,
    Value,
    arithmetic,
    bounded,
    broadcast,
    compared,
    constant,
    converted,
    extreme,
    llvm_type,
    memory_type,
    narrowed,
    saturated,
)
from daedal.compiler.tir.dtype import INDEX_DTYPE, limits
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
)
from daedal.compiler.tir.intrinsics import DOT_PRODUCTS
from daedal.compiler.tir.linear import Access, accessed_element, bounds
from daedal.compiler.tir.visit import free_vars, loads
from daedal.native.function_text import FunctionText

__all__ = ["Expressions"]

Announce = Callable[[Buffer, str, int, bool], None]


@dataclass
class Expressions:
    """Writes the values of expressions at one place of a function.

    Attributes
    ----------
    pointers : the address of each buffer: its type and a register.
    values : of each loop variable: a register, or a number in an unrolled loop.
    extents : of each loop variable.
    lane : the vectorized loop around, if there is one.
    contract : whether products and sums of floats may be fused.
    checked : whether an index that is outside its buffer jumps to the label `failure`.
    levels : how many loops are around the body of a variable's loop, that included.
    places : where values are computed once for the whole function, for an iteration of the
        outermost loop, of the one in it, and so on.
    library : writes functions of floats.
    swizzles : of buffers whose chunks are permuted: after how many bytes the permutation changes.
    panels : of those whose rows are cut into lines: bytes of a row, and how many rows follow each
        other before the next line of the first one. All are powers of two.
    announce : is told of every access of memory, with its address, bytes, and whether it is a
        store.
    """

    text: FunctionText
    pointers: dict[Buffer, str]
    values: dict[Var, str | int] = field(default_factory=dict)
    extents: dict[Var, int] = field(default_factory=dict)
    lane: Lane | None = None
    contract: bool = False
    checked: bool = False
    failure: str = ""
    levels: dict[Var, int] = field(default_factory=dict)
    places: list[Any] = field(default_factory=list)
    library: Library = c_library
    swizzles: dict[Buffer, int] = field(default_factory=dict)
    panels: dict[Buffer, tuple[int, int]] = field(default_factory=dict)
    announce: Announce | None = None

    def scalar(self, expr: Expr) -> Value:
        """The value of an expression that is the same in all lanes."""
        value = self.value(expr)
        assert not value.lanes, expr
        return value

    def varies(self, expr: Expr) -> bool:
        """Whether the value differs from lane to lane."""
        return self.lane is not None and self.lane.var in free_vars(expr)

    def value(self, expr: Expr) -> Value:
        """The value of `expr`: a vector where it varies, else a scalar."""
        match expr:
            case Var():
                return self._variable(expr)
            case IntImm(number, dtype) | FloatImm(number, dtype):
                return constant(number, dtype)
            case Binary("+", Call("dot_quads", args), start) | Binary(
                "+", start, Call("dot_quads", args)
            ) if self._varies_among(args):
                return self._dot_product("dot_quads", args, self.value(start))
            case Binary("max" | "min" as op, start, Call("number_or", (x, FloatImm(other)))) if (
                other == {"max": -math.inf, "min": math.inf}[op]
            ):
                return extreme(self.text, op, *self._alike(start, x))
            case Binary("+", Call("rounded_product" | "rounded_scaled", args), FloatImm(added)) if (
                added.is_integer()
            ):
                return rounded_product(self.text, self._alike(*args), added, self.library)
            case Binary(op, a, b):
                return arithmetic(self.text, op, *self._alike(a, b), contract=self.contract)
            case Compare(op, a, b):
                return compared(self.text, op, *self._alike(a, b))
            case And(a, b) | Or(a, b):
                left, right = self._alike(a, b)
                name = "and" if isinstance(expr, And) else "or"
                return Value(self.text.value(f"{name} {left}, {right.text}"), "bool", left.lanes)
            case Not(a):
                value = self.value(a)
                ones = broadcast(self.text, constant(1, "bool"), value.lanes)
                return Value(self.text.value(f"xor {value}, {ones.text}"), "bool", value.lanes)
            case Select(condition, true, false):
                return self._select(condition, true, false)
            case Cast(dtype, Cast("int8" | "uint8" | "int16" | "uint16" as narrow, inner)) if (
                dtype == inner.dtype != "float16" and self.varies(inner) and is_whole(inner)
            ):
                may_be = self.library is not c_library or not is_no_negative_zero(inner)
                return saturated(self.text, self.value(inner), narrow, may_be_negative_zero=may_be)
            case Cast("int16", Cast("int8" as narrow, inner)) if (
                inner.dtype == "float32" and self.varies(inner)
            ):
                return narrowed(self.text, self._whole(inner, narrow), "int16")
            case Cast("int8" | "uint8" as narrow, inner) if self.varies(inner) and quotient(inner):
                return converted(self.text, self._whole(inner, narrow), narrow)
            case Cast(dtype, inner):
                return converted(self.text, self.value(inner), dtype)
            case Load():
                return self._load(expr)
            case Call(name, args) if name in DOT_PRODUCTS:
                return self._dot_product(name, args)
            case Call("exp", (x,), "float32") if has_normal_power(x):
                return normal_exp(self.text, self.value(x))
            case Call(name, args, dtype):
                return called(self.text, name, self._alike(*args), dtype, self.library)
        raise AssertionError(f"no code for {expr!r}")

    def place(self, access: Access) -> Place:
        """Where an element lies in a buffer whose elements are in C order."""
        if self.checked:
            for index, extent in zip(access.indices, access.buffer.shape, strict=True):
                self._check(index, extent)
        total = accessed_element(access)
        step, scattered = 0, False
        number = total.constant
        parts: list[tuple[Value, int]] = []
        terms: list[tuple[Expr, int]] = []
        for term, factor in total.terms:
            if self.lane is not None and term is self.lane.var:
                step += factor
                first = self.lane.first
                if isinstance(first, int):
                    number += first * factor
                else:
                    parts.append((Value(first, "int64"), factor))
                continue
            if isinstance(term, Var) and isinstance(self.values.get(term), int):
                known = self.values[term]
                assert isinstance(known, int)
                number += known * factor
                continue
            scattered = scattered or self.varies(term)
            terms.append((term, factor))
        if not scattered:
            return Place(self._offset(parts, terms), number, step)
        if not step and (found := self._repeated_place(parts, terms, number)) is not None:
            return found
        parts += [(self.index(term), factor) for term, factor in terms]
        assert self.lane is not None
        if step:
            parts.append((self._numbers("int64"), step))
        return Place(self._sum(parts, self.lane.count), number, None)

    def _repeated_place(
        self, parts: list[tuple[Value, int]], terms: list[tuple[Expr, int]], number: int
    ) -> Place | None:
        """The place ``lane // n`` elements behind that of the first lane: its number is a multiple
        of n, as vectors begin at multiples of 16. None for others."""
        assert self.lane is not None
        varying = [(term, factor) for term, factor in terms if self.varies(term)]
        match varying:
            case [(Binary("//", Var() as var, IntImm(size)), 1)] if (
                var is self.lane.var and size in REPEATED
            ):
                rest = [(term, factor) for term, factor in terms if not self.varies(term)]
                first = self.lane.first
                if isinstance(first, int):
                    number += first // size
                else:
                    places = self.text.value(f"udiv exact i64 {first}, {size}")
                    parts = [*parts, (Value(places, "int64"), 1)]
                return Place(self._offset(parts, rest), number, 1, size)
        return None

    def _offset(self, parts: list[tuple[Value, int]], terms: list[tuple[Expr, int]]) -> str:
        """The sum of both, each term computed in the outermost loop that it does not change in."""
        total = "0"
        by_level = sorted(terms, key=lambda item: self._level(item[0]))
        for level, group in itertools.groupby(by_level, key=lambda item: self._level(item[0])):
            if level == len(self.places):
                parts += [(self.index(term), factor) for term, factor in group]
                continue
            with self.text.at(self.places[level]):
                values = [(self.index(term), factor) for term, factor in group]
                known = [] if total == "0" else [(Value(total, "int64"), 1)]
                total = self._sum([*known, *values], 0)
        known = [] if total == "0" else [(Value(total, "int64"), 1)]
        return self._sum([*known, *parts], 0)

    def _level(self, term: Expr) -> int:
        """The number of the place where a term of an index can be computed."""
        inner = len(self.places)
        if self.checked or loads(term):
            return inner
        found = [self.levels.get(var, 0) for var in free_vars(term)]
        return min(max(found, default=0), inner)

    def index(self, expr: Expr) -> Value:
        """An index expression as a 64-bit integer."""
        match expr:
            case Var():
                return self._variable(expr, "int64")
            case IntImm(number):
                return constant(number, "int64")
            case Binary(op, a, b) if expr.dtype == INDEX_DTYPE:
                if op in ("//", "%"):
                    return self._divided(op, a, b)
                left, right = self._matched(self.index(a), self.index(b))
                return arithmetic(self.text, op, left, right)
        return converted(self.text, self.value(expr), "int64")

    def address(self, buffer: Buffer, place: Place, lane: int = 0) -> str:
        """The type and address of an element, of one lane where the places differ."""
        kind = memory_type(buffer.dtype)
        pointer = self.pointers[buffer]
        offset = place.offset
        step = (place.step or 0) * (lane // place.repeated)
        number = place.constant + step
        if place.step is None and self.lane is not None:
            vector = f"<{self.lane.count} x i64> {offset}"
            offset = self.text.value(f"extractelement {vector}, i64 {lane}")
        if buffer in self.swizzles:
            return self._swizzled(buffer, offset, number)
        if offset != "0":
            pointer = self._behind(pointer, kind, offset)
        if number:
            pointer = self._behind(pointer, kind, str(number))
        return pointer

    def _swizzled(self, buffer: Buffer, offset: str, number: int) -> str:
        """The address of an element whose chunk of 16 bytes is exchanged with others of its line of
        128 bytes: their numbers are xored with that of the line."""
        text, size = self.text, ELEMENT_BYTES[buffer.dtype]
        scaled = text.value(f"mul i64 {offset}, {size}")
        place = text.value(f"add i64 {scaled}, {number * size}")
        if buffer in self.panels:
            place = in_panels(text, place, *self.panels[buffer])
        return self._behind(
            self.pointers[buffer], "i8", swizzled(text, place, self.swizzles[buffer])
        )

    def _behind(self, pointer: str, kind: str, number: str) -> str:
        """The address of the element of type `kind` that lies `number` elements further."""
        register = self.text.value(f"getelementptr {kind}, {pointer}, i64 {number}")
        return f"{pointer.rpartition(' ')[0]} {register}"

    def _variable(self, var: Var, dtype: str = INDEX_DTYPE) -> Value:
        if self.lane is not None and var is self.lane.var:
            first = self.lane.first
            base = constant(first, "int64") if isinstance(first, int) else Value(first, "int64")
            wide = broadcast(self.text, converted(self.text, base, dtype), self.lane.count)
            return arithmetic(self.text, "+", wide, self._numbers(dtype))
        known = self.values[var]
        if isinstance(known, int):
            return constant(known, dtype)
        value = Value(known, "int64")
        return converted(self.text, value, dtype)

    def _numbers(self, dtype: str) -> Value:
        """0, 1, 2, ... in the lanes."""
        assert self.lane is not None
        element, count = llvm_type(dtype), self.lane.count
        numbers = ", ".join(f"{element} {number}" for number in range(count))
        return Value(f"<{numbers}>", dtype, count)

    def _alike(self, *exprs: Expr) -> list[Value]:
        """Values of equal lanes."""
        return list(self._matched(*(self.value(expr) for expr in exprs)))

    def _matched(self, *values: Value) -> tuple[Value, ...]:
        lanes = max(value.lanes for value in values)
        if not lanes:
            return values
        return tuple(broadcast(self.text, value, lanes) for value in values)

    def _whole(self, real: Expr, narrow: str) -> Value:
        """Vectors of float32 as int32 that an integer of 8 bits holds."""
        known = quotient(real) if self.library is c_library else None
        if known is None:
            return bounded(self.text, self.value(real), narrow)
        given, added = known
        return nearest_quotient(self.text, self._alike(*given), added, limits(narrow))

    def _select(self, condition: Expr, true: Expr, false: Expr) -> Value:
        if (known := decided(condition, self.values)) is not None:
            return self.value(true if known else false)
        chosen = self.value(condition)
        left, right = self._alike(true, false)
        lanes = max(chosen.lanes, left.lanes)
        if lanes and not left.lanes:
            left, right = (broadcast(self.text, item, lanes) for item in (left, right))
        register = self.text.value(f"select {chosen}, {left}, {right}")
        return Value(register, left.dtype, left.lanes)

    def _divided(self, op: str, a: Expr, b: Expr) -> Value:
        """``//`` and ``%`` of an index; without a sign where the loops around show that."""
        left, right = self._matched(self.index(a), self.index(b))
        limits = bounds(a, self.extents)
        if isinstance(b, IntImm) and b.value > 0 and limits is not None and limits[0] >= 0:
            name = "udiv" if op == "//" else "urem"
            return Value(self.text.value(f"{name} {left}, {right.text}"), "int64", left.lanes)
        return arithmetic(self.text, op, left, right)

    def _sum(self, parts: list[tuple[Value, int]], lanes: int) -> str:
        """The sum of factors times 64-bit values, as a vector if there are lanes."""
        kind = llvm_type("int64", lanes)
        terms = []
        for part, factor in parts:
            term = (broadcast(self.text, part, lanes) if lanes else part).text
            if factor != 1:
                scale = f"splat (i64 {factor})" if lanes else str(factor)
                term = self.text.value(f"mul {kind} {term}, {scale}")
            terms.append(term)
        result = terms[0] if terms else "0"
        for term in terms[1:]:
            result = self.text.value(f"add {kind} {result}, {term}")
        return result

    def _load(self, load: Load) -> Value:
        buffer = load.buffer
        place = self.place(load)
        if place.step == 0:
            return self._read(buffer, self.address(buffer, place))
        assert self.lane is not None
        count = self.lane.count
        is_plain = buffer not in self.swizzles
        if place.repeated > 1 and is_plain:
            return self._read_repeated(buffer, place, count)
        if place.step == 1 and is_plain:
            return self._read(buffer, self.address(buffer, place), count)
        if place.step == 2 and is_plain and buffer.dtype != "bool":
            return self._every_second(buffer, place, count)
        kind, result = llvm_type(buffer.dtype, count), "poison"
        for lane in range(count):
            one = self._read(buffer, self.address(buffer, place, lane))
            result = self.text.value(f"insertelement {kind} {result}, {one}, i64 {lane}")
        return Value(result, buffer.dtype, count)

    def _read_repeated(self, buffer: Buffer, place: Place, count: int) -> Value:
        """One vector, whose elements each go to several lanes."""
        read = -(-count // place.repeated)
        found = self._read(buffer, self.address(buffer, place), read)
        numbers = ", ".join(f"i32 {lane // place.repeated}" for lane in range(count))
        mask = f"<{count} x i32> <{numbers}>"
        register = self.text.value(f"shufflevector {found}, {found.type} poison, {mask}")
        return Value(register, buffer.dtype, count)

    def _every_second(self, buffer: Buffer, place: Place, count: int) -> Value:
        """Elements 0, 2, ... of two vectors that overlap by one, so that all they read is there."""
        low = self._read(buffer, self.address(buffer, place), count)
        end = replace(place, constant=place.constant + count - 1)
        high = self._read(buffer, self.address(buffer, end), count)
        numbers = (2 * lane if 2 * lane < count else 2 * lane + 1 for lane in range(count))
        mask = f"<{count} x i32> <{', '.join(f'i32 {number}' for number in numbers)}>"
        return Value(self.text.value(f"shufflevector {low}, {high}, {mask}"), buffer.dtype, count)

    def _read(self, buffer: Buffer, address: str, lanes: int = 0) -> Value:
        dtype = buffer.dtype
        kind = memory_type(dtype, lanes)
        if self.announce is not None:
            self.announce(buffer, address, ELEMENT_BYTES[dtype] * max(lanes, 1), False)
        register = self.text.value(f"load {kind}, {address}, align {ELEMENT_BYTES[dtype]}")
        if dtype == "bool":
            zero = "zeroinitializer" if lanes else "0"
            register = self.text.value(f"icmp ne {kind} {register}, {zero}")
        return Value(register, dtype, lanes)

    def _varies_among(self, args: Sequence[Expr]) -> bool:
        """Whether one of `args` differs between lanes."""
        return any(self.varies(arg) for arg in args)

    def _dot_product(self, name: str, args: Sequence[Expr], start: Value | None = None) -> Value:
        """A sum of products, and of `start`; of lanes by the processor's own instruction."""
        half = len(args) // 2
        if not self._varies_among(args):
            values = [converted(self.text, self.value(arg), "int32") for arg in args]
            products = [arithmetic(self.text, "*", *values[n::half]) for n in range(half)]
            return reduce(partial(arithmetic, self.text, "+"), products)
        left, right = self._group(args[:half]), self._group(args[half:])
        count = left.lanes // half
        given = f"{left}, {right}"
        if name == "dot_quads":  # which adds to a sum, as the instruction does
            sums = broadcast(self.text, start or constant(0, "int32"), count)
            given = f"{sums}, {given}"
        return Value(
            self.text.value(f"call <{count} x i32> @{name}.v{count}({given})"), "int32", count
        )

    def _group(self, elements: Sequence[Expr]) -> Value:
        """The factors of each lane, one after the other: loaded at once where they lie so."""
        assert self.lane is not None
        count, size, dtype = self.lane.count, len(elements), elements[0].dtype
        inner = [item.value if isinstance(item, Cast) else item for item in elements]
        known = [item for item in inner if isinstance(item, Load)]
        if len(known) == size and all(map(follows, known, known[1:])):
            buffer = known[0].buffer
            place = self.place(known[0])
            if place.step in (0, size) and place.repeated == 1:
                number = size * count if place.step else size
                found = self._read(buffer, self.address(buffer, place), number)
                wide = converted(self.text, found, dtype)
                return wide if place.step else self._repeated(wide)
        values = [broadcast(self.text, self.value(item), count) for item in elements]
        while len(values) > 1:  # interleave the two halves until one vector is left
            half = len(values) // 2
            values = list(map(self._zipped, values[:half], values[half:]))
        return values[0]

    def _zipped(self, even: Value, odd: Value) -> Value:
        """The elements of two vectors in turn."""
        lanes = even.lanes
        mask = ", ".join(f"i32 {lane}, i32 {lanes + lane}" for lane in range(lanes))
        both = f"shufflevector {even}, {odd}, <{2 * lanes} x i32> <{mask}>"
        return Value(self.text.value(both), even.dtype, 2 * lanes)

    def _repeated(self, group: Value) -> Value:
        """The 32 bits of `group` in every lane."""
        assert self.lane is not None
        count = self.lane.count
        joined = Value(self.text.value(f"bitcast {group} to i32"), "int32")
        wide = broadcast(self.text, joined, count)
        result = llvm_type(group.dtype, group.lanes * count)
        return Value(
            self.text.value(f"bitcast {wide} to {result}"), group.dtype, group.lanes * count
        )

    def _check(self, index: Expr, extent: int) -> None:
        """Leave the function where an index is outside; a checked function has no lanes."""
        limits = bounds(index, self.extents)
        if limits is not None and limits[0] >= 0 and limits[1] < extent:
            return
        value = self.index(index)
        inside = self.text.value(f"icmp ult i64 {value.text}, {extent}")
        going_on = self.text.label()
        self.text.branch(inside, going_on, self.failure)
        self.text.start(going_on)
