"""The program verifier: tokens, serial order, and no unordered access to shared memory.

Rules, each with its own message:

1. The last instruction, and no other, is FINISH; it carries no tokens.
2. Program order is a legal serial run: every pop finds its token pushed earlier; none is left.
3. No token counter overflows, however the units interleave.
4. Any two accesses by different units to the same scratchpad row, micro-op or bus word of external
   memory, one of them a write, are ordered by tokens.
5. Micro-ops come from the constants, and nothing stores there, so that rows are known here.

Tokens between two units are matched first-in first-out. An instruction's token says that it and
all earlier ones of its unit are done; an instruction that took one starts after that, and so does
all that follows on its unit. These relations make one vector of "known to be done" per instruction
(a vector clock: Mattern 1989), against which rule 4 compares.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.isa.effects import Access, effects, external
from daedal.isa.errors import ProgramError, VerificationError
from daedal.isa.instruction import Instruction, encode, units_of
from daedal.isa.microcode import UopArray
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import BASES, LoadMemory, Opcode, Unit
from daedal.isa.transfer import transfer

__all__ = ["VerificationReport", "verify"]

_UNITS = 4
Clock = npt.NDArray[np.int64]


@dataclass(frozen=True)
class VerificationReport:
    """What was checked: instructions, tokens, and the most tokens one counter can ever hold."""

    instructions: int
    tokens: int
    most_tokens: int


@dataclass
class _History:
    """Per unit and row: index of the last instruction that read and that wrote it (-1: none)."""

    reads: npt.NDArray[np.int64]
    writes: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: int) -> "_History":
        empty = np.full((_UNITS, rows), -1, dtype=np.int64)
        return cls(empty, empty.copy())


def verify(program: Program) -> VerificationReport:
    """Check a program. Raises VerificationError naming rule, instructions and place."""
    return _Verifier(program).run()


class _Verifier:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.variant = program.variant
        pads = scratchpads(self.variant)
        self.uops: dict[Unit, UopArray] = {}
        for unit, memory in ((Unit.GEMM, Memory.UOP_GEMM), (Unit.ALU, Memory.UOP_ALU)):
            count = pads[memory].depth_rows * pads[memory].elements
            self.uops[unit] = np.zeros(count, dtype=np.uint64)
        self.history = {memory: _History.of(pad.depth_rows) for memory, pad in pads.items()}
        for unit, memory in ((Unit.GEMM, Memory.UOP_GEMM), (Unit.ALU, Memory.UOP_ALU)):
            self.history[memory] = _History.of(len(self.uops[unit]))
        beats = [-(-size // self.variant.bus_bytes) for size in program.region_bytes]
        self.external = [_History.of(count) for count in beats]
        self.clocks = [np.full(_UNITS, -1, dtype=np.int64) for _ in range(_UNITS)]
        self.queues: dict[tuple[Unit, Unit], deque[tuple[int, Clock]]] = {}
        self.pops: dict[tuple[Unit, Unit], list[int]] = {}
        self.pushed: dict[tuple[Unit, Unit], int] = {}
        self.tokens = self.most = 0

    def run(self) -> VerificationReport:
        instructions = self.program.instructions
        self._check_end(instructions)
        for index, instruction in enumerate(instructions[:-1]):
            try:
                encode(self.variant, instruction)
                self._step(index, instruction)
            except VerificationError:
                raise
            except ProgramError as error:
                raise VerificationError(
                    f"instruction {index} ({instruction.opcode.name}): {error}"
                ) from None
        for (source, target), queue in sorted(self.queues.items()):
            if queue:
                raise VerificationError(
                    f"no token may be left at FINISH, but {len(queue)} from {source.name} to "
                    f"{target.name} are; the first was pushed by instruction {queue[0][0]}"
                )
        return VerificationReport(len(instructions), self.tokens, self.most)

    @staticmethod
    def _check_end(instructions: tuple[Instruction, ...]) -> None:
        if not instructions or instructions[-1].opcode is not Opcode.FINISH:
            raise VerificationError("a program must end with FINISH; this one does not")
        for index, instruction in enumerate(instructions):
            if instruction.opcode is not Opcode.FINISH:
                continue
            if index != len(instructions) - 1:
                raise VerificationError(f"FINISH must be the last instruction, not number {index}")
            if instruction.pop or instruction.push:
                raise VerificationError("FINISH must carry no tokens; it waits for every unit")

    def _step(self, index: int, instruction: Instruction) -> None:
        unit = instruction.unit
        clock = self.clocks[unit]
        for source in units_of(instruction.pop):
            queue = self.queues.get((source, unit))
            if not queue:
                raise VerificationError(
                    f"every pop must find a token pushed earlier in program order; instruction "
                    f"{index} ({unit.name}) finds none from {source.name}"
                )
            clock = np.maximum(clock, queue.popleft()[1])
            self.pops.setdefault((source, unit), []).append(index)
        self.clocks[unit] = clock
        for access in effects(self.variant, instruction, self.uops.get(unit)):
            self._check_rows(index, unit, self._slots(access, instruction))
        self._check_external(index, instruction)
        done = clock.copy()
        done[unit] = index
        for target in units_of(instruction.push):
            self._push(index, unit, target, done)

    def _push(self, index: int, unit: Unit, target: Unit, done: Clock) -> None:
        pair = (unit, target)
        self.queues.setdefault(pair, deque()).append((index, done))
        self.tokens += 1
        self.pushed[pair] = self.pushed.get(pair, 0) + 1
        # Pops surely over by now are those of instructions known to be done on the other side.
        over = int(np.searchsorted(self.pops.get(pair, []), done[target], side="right"))
        outstanding = self.pushed[pair] - over
        self.most = max(self.most, outstanding)
        limit = (1 << self.variant.units.token_bits) - 1
        if outstanding > limit:
            raise VerificationError(
                f"a token counter must stay within {limit}; {unit.name} can push {outstanding} to "
                f"{target.name} before one is taken (instruction {index})"
            )

    def _slots(self, access: Access, instruction: Instruction) -> Access:
        """Rows of a micro-op LOAD as single micro-ops; their words are kept for later."""
        if instruction.opcode is not Opcode.LOAD:
            return access
        target = LoadMemory(instruction.memory)
        if target not in (LoadMemory.UOP_GEMM, LoadMemory.UOP_ALU):
            return access
        if instruction.base != 0:
            raise VerificationError(
                f"micro-ops must be loaded from {BASES[0]}, not {BASES[instruction.base]}"
            )
        unit = Unit.GEMM if target is LoadMemory.UOP_GEMM else Unit.ALU
        move = transfer(self.variant, instruction)
        per_row = move.row_bytes // 8
        slots = (move.rows[:, None] * per_row + np.arange(per_row)).reshape(-1)
        places = (move.offsets_bytes[:, None] // 8 + np.arange(per_row)).reshape(-1)
        size = len(self.program.constants) // 8
        if places.max() >= size:
            raise VerificationError(
                f"micro-ops must lie within the constants of {8 * size} bytes, "
                f"not reach byte {8 * int(places.max()) + 7}"
            )
        words = np.frombuffer(self.program.constants, dtype="<u8", count=size)
        self.uops[unit][slots] = words[places]
        return Access(access.memory, np.sort(slots), access.write)

    def _check_rows(self, index: int, unit: Unit, access: Access) -> None:
        place = f"row {{}} of scratchpad {access.memory.value!r}"
        self._check(index, unit, self.history[access.memory], access.rows, access.write, place)

    def _check_external(self, index: int, instruction: Instruction) -> None:
        touched = external(self.variant, instruction)
        if touched is None:
            return
        region = BASES[touched.base]
        history = self.external[touched.base]
        if touched.beats[-1] >= history.reads.shape[1]:
            raise VerificationError(
                f"instruction {index} ({instruction.opcode.name}) must stay within {region} of "
                f"{self.program.region_bytes[touched.base]} bytes, not reach bus word "
                f"{int(touched.beats[-1])}"
            )
        if touched.write and touched.base == 0:
            raise VerificationError(f"instruction {index} (STORE) must not write {region}")
        place = f"bus word {{}} of {region}"
        self._check(index, instruction.unit, history, touched.beats, touched.write, place)

    def _check(
        self,
        index: int,
        unit: Unit,
        history: _History,
        rows: npt.NDArray[np.int64],
        write: bool,
        place: str,
    ) -> None:
        clock = self.clocks[unit]
        for other in range(_UNITS):
            if other == unit:
                continue
            last = history.writes[other, rows]
            if write:
                last = np.maximum(last, history.reads[other, rows])
            unordered = last > clock[other]
            if unordered.any():
                at = int(np.argmax(unordered))
                raise VerificationError(
                    f"accesses by two units to the same place must be ordered by tokens; "
                    f"instruction {index} ({unit.name}) {'writes' if write else 'reads'} "
                    f"{place.format(int(rows[at]))} while instruction {int(last[at])} "
                    f"({Unit(other).name}) may still use it"
                )
        (history.writes if write else history.reads)[unit, rows] = index
