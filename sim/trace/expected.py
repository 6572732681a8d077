"""The functional side of a trace: the writes expected of each instruction, in RAM layout.

Input: a program and external memory. Output: per instruction, the columns that it writes through
each of the machine's write ports and the words that it stores, with their final values.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daedal.hw.observe import WritePort, write_ports
from daedal.isa.effects import effects, external
from daedal.isa.elements import to_memory
from daedal.isa.instruction import Instruction
from daedal.isa.microcode import expand
from daedal.isa.numerics import IntArray
from daedal.isa.scratchpad import Memory, scratchpad, scratchpads
from daedal.isa.semantics import ByteMemory, State, execute
from daedal.isa.table import LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.transfer import transfer
from daedal.isa.variant import Variant

__all__ = ["NO_WRITER", "Expected", "FunctionalRun", "Source"]

NO_WRITER = -1

_RAW = (Memory.PAR, Memory.UOP_GEMM, Memory.UOP_ALU, Memory.TAB)
"""Memories that hold words unchanged from external memory."""


@dataclass(frozen=True)
class Expected:
    """Writes through one port in order: `places` (n,) are row * columns + column of the port.

    `data` (n, bytes) is what each place holds after the instruction, in a whole number of 32-bit
    words. `ordered`: the machine writes in this order; otherwise each place once, in any order.
    For words of external memory `places` are byte addresses.
    """

    places: IntArray
    data: npt.NDArray[np.uint8]
    ordered: bool


@dataclass(frozen=True)
class Source:
    """Rows of `memory` (None: bus words of external memory) that `writer` wrote last."""

    memory: Memory | None
    rows: IntArray
    writer: int


@dataclass
class FunctionalRun:
    """Executes instructions in program order and returns what each one writes.

    `memory` is changed in place.
    """

    variant: Variant
    memory: ByteMemory
    bases: Sequence[int]
    region_words: Sequence[int]
    state: State = field(init=False)
    _ports: dict[tuple[Memory, Unit], WritePort] = field(init=False)
    _writers: dict[Memory | None, npt.NDArray[np.int32]] = field(init=False)

    def __post_init__(self) -> None:
        self.state = State(self.variant)
        self._ports = {(port.memory, port.unit): port for port in write_ports(self.variant)}
        sizes: dict[Memory | None, int] = {
            memory: pad.depth_rows for memory, pad in scratchpads(self.variant).items()
        }
        sizes[None] = -(-self.memory.size // self.variant.bus_bytes)
        self._writers = {
            memory: np.full(size, NO_WRITER, dtype=np.int32) for memory, size in sizes.items()
        }

    def step(self, instruction: Instruction) -> tuple[dict[str, Expected], Expected | None]:
        """Execute; returns (writes by port name, words stored).

        Raises ProgramError for rows or addresses that do not exist.
        """
        raw = self._raw_words(instruction)
        execute(self.state, instruction, self.memory, self.bases, self.region_words)
        unit = instruction.unit
        if instruction.opcode is Opcode.LOAD:
            return self._loaded(instruction, raw), None
        if instruction.opcode is Opcode.STORE:
            return {}, self._stored(instruction)
        if unit not in (Unit.GEMM, Unit.ALU):
            return {}, None
        rows = expand(self.variant, instruction, self.state.uops[unit]).rows
        memory, places = Memory.ACC, rows.get("acc", rows.get("dst"))
        assert places is not None, "GEMM has acc, ALU has dst"
        if unit is Unit.ALU:
            memory = OutMemory(instruction.destination).memory
        port = self._ports[memory, unit]
        return {port.name: self._written(port, places, ordered=True)}, None

    def sources(self, instruction: Instruction) -> list[Source]:
        """The writers of the data that an instruction reads; call this before its `step`."""
        found = []
        for memory, rows in self._touched(instruction, write=False):
            writers = self._writers[memory][rows]
            for writer in np.unique(writers[writers != NO_WRITER]).tolist():
                found.append(Source(memory, rows[writers == writer], writer))
        return found

    def note_writes(self, number: int, instruction: Instruction) -> None:
        """Record instruction `number` as the last writer of everything it writes."""
        for memory, rows in self._touched(instruction, write=True):
            self._writers[memory][rows] = number

    def _touched(
        self, instruction: Instruction, *, write: bool
    ) -> list[tuple[Memory | None, IntArray]]:
        touched: list[tuple[Memory | None, IntArray]] = []
        uops = self.state.uops.get(instruction.unit)
        for access in effects(self.variant, instruction, uops):
            rows = access.rows
            if access.memory in (Memory.UOP_GEMM, Memory.UOP_ALU) and not access.write:
                rows = np.unique(rows // scratchpad(self.variant, access.memory).elements)
            if access.write == write:
                touched.append((access.memory, rows))
        moved = external(self.variant, instruction)
        if moved is not None and moved.write == write:
            first = self.bases[moved.base] // self.variant.bus_bytes
            touched.append((None, moved.beats + first))
        return touched

    def _raw_words(self, instruction: Instruction) -> npt.NDArray[np.uint8] | None:
        """Bytes (rows, row_bytes) that a LOAD writes into a memory of raw words."""
        if instruction.opcode is not Opcode.LOAD:
            return None
        if LoadMemory(instruction.memory).memory not in _RAW:
            return None
        move = transfer(self.variant, instruction)
        starts = self.bases[instruction.base] + move.offsets_bytes
        places = starts[:, None] + np.arange(move.row_bytes)
        return self.memory[np.minimum(places, self.memory.size - 1)]

    def _loaded(
        self, instruction: Instruction, raw: npt.NDArray[np.uint8] | None
    ) -> dict[str, Expected]:
        move = transfer(self.variant, instruction)
        port = self._ports[move.memory, Unit.LOAD]
        if raw is None:
            rows = np.concatenate([move.rows, move.pad_rows])
            return {port.name: self._written(port, rows, ordered=False)}
        per_row = port.slices * port.columns
        places = move.rows[:, None] * per_row + np.arange(per_row)
        return {
            port.name: Expected(
                places.reshape(-1), raw.reshape(places.size, port.column_bits // 8), False
            )
        }

    def _written(self, port: WritePort, rows: IntArray, *, ordered: bool) -> Expected:
        """All columns of `rows` with the scratchpad's current contents."""
        pad = scratchpad(self.variant, port.memory)
        array: IntArray = getattr(self.state, port.memory.value)
        elements = array[rows].reshape(len(rows) * port.columns, pad.elements // port.columns)
        places = rows[:, None] * port.columns + np.arange(port.columns)
        return Expected(places.reshape(-1), _column_bytes(elements, pad.element_bits), ordered)

    def _stored(self, instruction: Instruction) -> Expected:
        move = transfer(self.variant, instruction)
        size = self.variant.bus_bytes
        starts = self.bases[instruction.base] + move.offsets_bytes
        places = (starts[:, None] + np.arange(0, move.row_bytes, size)).reshape(-1)
        return Expected(places, self.memory[places[:, None] + np.arange(size)], True)


def _column_bytes(elements: IntArray, bits: int) -> npt.NDArray[np.uint8]:
    """Elements (n, k) of any width as the RAM holds them, padded to whole 32-bit words."""
    count, per_column = elements.shape
    size = 4 * -(-per_column * bits // 32)
    if bits in (8, 16, 32, 64):
        packed = to_memory(elements, bits)
    else:
        each = (elements[:, :, None] >> np.arange(bits)) & 1
        packed = np.packbits(
            each.astype(np.uint8).reshape(count, per_column * bits), axis=1, bitorder="little"
        )
    full = np.zeros((count, size), dtype=np.uint8)
    full[:, : packed.shape[1]] = packed
    return full
