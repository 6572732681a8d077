"""Programs with wrong tokens: flags flipped one at a time, and changes that leave them balanced.

A single flip always unbalances a counter, which is easy to see. The other mutants keep as many
pushes as pops of every pair of units, so that only what they order can tell them from the program:
a token taken away or added at both of its ends, or given or taken by another instruction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from daedal.isa.program import Program
from daedal.isa.table import Opcode, Unit
from tests.support.interleaving import UNITS

__all__ = ["KINDS", "Flag", "TokenMutant", "mutants"]

KINDS = ("flip", "drop", "cross", "add", "early push", "late push", "early pop", "late pop")
"""`drop` takes a token away at both ends, `cross` a push and the pop of another token."""

REACH = 3
"""How many instructions of its unit a moved flag is moved at most."""


@dataclass(frozen=True)
class Flag:
    """One bit: field `pop` or `push` of an instruction, and the unit that it names."""

    number: int
    field: str
    other: Unit


@dataclass(frozen=True)
class TokenMutant:
    """A program in which some flags are flipped."""

    kind: str
    flags: tuple[Flag, ...]
    program: Program

    def __str__(self) -> str:
        flags = [f"{flag.field} {flag.other.name} of {flag.number}" for flag in self.flags]
        return f"{self.kind}: {', '.join(flags)} flipped"


def mutants(
    program: Program, rng: np.random.Generator, count: int | None = None
) -> Iterator[TokenMutant]:
    """For each kind all mutants, or `count` of them drawn at random."""
    draw = _Draw(program)
    for kind in KINDS:
        choices = draw.choices(kind, rng)
        if count is not None and len(choices) > count:
            picks = rng.choice(len(choices), count, replace=False)
            choices = [choices[pick] for pick in sorted(picks.tolist())]
        for flags in choices:
            yield TokenMutant(kind, flags, _flipped(program, flags))


def _flipped(program: Program, flags: Sequence[Flag]) -> Program:
    items = list(program.instructions)
    for flag in flags:
        mask = getattr(items[flag.number], flag.field) ^ 1 << flag.other
        items[flag.number] = items[flag.number].replace(**{flag.field: mask})
    return replace(program, instructions=tuple(items))


class _Draw:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._queues: dict[Unit, list[int]] = {unit: [] for unit in UNITS}
        for number, item in enumerate(program.instructions):
            if item.opcode is not Opcode.FINISH:
                self._queues[item.unit].append(number)
        self._channels = [(a, b) for a in UNITS for b in UNITS if a is not b]

    def choices(self, kind: str, rng: np.random.Generator) -> list[tuple[Flag, ...]]:
        if kind == "flip":
            return [
                (Flag(number, field, other),)
                for unit, queue in self._queues.items()
                for number in queue
                for field in ("pop", "push")
                for other in UNITS
                if other is not unit
            ]
        if kind in ("drop", "cross", "add"):
            return [flags for a, b in self._channels for flags in self._pairs(kind, a, b, rng)]
        where, field = kind.split()
        step = -1 if where == "early" else 1
        return [flags for unit in UNITS for flags in self._moves(unit, field, step)]

    def _pairs(
        self, kind: str, source: Unit, target: Unit, rng: np.random.Generator
    ) -> list[tuple[Flag, ...]]:
        """A push of `source` and a pop of `target`, for each push (`add`: each without)."""
        pushes, free = self._split(source, "push", target)
        pops, free_pops = self._split(target, "pop", source)
        if kind == "drop":
            return list(zip(pushes, pops, strict=True))
        if kind == "cross":
            ends = [(push, pops[int(rng.integers(len(pops)))]) for push in pushes]
            return [(a, b) for k, (a, b) in enumerate(ends) if b is not pops[k]]
        return [(push, free_pops[int(rng.integers(len(free_pops)))]) for push in free if free_pops]

    def _moves(self, unit: Unit, field: str, step: int) -> list[tuple[Flag, ...]]:
        """Each flag of the unit, together with the same of one of its next neighbours."""
        result = []
        for other in UNITS:
            there = {flag.number for flag in self._split(unit, field, other)[0]}
            queue = self._queues[unit] if other is not unit else []
            for at, number in enumerate(queue):
                reach = [at + step * far for far in range(1, REACH + 1)]
                neighbours = [queue[k] for k in reach if 0 <= k < len(queue)]
                result += [
                    (Flag(number, field, other), Flag(near, field, other))
                    for near in neighbours
                    if number in there and near not in there
                ]
        return result

    def _split(self, unit: Unit, field: str, other: Unit) -> tuple[list[Flag], list[Flag]]:
        """Flags of the unit's instructions: those that are set, and those that are not."""
        items = self._program.instructions
        flags = [Flag(number, field, other) for number in self._queues[unit]]
        is_set = [bool(getattr(items[flag.number], field) >> other & 1) for flag in flags]
        return (
            [flag for flag, there in zip(flags, is_set, strict=True) if there],
            [flag for flag, there in zip(flags, is_set, strict=True) if not there],
        )
