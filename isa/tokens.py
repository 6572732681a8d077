"""Dependency tokens: the fewest waits that order every hazard.

Program order is a legal serial run. Each instruction waits for the latest conflicting instruction
of every other unit, unless another wait already implies that (vector clocks). Units run their
queues in order, so the waits of one unit on another strictly advance: an instruction pops at most
one token from each unit and pushes at most one to each, and tokens match first-in first-out by
construction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.common.errors import ProgramError
from daedal.isa.hazards import NO_INSTRUCTION, conflicts
from daedal.isa.program import Program
from daedal.isa.table import Unit

__all__ = ["Waits", "find_waits", "with_tokens"]

_QUEUES = (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)

Clock = tuple[int, ...]
"""Per unit, the last instruction known to be done."""


@dataclass(frozen=True)
class Waits:
    """Result of the analysis.

    Parameters
    ----------
    units : per instruction, the unit that executes it.
    waits : per instruction, the instructions it waits for, one per unit at most.
    done : per instruction, the instructions known to be done once it is done.
    num_hazards : pairs that conflict directly: the number of tokens with one per edge.
    """

    units: tuple[Unit, ...]
    waits: tuple[tuple[int, ...], ...]
    done: tuple[Clock, ...]
    num_hazards: int

    @property
    def num_tokens(self) -> int:
        """Tokens passed in one run."""
        return sum(len(waits) for waits in self.waits)

    def masks(self) -> list[tuple[int, int]]:
        """The pop and push masks of every instruction."""
        pushes, pops = [0] * len(self.units), [0] * len(self.units)
        for number, sources in enumerate(self.waits):
            target = 1 << self.units[number]
            for source in sources:
                assert not pushes[source] & target, "a second push to one unit"
                pushes[source] |= target
                pops[number] |= 1 << self.units[source]
        return list(zip(pops, pushes, strict=True))


def with_tokens(program: Program) -> Program:
    """The program with its tokens replaced by the fewest that order its hazards.

    Raises
    ------
    ProgramError
        The counters are too narrow, or an instruction accesses rows or memory that do not exist.
    """
    units = [instruction.unit for instruction in program.instructions]
    waits = find_waits(units, conflicts(program), program.variant.units.token_bits)
    return replace(
        program,
        instructions=tuple(
            instruction.replace(pop=pop, push=push)
            for instruction, (pop, push) in zip(program.instructions, waits.masks(), strict=True)
        ),
    )


def find_waits(units: Sequence[Unit], hazards: Sequence[Sequence[int]], token_bits: int) -> Waits:
    """Find the waits of a program whose order is that of `units`.

    Waits are added where more tokens could be outstanding than a counter of `token_bits` can hold.

    Parameters
    ----------
    hazards : per instruction and unit, the latest instruction it must not overtake, or
        NO_INSTRUCTION; nothing for its own unit.

    Raises
    ------
    ProgramError
        The counters are too narrow for this program.
    """
    limit = (1 << token_bits) - 1
    extra: dict[int, set[int]] = {}
    while True:
        result = _reduce(units, hazards, extra)
        missing = _overflows(result, limit)
        if not missing:
            return result
        before = sum(len(waits) for waits in extra.values())
        for number, source in missing:
            extra.setdefault(number, set()).add(source)
        if sum(len(waits) for waits in extra.values()) == before:
            raise ProgramError(
                f"at most {limit} tokens may be outstanding between two units, and this program "
                "needs more; use a variant with larger units.token_bits"
            )


def _reduce(
    units: Sequence[Unit],
    conflicts: Sequence[Sequence[int]],
    extra: Mapping[int, set[int]],
) -> Waits:
    """Drop every wait that others imply, trying the latest first, as it implies the most."""
    known = [[NO_INSTRUCTION] * len(_QUEUES) for _ in _QUEUES]
    waits: list[tuple[int, ...]] = []
    done: list[Clock] = []
    num_hazards = 0
    for number, unit in enumerate(units):
        if unit is Unit.FETCH:  # FINISH waits for every unit without tokens
            waits.append(())
            done.append((number,) * len(_QUEUES))
            continue
        clock = known[unit]
        wanted = [source for source in conflicts[number] if source != NO_INSTRUCTION]
        num_hazards += len(wanted)
        if number in extra:
            wanted = [*{*wanted, *extra[number]}]
        kept = []
        for source in sorted(wanted, reverse=True):
            if source > clock[units[source]]:
                kept.append(source)
                clock[:] = map(max, clock, done[source])
        clock[unit] = number
        waits.append(tuple(kept))
        done.append(tuple(clock))
    return Waits(tuple(units), tuple(waits), tuple(done), num_hazards)


def _overflows(result: Waits, limit: int) -> list[tuple[int, int]]:
    """Waits (instruction, on) that keep each counter within `limit` for any interleaving of units.

    At the k-th push of a pair, `limit` tokens may be outstanding unless pop k - `limit` is known to
    have happened.
    """
    pairs: dict[tuple[Unit, Unit], list[tuple[int, int]]] = {}
    for number, sources in enumerate(result.waits):
        for source in sources:
            pair = (result.units[source], result.units[number])
            pairs.setdefault(pair, []).append((source, number))
    missing = []
    for (_, consumer), tokens in pairs.items():
        for position in range(limit, len(tokens)):
            push, pop = tokens[position][0], tokens[position - limit][1]
            if result.done[push][consumer] >= pop:
                continue
            # The later one in program order has to wait. If the pop comes later, its unit waits for
            # this later push instead, which makes the tokens in between superfluous.
            missing.append((push, pop) if pop < push else (pop, push))
    return missing
