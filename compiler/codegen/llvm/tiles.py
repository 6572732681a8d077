"""`TileWriter`: operations on tile registers (`compiler.tir.tile_products`) in LLVM's text.

Each is a call of a function that `native.bodies.tile_products` defines for the processor; the
numbers of registers and their shapes are parts of its name, as instructions have them. Sums stay in
the registers that they are first set to 0 in. Operands are loaded into the others, and not again
while they are there: in a tile of 32 rows and 32 columns of sums, each is used twice.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from daedal.compiler.codegen.llvm.expressions import Expressions
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.tir.expr import Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import accessed_element
from daedal.compiler.tir.stmt import BufferStore, For
from daedal.compiler.tir.tile_products import QUAD, TILE, tile_operation
from daedal.compiler.tir.visit import loads, substitute
from daedal.native.bodies.tile_products import TILE_BYTES, TILE_REGISTERS

__all__ = ["TileWriter"]


@dataclass(frozen=True)
class _Shape:
    """Rows of a register, and the bytes of each."""

    rows: int
    row_bytes: int

    def __str__(self) -> str:
        return f"{self.rows}x{self.row_bytes}"


@dataclass
class _Register:
    """A register that is in use: its shape, what it holds, and when that was last read."""

    number: int
    shape: _Shape
    holds: Hashable
    is_sum: bool
    used: int = 0


class TileWriter:
    """Writes the operations of one function."""

    def __init__(self, at: Expressions) -> None:
        self._at = at
        self._registers: list[_Register] = []
        self._clock = 0
        self._begin = at.text.reserve()
        self._state = at.text.stack(f"[{TILE_REGISTERS} x [{TILE_BYTES} x i8]]")

    def write(self, nest: For) -> None:
        """The operation that a nest of loops stands for."""
        operation = tile_operation(nest)
        assert operation is not None
        found = [nest]
        while isinstance(inner := found[-1].body, For):
            found.append(inner)
        store = found[-1].body
        assert isinstance(store, BufferStore) and len(found) == operation.rank
        rows, columns, *terms = found
        for loop in found:
            self._at.values[loop.var] = 0
            self._at.extents[loop.var] = loop.extent
        if operation.name == "tile_zero":
            total = Load(store.buffer, store.indices)
            shape = _Shape(rows.extent, columns.extent * ELEMENT_BYTES["int32"])
            self._call(f"zero.t{self._sum(total, shape).number}")
        elif operation.name == "tile_store":
            (total,) = loads(store.value)
            register = self._sum(total)
            target = Load(store.buffer, store.indices)
            self._call(f"store.t{register.number}.{register.shape}", self._rows(target, rows.var))
        else:
            self._multiply(store, rows, columns, terms[0])
        for loop in found:
            del self._at.values[loop.var]

    def forget(self) -> None:
        """A loop begins or ends: what operands were loaded is not known any more."""
        for register in self._registers:
            if not register.is_sum:
                register.holds = None

    def finish(self) -> None:
        """The end of the function; registers get their shapes at its begin."""
        shapes = {register.number: register.shape for register in self._registers}
        names = [str(shapes.get(number, "0x0")) for number in range(max(shapes) + 1)]
        self._at.text.fill(
            self._begin, f"call void @tile_begin.{'.'.join(names)}(ptr {self._state})"
        )
        self._call("end")

    def _multiply(self, store: BufferStore, rows: For, columns: For, terms: For) -> None:
        read = loads(store.value)
        total = next(load for load in read if load.buffer.scope == TILE)
        factors = [load for load in read if load.buffer.scope != TILE]
        register = self._sum(total)
        a = self._operand(factors[0], _Shape(rows.extent, terms.extent * QUAD), rows.var)
        b = self._operand(factors[QUAD], _Shape(terms.extent, columns.extent * QUAD), terms.var)
        numbers = f"t{register.number}.t{a.number}.t{b.number}"
        shape = f"{rows.extent}x{columns.extent}x{terms.extent}"
        self._call(f"multiply.{numbers}.{shape}")

    def _sum(self, load: Load, shape: _Shape | None = None) -> _Register:
        """The register of sums; a new one of `shape`, if it is given."""
        holds = self._place(load)
        for register in self._registers:
            if register.holds == holds:
                return register
        assert shape is not None, "sums that were not set to 0"
        register = _Register(len(self._registers), shape, holds, is_sum=True)
        assert register.number < TILE_REGISTERS - 1, "no register is left for operands"
        self._registers.append(register)
        return register

    def _operand(self, load: Load, shape: _Shape, along: Var) -> _Register:
        """The register that holds an operand, loaded where it is in none; its rows lie along a
        loop."""
        holds = (shape, self._place(load))
        self._clock += 1
        for register in self._registers:
            if register.holds == holds:
                register.used = self._clock
                return register
        register = self._free(shape)
        register.holds, register.used = holds, self._clock
        self._call(f"load.t{register.number}.{shape}", self._rows(load, along))
        return register

    def _free(self, shape: _Shape) -> _Register:
        """A register for an operand: a new one, or that of this shape whose use is longest ago."""
        if len(self._registers) < TILE_REGISTERS:
            register = _Register(len(self._registers), shape, None, is_sum=False)
            self._registers.append(register)
            return register
        own = [item for item in self._registers if not item.is_sum and item.shape == shape]
        assert own, "no register of this shape is left for an operand"
        return min(own, key=lambda item: item.used)

    def _place(self, load: Load) -> Hashable:
        """Equal for the same element, as far as constants in unrolled loops tell."""
        known: dict[Var, Expr] = {
            var: IntImm(value) for var, value in self._at.values.items() if isinstance(value, int)
        }
        indices = tuple(substitute(index, known) for index in load.indices)
        return load.buffer, accessed_element(Load(load.buffer, indices))

    def _rows(self, load: Load, along: Var) -> str:
        """The arguments of a load or a store: the address of the first row, and the bytes from one
        row to the next."""
        at = self._at
        step = accessed_element(load).coefficient(along) * ELEMENT_BYTES[load.buffer.dtype]
        return f", {at.address(load.buffer, at.place(load))}, i64 {step}"

    def _call(self, name: str, arguments: str = "") -> None:
        self._at.text.line(f"call void @tile_{name}(ptr {self._state}{arguments})")
