"""Resolves a program's tokens into pairs of instructions, and finds starts that came too early.

Input: a program, and when the machine started and finished each instruction. Output: an `Early`
for each instruction that started before an instruction whose token it takes was done.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.common.errors import DeviceError
from daedal.isa.instruction import Instruction, units_of
from daedal.isa.table import Unit

__all__ = ["Early", "early_starts", "token_sources"]


@dataclass(frozen=True)
class Early:
    """`instruction` started in `started_cycle` without waiting for `source`.

    `done_cycle` is when `source` was done; None: it never was.
    """

    instruction: int
    started_cycle: int
    source: int
    done_cycle: int | None


def token_sources(instructions: Sequence[Instruction]) -> list[tuple[int, ...]]:
    """For each instruction, the ones whose tokens it takes: a pair's n-th pop takes the n-th push.

    Raises
    ------
    DeviceError
        A pop finds no token in program order, so that no machine could run the program.
    """
    waiting: dict[tuple[Unit, Unit], deque[int]] = defaultdict(deque)
    sources = []
    for number, instruction in enumerate(instructions):
        taken = []
        for giver in units_of(instruction.pop):
            tokens = waiting[giver, instruction.unit]
            if not tokens:
                raise DeviceError(
                    f"every pop must find a token in program order; instruction {number} "
                    f"({instruction.unit.name}) finds none from {giver.name}"
                )
            taken.append(tokens.popleft())
        sources.append(tuple(taken))
        for taker in units_of(instruction.push):
            waiting[instruction.unit, taker].append(number)
    return sources


def early_starts(
    sources: Sequence[tuple[int, ...]], started: Mapping[int, int], done: Mapping[int, int]
) -> list[Early]:
    """Starts that came too early, by instruction. `started` and `done` are cycles by instruction.

    A token can be taken from the cycle after its giver was done onwards.
    """
    found = []
    for number, givers in enumerate(sources):
        if number not in started:
            continue
        for giver in givers:
            if giver not in done or started[number] <= done[giver]:
                found.append(Early(number, started[number], giver, done.get(giver)))
    return found
