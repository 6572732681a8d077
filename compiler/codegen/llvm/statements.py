"""`Statements`: the statements of a lowered function in LLVM's text, for processors and GPUs.

A vectorized loop becomes operations on vectors; where its body branches on the loop's variable, it
stays a loop. Small buffers live on the stack: LLVM turns those with constant indices into
registers.
"""

from collections.abc import Callable

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.llvm.expressions import Expressions
from daedal.compiler.codegen.llvm.packing import PACKED_LANES, PackedStore, packed_store
from daedal.compiler.codegen.llvm.places import Lane
from daedal.compiler.codegen.llvm.scalars import (
    ELEMENT_BYTES,
    Value,
    arithmetic,
    broadcast,
    constant,
    llvm_type,
    memory_type,
    splat,
    turned,
)
from daedal.compiler.codegen.llvm.tiles import TileWriter
from daedal.compiler.tir.expr import Binary, Buffer, Expr, Load, Var
from daedal.compiler.tir.linear import Linear, accessed_element
from daedal.compiler.tir.stmt import Allocate, BufferStore, For, If, Prefetch, Seq, Stmt
from daedal.compiler.tir.tile_products import TILE, has_tiles, tile_operation
from daedal.compiler.tir.visit import free_vars, loads
from daedal.native.function_text import FunctionText

__all__ = ["LANES", "MAX_STACK_BYTES", "MOST_LANES", "Statements"]

MAX_STACK_BYTES = 1 << 18
"""Buffers inside one function."""

LANES, MOST_LANES = 16, 32
"""Up to `MOST_LANES` iterations are one vector; more are a loop around vectors of `LANES`. LLVM
splits what the processor has not."""

NEAREST_CACHE = 3
"""LLVM's locality of a prefetch: where a processor loads from first."""

SQUARES = (4, 8, 16)
"""Sides of squares that are turned in registers."""


class Statements:
    """Writes statements of one lowered function, called `name`; buffers lie at `pointers`.

    With `checked`, an index outside its buffer jumps to the label `failure`.
    """

    def __init__(self, name: str, pointers: dict[Buffer, str], *, checked: bool = False) -> None:
        self._name = name
        self._checked = checked
        self.text = FunctionText()
        self.failure = self.text.label()
        self.at = Expressions(self.text, pointers, checked=checked, failure=self.failure)
        self.at.places.append(self.text.place())
        self._stack_bytes = 0
        self._loops = 0
        self._tiles: TileWriter | None = None

    def write_function(self, body: Stmt, begin: str, end: str) -> None:
        """The body of a lowered function; of a parallel loop the iterations from `begin` on."""
        if not self._checked and has_tiles(body):
            self._tiles = TileWriter(self.at)
        if isinstance(body, For) and body.kind == "parallel":
            self.loop(body, begin, end)
        else:
            self.write(body)
        if self._tiles is not None:
            self._tiles.finish()

    def write(self, stmt: Stmt) -> None:
        """Any statement of a lowered function."""
        match stmt:
            case Seq(body):
                for part in body:
                    self.write(part)
            case For() if self._tiles is not None and tile_operation(stmt) is not None:
                self._tiles.write(stmt)
            case For(kind="unroll") if (packed := self._packed(stmt)) is not None:
                self._store_packed(stmt, packed)
            case For(kind="unroll") | For(extent=1):
                self._unrolled(stmt)
            case For(kind="vectorize") if self._takes_lanes(stmt):
                self._vectorized(stmt)
            case For(body=For(kind="vectorize", body=BufferStore())) if self._is_turned(stmt):
                self._turned(stmt)
            case For():
                self.loop(stmt, "0", str(stmt.extent))
            case If(condition, body):
                self._guarded(condition, body)
            case Allocate(allocations, body):
                for item in allocations:
                    if self._tiles is None or item.buffer.scope != TILE:
                        self.allocate(item.buffer)
                self.write(body)
            case BufferStore():
                self._store(stmt)
            case Prefetch(buffer):
                address = self.at.address(buffer, self.at.place(stmt))
                self.text.line(
                    f"call void @llvm.prefetch.p0({address}, i32 0, i32 {NEAREST_CACHE}, i32 1)"
                )
            case _:
                raise AssertionError(f"no code for {stmt!r}")

    def loop(self, loop: For, begin: str, end: str, body: Callable[[], None] | None = None) -> None:
        """A loop that runs at least once: its range is never empty. `body` stands for its own."""
        text = self.text
        self._loops += 1
        var, following = f"%i{self._loops}", f"%n{self._loops}"
        head, after = text.label(), text.label()
        before = text.block
        text.start(head)
        self._forget_operands()
        self.at.values[loop.var] = var
        self.at.extents[loop.var] = loop.extent
        slot = text.reserve()
        self.at.places.append(text.place())
        self.at.levels[loop.var] = len(self.at.places) - 1
        if body is None:
            self.write(loop.body)
        else:
            body()
        self.at.places.pop()
        text.line(f"{following} = add nuw nsw i64 {var}, 1")
        going_on = text.value(f"icmp ult i64 {following}, {end}")
        latch = text.block
        text.fill(slot, f"{var} = phi i64 [ {begin}, %{before} ], [ {following}, %{latch} ]")
        text.branch(going_on, head, after, self.loop_notes(loop))
        text.start(after)
        self._forget_operands()
        del self.at.values[loop.var], self.at.levels[loop.var]

    def _forget_operands(self) -> None:
        """Another iteration reads other operands of products in tiles."""
        if self._tiles is not None:
            self._tiles.forget()

    def loop_notes(self, _loop: For) -> str:
        """LLVM's metadata of a loop; kernels of GPUs have some."""
        return ""

    def _unrolled(self, loop: For) -> None:
        self.at.extents[loop.var] = loop.extent
        for number in range(loop.extent):
            self.at.values[loop.var] = number
            self.write(loop.body)
        del self.at.values[loop.var]

    def _takes_lanes(self, loop: For) -> bool:
        return (
            not self._checked
            and self.at.lane is None
            and loop.extent > 1
            and not _branches_on(loop.body, loop.var)
        )

    def _vectorized(self, loop: For) -> None:
        """All iterations at once, or a loop over vectors and one vector of the rest."""
        self.at.extents[loop.var] = loop.extent
        whole, rest = divmod(loop.extent, LANES)
        if loop.extent <= MOST_LANES:
            self._lanes(loop, loop.extent, 0)
            return
        numbers = For(Var("vector"), whole, loop.body)
        self.loop(numbers, "0", str(whole), lambda: self._strip(loop, numbers.var))
        if rest:
            self._lanes(loop, rest, whole * LANES)

    def _strip(self, loop: For, number: Var) -> None:
        first = self.text.value(f"mul nuw nsw i64 {self.at.values[number]}, {LANES}")
        self._lanes(loop, LANES, first)

    def _lanes(self, loop: For, count: int, first: str | int) -> None:
        self.at.lane = Lane(loop.var, count, first)
        self.write(loop.body)
        self.at.lane = None

    def _is_turned(self, rows: For) -> bool:
        """Whether a square of elements is stored along the inner loop and read along the outer.

        All are read before one is stored, so each must have a place of its own, and be computed
        of other buffers: a loop of a reduction is no such square.
        """
        assert isinstance(rows.body, For) and isinstance(rows.body.body, BufferStore)
        columns, store = rows.body, rows.body.body
        if self._checked or self.at.lane is not None or rows.extent != columns.extent:
            return False
        if rows.extent not in SQUARES or store.buffer.dtype == "bool":
            return False
        read = loads(store.value)
        if any(item.buffer is store.buffer for item in read):
            return False
        place = accessed_element(store)
        if _steps(place, columns.var) != 1 or abs(_steps(place, rows.var) or 0) < columns.extent:
            return False
        forms = [accessed_element(item) for item in read]
        return any(
            _steps(form, rows.var) == 1 and _steps(form, columns.var) not in (0, 1)
            for form in forms
        )

    def _turned(self, rows: For) -> None:
        """Vectors along the outer loop, turned in registers, stored along the inner one."""
        assert isinstance(rows.body, For) and isinstance(rows.body.body, BufferStore)
        at, columns, store = self.at, rows.body, rows.body.body
        count = rows.extent
        at.extents[rows.var] = at.extents[columns.var] = count
        vectors = []
        at.lane = Lane(rows.var, count)
        for number in range(count):
            at.values[columns.var] = number
            vectors.append(broadcast(self.text, at.value(store.value), count))
        del at.values[columns.var]
        at.lane = Lane(columns.var, count)
        for number, vector in enumerate(turned(self.text, vectors)):
            at.values[rows.var] = number
            place = at.place(store)
            self._put(store.buffer, at.address(store.buffer, place), vector)
        del at.values[rows.var]
        at.lane = None

    def _packed(self, vectors: For) -> PackedStore | None:
        """What an unrolled loop stores as packed bytes, if it does."""
        if self._checked or self.at.lane is not None or self.at.announce is not None:
            return None
        return packed_store(vectors)

    def _store_packed(self, vectors: For, packed: PackedStore) -> None:
        """Bytes of all vectors, stored at once."""
        lanes = vectors.body
        assert isinstance(lanes, For) and isinstance(lanes.body, BufferStore)
        at, store, count = self.at, lanes.body, vectors.extent * PACKED_LANES
        at.extents |= {vectors.var: vectors.extent, lanes.var: lanes.extent}
        at.lane = Lane(lanes.var, PACKED_LANES)
        given = []
        for number in range(vectors.extent):
            at.values[vectors.var] = number
            value = broadcast(self.text, at.value(packed.source), PACKED_LANES)
            if packed.offset:
                value = arithmetic(
                    self.text, "+", value, splat(constant(packed.offset, "int32"), PACKED_LANES)
                )
            given.append(str(value))
        call = f"call <{count} x i8> @packed_bytes.v{count}({', '.join(given)})"
        found = Value(self.text.value(call), "uint8", count)
        for op, limit, end in (("max", packed.low, 0), ("min", packed.high, 255)):
            if limit != end:
                found = arithmetic(self.text, op, found, splat(constant(limit, "uint8"), count))
        if packed.flipped:
            flipped = self.text.value(f"xor {found}, splat (i8 -128)")
            found = Value(flipped, "int8", count)
        at.values[vectors.var] = 0
        place = at.place(store)
        self._put(store.buffer, at.address(store.buffer, place), found)
        del at.values[vectors.var]
        at.lane = None

    def _guarded(self, condition: Expr, body: Stmt) -> None:
        text = self.text
        inside, after = text.label(), text.label()
        value = self.at.scalar(condition)
        text.branch(value.text, inside, after)
        text.start(inside)
        self.write(body)
        text.start(after)

    def allocate(self, buffer: Buffer) -> None:
        """Room for a buffer inside the function: on the stack."""
        count = 1
        for extent in buffer.shape:
            count *= extent
        self._stack_bytes += count * ELEMENT_BYTES[buffer.dtype]
        if self._stack_bytes > MAX_STACK_BYTES:
            raise UnsupportedError(
                f"buffers inside a function must have at most {MAX_STACK_BYTES} bytes, not "
                f"{self._stack_bytes} ({self._name!r}, buffer {buffer.name!r}); schedule "
                "smaller tiles"
            )
        register = self.text.stack(f"[{count} x {memory_type(buffer.dtype)}]")
        self.at.pointers[buffer] = f"ptr {register}"

    def _store(self, store: BufferStore) -> None:
        at, buffer, lane = self.at, store.buffer, self.at.lane
        at.contract = _accumulates(store)
        value = at.value(store.value)
        at.contract = False
        place = at.place(store)
        if lane is None or place.step == 0:
            assert not value.lanes, "lanes that write one place"
            self._put(buffer, at.address(buffer, place), value)
            return
        wide = broadcast(self.text, value, lane.count)
        if place.step == 1 and buffer not in at.swizzles:
            self._put(buffer, at.address(buffer, place), wide)
            return
        for number in range(lane.count):
            one = self.text.value(f"extractelement {wide}, i64 {number}")
            self._put(buffer, at.address(buffer, place, number), Value(one, value.dtype))

    def _put(self, buffer: Buffer, address: str, value: Value) -> None:
        if value.dtype == "bool":
            kind = memory_type("bool", value.lanes)
            value = Value(self.text.value(f"zext {value} to {kind}"), "uint8", value.lanes)
            assert llvm_type("uint8", value.lanes) == kind
        align = ELEMENT_BYTES[buffer.dtype]
        if self.at.announce is not None:
            self.at.announce(buffer, address, align * max(value.lanes, 1), True)
        self.text.line(f"store {value}, {address}, align {align}")


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
