"""Finds hazards on rows and memory: the earlier instructions that an instruction must wait for.

For every scratchpad row and every bus word of the regions, the last reader and the last writer of
each unit are kept, so a lookup is a few numpy operations, however long the program is.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ProgramError
from daedal.isa.effects import effects, external
from daedal.isa.instruction import Instruction
from daedal.isa.microcode import UopArray
from daedal.isa.numerics import IntArray
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import BASES, LoadMemory, Opcode, Unit
from daedal.isa.transfer import transfer

__all__ = ["NO_INSTRUCTION", "conflicts"]

NO_INSTRUCTION = -1

_UNITS = 4
_UOPS = {Unit.GEMM: Memory.UOP_GEMM, Unit.ALU: Memory.UOP_ALU}


def conflicts(program: Program) -> list[tuple[int, ...]]:
    """For each instruction and each other unit, the latest instruction that it must wait for.

    One entry per unit, NO_INSTRUCTION if there is none. The tokens of `program` are ignored.

    Raises
    ------
    ProgramError
        An instruction touches rows or memory that do not exist; the message names it.
    """
    tracker = _Tracker(program)
    result = []
    for number, instruction in enumerate(program.instructions):
        try:
            result.append(tracker.step(number, instruction))
        except ProgramError as error:
            raise ProgramError(
                f"instruction {number} ({instruction.opcode.name}): {error}"
            ) from None
    return result


@dataclass(frozen=True)
class _Last:
    """Per unit (rows) and place (columns), the last instruction that read, and that wrote it."""

    reads: npt.NDArray[np.int32]
    writes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, places: int) -> "_Last":
        empty = np.full((_UNITS, places), NO_INSTRUCTION, dtype=np.int32)
        return cls(empty, empty.copy())


class _Tracker:
    def __init__(self, program: Program) -> None:
        self._variant = program.variant
        self._constants = program.constants
        self._pads = scratchpads(self._variant)
        self._rows = {memory: _Last.of(pad.depth_rows) for memory, pad in self._pads.items()}
        beat_bytes = self._variant.bus_bytes
        self._beats = [_Last.of(-(-size // beat_bytes)) for size in program.region_bytes]
        self._uops = {
            unit: np.zeros(self._pads[memory].depth_rows * self._pads[memory].elements, np.uint64)
            for unit, memory in _UOPS.items()
        }

    def step(self, number: int, instruction: Instruction) -> tuple[int, ...]:
        """Conflicts of an instruction; it is then recorded as the last access to its places."""
        self._load_uops(instruction)
        unit = instruction.unit
        latest = np.full(_UNITS, NO_INSTRUCTION, dtype=np.int32)
        touched = list(self._touched(instruction))
        for last, places, write in touched:
            np.maximum(latest, last.writes[:, places].max(axis=1), out=latest)
            if write:
                np.maximum(latest, last.reads[:, places].max(axis=1), out=latest)
        for last, places, write in touched:
            (last.writes if write else last.reads)[unit, places] = number
        if unit < _UNITS:
            latest[unit] = NO_INSTRUCTION
        return tuple(latest.tolist())

    def _touched(self, instruction: Instruction) -> Iterator[tuple[_Last, IntArray, bool]]:
        unit = instruction.unit
        for access in effects(self._variant, instruction, self._uops.get(unit)):
            rows = access.rows
            if access.memory in _UOPS.values() and unit is not Unit.LOAD:
                rows = np.unique(rows // self._pads[access.memory].elements)
            yield self._rows[access.memory], rows, access.write
        moved = external(self._variant, instruction)
        if moved is None:
            return
        table = self._beats[moved.base]
        if moved.beats[-1] >= table.reads.shape[1]:
            raise ProgramError(
                f"it must stay within {BASES[moved.base]}, not reach bus word {moved.beats[-1]}"
            )
        yield table, moved.beats, moved.write

    def _load_uops(self, instruction: Instruction) -> None:
        """Keep the micro-ops that a LOAD loads: GEMM's and ALU's accesses depend on them."""
        if instruction.opcode is not Opcode.LOAD:
            return
        for unit, memory in _UOPS.items():
            if instruction.memory != LoadMemory[memory.name]:
                continue
            move = transfer(self._variant, instruction)
            places = move.offsets_bytes[:, None] + np.arange(move.row_bytes)
            if instruction.base != 0 or places.max(initial=0) >= len(self._constants):
                raise ProgramError("micro-ops must lie within the constants")
            words: UopArray = np.frombuffer(self._constants, np.uint8)[places].view(np.uint64)
            slots = move.rows[:, None] * words.shape[1] + np.arange(words.shape[1])
            self._uops[unit][slots] = words
