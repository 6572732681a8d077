"""The program verifier: tokens, serial order, and no unordered access to shared memory.

Rules, each with its own message:

1. The last instruction, and no other, is FINISH; it carries no tokens.
2. Program order is a legal serial run: every pop finds its token pushed earlier; none is left.
3. No token counter overflows, however the units interleave.
4. Any two accesses by different units to the same scratchpad row, micro-op or bus word of external
   memory, one of them a write, are ordered by tokens.
5. Micro-ops are loaded before use, from the constants, which no instruction writes, so that the
   rows they address are known here.
6. The setup loads constants into rows that no other instruction writes, and uses no tokens, so that
   a launch behind one of the same program can leave it out.
7. Every scratchpad row that is read was written before, by an earlier instruction of this program
   or an earlier step of the same one: scratchpads keep the data of the program before.

Tokens between two units are matched first-in first-out. An instruction's token means that it and
all earlier instructions of its unit are done; an instruction that takes the token starts after
that, as do all later ones of its unit. These relations give each instruction a vector clock of what
is known to be done (Mattern 1989). Rule 4 compares it with the last accesses of every place: an
instruction ordered after a unit's last access is ordered after all its accesses.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.common.errors import ProgramError, VerificationError
from daedal.isa.footprints import Footprints, Touch
from daedal.isa.instruction import Instruction, encode, units_of
from daedal.isa.loop_rows import Places
from daedal.isa.program import Program
from daedal.isa.table import BASES, LoadMemory, Opcode, Unit, instruction_layout
from daedal.isa.variant import Variant
from daedal.isa.written_rows import WrittenRows

__all__ = ["VerificationReport", "verify"]

_QUEUES = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
_UNITS_OF = tuple(units_of(mask) for mask in range(1 << len(_QUEUES)))
_NEVER = -1

Clock = tuple[int, ...]
"""Per unit, the last instruction known to be done."""


@dataclass(frozen=True)
class VerificationReport:
    """What was checked: instructions, tokens, and the most tokens one counter can ever hold."""

    instructions: int
    tokens: int
    most_tokens: int


def verify(program: Program, *, zeroed: bool = False) -> VerificationReport:
    """Check a program.

    Parameters
    ----------
    zeroed : the scratchpads are known to hold zeros, as after a reset of a simulator: rule 7 does
        not apply.

    Raises
    ------
    VerificationError
        A rule is broken; it names rule, instructions, units and place.
    """
    return _Verifier(program, zeroed).run()


class _Fields:
    """The allowed values of an opcode's fields."""

    def __init__(self, variant: Variant, opcode: Opcode) -> None:
        self.unit = Instruction.of(opcode).unit
        self._limits: dict[str, tuple[int, int]] = {}
        self._choices: dict[str, frozenset[int]] = {}
        for name, item in instruction_layout(variant, opcode).items():
            if item.choices is not None:
                self._choices[name] = frozenset(int(choice) for choice in item.choices)
            span, least = 1 << item.width, -(1 << item.width - 1) if item.field.signed else 0
            self._limits[name] = (least, least + span - 1)
        del self._limits["opcode"]

    def hold(self, values: Mapping[str, int]) -> bool:
        """Whether an instruction with these values can be encoded."""
        limits = self._limits
        for name, value in values.items():
            if name not in limits:
                return False
            low, high = limits[name]
            if not low <= value <= high:
                return False
        for name, choices in self._choices.items():
            if name in values and values[name] not in choices:
                return False
        tokens = values.get("pop", 0) | values.get("push", 0)
        return self.unit is Unit.FETCH or not tokens >> self.unit & 1


class _Space:
    """The last accesses to every place of one space, by unit: writes, then reads.

    Entries are instruction numbers plus one, so that "none" is 0 and the operating system allocates
    no memory for untouched places.
    """

    def __init__(self, places: int) -> None:
        self._last: npt.NDArray[np.int32]
        self._last = np.zeros((2 * len(_QUEUES), places), dtype=np.int32)
        self._newest = [_NEVER] * (2 * len(_QUEUES))

    def settled(self, clock: Sequence[int], write: bool) -> bool:
        """Whether all accesses that could conflict, to any place, are known to be done.

        Only a shortcut: `latest` decides.
        """
        w0, w1, w2, w3, r0, r1, r2, r3 = self._newest
        c0, c1, c2, c3 = clock
        if w0 > c0 or w1 > c1 or w2 > c2 or w3 > c3:
            return False
        return not write or (r0 <= c0 and r1 <= c1 and r2 <= c2 and r3 <= c3)

    def latest(self, places: Places, write: bool) -> list[int]:
        """Per unit, the latest access that must be complete; a write also waits for reads."""
        count = len(_QUEUES)
        seen = self._last[: 2 * count if write else count, places]
        found: list[int] = (np.maximum.reduce(seen, axis=1) - 1).tolist()
        return [max(found[u], found[u + count]) for u in range(count)] if write else found

    def record(self, unit: Unit, places: Places, write: bool, number: int) -> None:
        """Record instruction `number` as the last access of `unit`."""
        which = unit if write else len(_QUEUES) + unit
        self._last[which, places] = number + 1
        self._newest[which] = number

    def place_of(self, unit: Unit, places: Places, write: bool, number: int) -> int:
        """The first of `places` that `unit` last accessed in instruction `number`."""
        at = np.arange(self._last.shape[1])[places]
        hit = self._last[unit, at] == number + 1
        if write:
            hit |= self._last[len(_QUEUES) + unit, at] == number + 1
        return int(at[np.argmax(hit)])


class _Channel:
    """Tokens from one unit to another: those outstanding, and their pushes and pops."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[int, Clock]] = deque()
        self.pops: list[int] = []
        self.pushed = 0


class _Verifier:
    def __init__(self, program: Program, zeroed: bool) -> None:
        self._program = program
        self._footprints = Footprints(program)
        self._fields = {opcode: _Fields(program.variant, opcode) for opcode in Opcode}
        # Constants are never written, so reads of them need no ordering.
        self._spaces = {
            name: _Space(size) for name, size in self._footprints.sizes.items() if name != BASES[0]
        }
        self._clocks = [[_NEVER] * len(_QUEUES) for _ in _QUEUES]
        self._channels = {(a, b): _Channel() for a in _QUEUES for b in _QUEUES if a is not b}
        self._limit = (1 << program.variant.units.token_bits) - 1
        self._most = 0
        self._written = None if zeroed else WrittenRows(self._footprints)
        # Where the setup has written: all places of each space.
        self._kept: dict[str, npt.NDArray[np.bool_]] = {}

    def run(self) -> VerificationReport:
        instructions = self._program.instructions
        _check_end(instructions)
        for number, instruction in enumerate(instructions):
            try:
                self._step(number, instruction)
            except VerificationError:
                raise
            except ProgramError as error:
                raise VerificationError(
                    f"instruction {number} ({instruction.opcode.name}): {error}"
                ) from None
        for (source, target), channel in self._channels.items():
            if channel.waiting:
                raise VerificationError(
                    f"no token may be left at FINISH, but {len(channel.waiting)} from "
                    f"{source.name} to {target.name} are; the first was pushed by instruction "
                    f"{channel.waiting[0][0]}"
                )
        tokens = sum(channel.pushed for channel in self._channels.values())
        return VerificationReport(len(instructions), tokens, self._most)

    def _step(self, number: int, instruction: Instruction) -> None:
        values, fields = instruction.values, self._fields[instruction.opcode]
        if not fields.hold(values):
            encode(self._program.variant, instruction)  # raises an error that says what is wrong
        unit = fields.unit
        if unit is Unit.FETCH:
            return
        clock = self._clocks[unit]
        for source in _UNITS_OF[values.get("pop", 0)]:
            self._pop(number, source, unit)
        clock[unit] = number
        if number < self._program.setup:
            self._check_setup(number, instruction)
        touches = self._footprints.of(instruction)
        if self._written is not None:
            self._written.follow(instruction, touches)
        for touch in touches:
            if touch.write:
                self._check_kept(number, unit, touch)
            if touch.space in self._spaces:
                self._check(number, unit, touch)
            elif touch.write:
                raise ProgramError(f"STORE must not write {touch.space}")
        for target in _UNITS_OF[values.get("push", 0)]:
            self._push(number, unit, target)

    def _check_setup(self, number: int, instruction: Instruction) -> None:
        values = instruction.values
        fills = instruction.opcode is Opcode.LOAD and not values.get("base", 0)
        micro_ops = values.get("memory", 0) in (LoadMemory.UOP_GEMM, LoadMemory.UOP_ALU)
        if not fills or micro_ops or values.get("pop", 0) or values.get("push", 0):
            raise VerificationError(
                f"the setup of a program must be LOADs of constants without tokens; instruction "
                f"{number} ({instruction.opcode.name}) is none"
            )

    def _check_kept(self, number: int, unit: Unit, touch: Touch) -> None:
        """Record what the setup writes; nothing else may write there."""
        if number < self._program.setup:
            size = self._footprints.sizes[touch.space]
            self._kept.setdefault(touch.space, np.zeros(size, dtype=np.bool_))[touch.places] = True
        elif touch.space in self._kept and self._kept[touch.space][touch.places].any():
            raise VerificationError(
                f"what the setup loads must stay as it is; instruction {number} ({unit.name}) "
                f"writes rows of scratchpad {touch.space!r} that it has filled"
            )

    def _pop(self, number: int, source: Unit, unit: Unit) -> None:
        channel = self._channels[source, unit]
        if not channel.waiting:
            raise VerificationError(
                f"every pop must find a token pushed earlier in program order; instruction "
                f"{number} ({unit.name}) finds none from {source.name}"
            )
        clock = self._clocks[unit]
        _, done = channel.waiting.popleft()
        clock[:] = map(max, clock, done)
        channel.pops.append(number)

    def _push(self, number: int, unit: Unit, target: Unit) -> None:
        channel = self._channels[unit, target]
        done = tuple(self._clocks[unit])
        channel.waiting.append((number, done))
        channel.pushed += 1
        # Pops that have surely happened are those of the target's instructions known to be done.
        outstanding = channel.pushed - bisect_right(channel.pops, done[target])
        self._most = max(self._most, outstanding)
        if outstanding > self._limit:
            raise VerificationError(
                f"a token counter must stay within {self._limit}; {unit.name} can push "
                f"{outstanding} to {target.name} before one is taken (instruction {number})"
            )

    def _check(self, number: int, unit: Unit, touch: Touch) -> None:
        """Compare with the other units' last accesses, then record this access as the last."""
        space, clock = self._spaces[touch.space], self._clocks[unit]
        latest = (
            () if space.settled(clock, touch.write) else space.latest(touch.places, touch.write)
        )
        for other, last in zip(_QUEUES, latest, strict=bool(latest)):
            # The own unit's clock is `number`, so its accesses never conflict.
            if last > clock[other]:
                place = space.place_of(other, touch.places, touch.write, last)
                raise VerificationError(
                    f"accesses by two units to the same place must be ordered by tokens; "
                    f"instruction {number} ({unit.name}) {'writes' if touch.write else 'reads'} "
                    f"{self._place_text(touch.space, place)} while instruction {last} "
                    f"({other.name}) may still use it"
                )
        space.record(unit, touch.places, touch.write, number)

    def _place_text(self, space: str, place: int) -> str:
        if space in BASES:
            size = self._program.variant.bus_bytes
            return f"bus word {place} of {space} (bytes {place * size} to {(place + 1) * size - 1})"
        what = "micro-op" if space.startswith("uop") else "row"
        return f"{what} {place} of scratchpad {space!r}"


def _check_end(instructions: tuple[Instruction, ...]) -> None:
    if not instructions or instructions[-1].opcode is not Opcode.FINISH:
        raise VerificationError("a program must end with FINISH; this one does not")
    for number, instruction in enumerate(instructions):
        if instruction.opcode is not Opcode.FINISH:
            continue
        if number != len(instructions) - 1:
            raise VerificationError(f"FINISH must be the last instruction, not number {number}")
        if instruction.pop or instruction.push:
            raise VerificationError("FINISH must carry no tokens; it waits for every unit")
