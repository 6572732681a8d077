"""Moves LOADs of weights that the multipliers wait for between LOADs that have time.

A layer with one product for each word of its weights, as a classifier is, waits for the bus. The
layer before it may leave the bus idle for a few cycles of each tile, too few for a gap
(`fill_gaps`), although all its LOADs come long before their products. Here the weights of the later
layer are cut into parts, and each moves as far to the front as its rows are free and the LOADs that
it delays still come before their products.

Before, where the products of layer B wait for the weights `b`, and those of layer A for nothing::

    LOADs: a0 a1 a2 a3 a4 a5 b

After::

    LOADs: a0 a1 b[0] a2 a3 b[1] a4 a5 b[2:]

Input and output: placed instructions with their memory, before tokens are inserted.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.compiler.cost.instructions import undisturbed
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.ordering.fill_gaps import idle_of_bus
from daedal.compiler.link.ordering.program_times import Integers, ProgramTimes, Times
from daedal.compiler.link.ordering.weight_parts import (
    Part,
    by_need,
    joined,
    parts_of,
    piece_of,
    rows_of_part,
)
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.isa.memory_model import MemoryModel
from daedal.isa.table import Opcode, Unit

__all__ = ["SHORTEST_WAIT", "weights_ahead"]

SHORTEST_WAIT = 500
"""Cycles that GEMM waits for a LOAD, for this to move."""

SHARE = 0.5
"""Of the cycles that a LOAD comes before its products, those that it may be delayed."""

WINDOW = 1024
"""Instructions over which a LOAD may move."""

LEAST_GAIN = 1 / 20
"""Of the cycles of the LOADs that GEMM waits for: what the whole program must gain by the estimate,
which does not see all of what LOADs wait for."""

PASSES = 4
"""Products that begin earlier free rows of others earlier, and each pass leaves LOADs less time."""


def weights_ahead(program: PlacedProgram, memory: MemoryModel = DDR) -> PlacedProgram:
    """The same program with some LOADs of constants cut into parts, and these earlier.

    A LOAD stays behind every instruction that touches its rows, so the result is unchanged.
    """
    items = program.items
    whole = _times(program, memory)
    awaited = _awaited(whole, whole.times(np.arange(len(items))))
    words = machine_cost(program.variant, memory).transfer_beats
    cut = {n: size for n in awaited if (size := rows_of_part(items[n], words)) is not None}
    if not cut:
        return program
    parts = [part for n, item in enumerate(items) for part in parts_of(n, item, cut.get(n))]
    schedule = _times(_in_parts(program, parts, words), memory)
    movable = [number for number, part in enumerate(parts) if part.number in cut]
    order = np.arange(len(parts))
    before = times = schedule.times(order)
    for _ in range(PASSES):
        found = _Loads(schedule, order, times).moved(movable)
        after = schedule.times(found)
        if np.array_equal(found, order) or after.ends.max() >= times.ends.max():
            break
        order, times = found, after
    gain = before.ends.max() - times.ends.max()
    if gain < LEAST_GAIN * whole.cycles[list(cut)].sum():
        return program
    order = by_need(schedule, order, times)
    whole_again = list(joined(parts, schedule, order.tolist(), schedule.times(order)))
    return _in_parts(program, whole_again, words)


def _times(program: PlacedProgram, memory: MemoryModel) -> ProgramTimes:
    """Where transfers do not wait for each other."""
    return ProgramTimes(program, undisturbed(program.cycles(memory), program.units))


def _in_parts(
    program: PlacedProgram, parts: Sequence[Part], words: Mapping[tuple[Opcode, int], int]
) -> PlacedProgram:
    """The program that consists of these parts of its instructions."""
    pieces = [piece_of(program.items[part.number], part, words) for part in parts]
    return program.replaced([part.number for part in parts], pieces)


def _awaited(schedule: ProgramTimes, times: Times) -> Iterator[int]:
    """The numbers of LOADs of constants without which GEMM would begin earlier, by
    `SHORTEST_WAIT`."""
    numbers = np.flatnonzero(schedule.units == Unit.GEMM)
    conflicts = schedule.conflicts[numbers]
    ends = np.where(conflicts >= 0, times.ends[conflicts], 0)
    others = np.delete(ends, Unit.LOAD, axis=1).max(axis=1)
    free = np.concatenate([[0], (times.begins[numbers] + schedule.cycles[numbers])[:-1]])
    limits = np.maximum(np.maximum(free, others), times.handed[numbers])
    waiting = times.begins[numbers] - limits >= SHORTEST_WAIT
    for load in conflicts[waiting, Unit.LOAD].tolist():
        if load >= 0 and schedule.constant[load]:
            yield load


@dataclass
class _Load:
    """A LOAD in the estimated order.

    Parameters
    ----------
    place : in the program, of the instruction before which it stays.
    begin : its first cycle.
    idle : cycles before it in which neither LOAD nor STORE use the bus.
    spare : cycles that it may be delayed.
    """

    number: int
    place: int
    begin: float
    idle: float
    spare: float


class _Loads:
    """All LOADs of a program, which `moved` brings into another order."""

    def __init__(self, schedule: ProgramTimes, order: Integers, times: Times) -> None:
        self._schedule, self._order, self._times = schedule, order, times
        self._places = np.empty_like(order)
        self._places[order] = np.arange(len(order))
        places = np.flatnonzero(schedule.units[order] == Unit.LOAD)
        numbers = order[places]
        columns = (numbers, places, times.begins[numbers], self._idle(numbers))
        spare = SHARE * self._spare()[numbers]
        self._loads = [
            _Load(*values)
            for values in zip(*(column.tolist() for column in (*columns, spare)), strict=True)
        ]
        self._by_number = {load.number: load for load in self._loads}

    def _idle(self, numbers: Integers) -> npt.NDArray[np.float64]:
        """Cycles of the bus without transfers between each LOAD and the one before."""
        limits, stored = idle_of_bus(self._schedule, self._order, self._times)
        firsts, moved = self._times.begins[numbers], self._schedule.cycles[numbers]
        until = np.interp(firsts, limits, stored)
        idle = np.diff(firsts - until, prepend=0) - np.concatenate([[0], moved[:-1]])
        found: npt.NDArray[np.float64] = np.maximum(idle, 0)
        return found

    def _spare(self) -> npt.NDArray[np.float64]:
        """Cycles from the end of each instruction to the first one that waits for it."""
        spare = np.full(len(self._order), np.inf)
        for others in self._schedule.conflicts.T:
            waiting = np.flatnonzero(others >= 0)
            needed = others[waiting]
            left = self._times.begins[waiting] - self._times.ends[needed]
            np.minimum.at(spare, needed, left)
        return spare

    def moved(self, numbers: Sequence[int]) -> Integers:
        """The order with LOADs of these numbers as early as possible."""
        for number in numbers:
            self._move(number)
        places = np.array([load.place for load in self._loads], dtype=np.int64)
        loads = np.array([load.number for load in self._loads], dtype=np.int64)
        others = np.flatnonzero(self._schedule.units[self._order] != Unit.LOAD)
        # LOADs come in front of what is at their place; they are in order already.
        keys = np.concatenate([2 * places, 2 * others + 1])
        found = np.concatenate([loads, self._order[others]])
        return found[np.argsort(keys, kind="stable")]

    def _move(self, number: int) -> None:
        """Bring a LOAD to the front of the first one that may be delayed by it."""
        schedule, loads = self._schedule, self._loads
        at = self._index(number)
        needed = (*schedule.before.of(number), *schedule.waits_for(number))
        ready = schedule.ready(number, self._times)
        bound = max((self._place_of(other) for other in needed), default=-1)
        target = at
        while target > 0:
            load = loads[target - 1]
            if load.place <= bound or load.begin < ready or loads[at].place - load.place > WINDOW:
                break
            target -= 1
        cycles = schedule.cycles[number]
        while target < at:
            late = self._late(target, at, cycles)
            if late is None:
                break
            target = late + 1
        else:
            return
        moved, delay = loads.pop(at), float(cycles)
        if at < len(loads):
            loads[at].idle += cycles
        for load in loads[target:at]:
            absorbed = min(delay, load.idle)
            load.idle -= absorbed
            delay -= absorbed
            load.begin += delay
            load.spare -= delay
        follower = loads[target]
        moved.place, moved.begin, moved.idle = follower.place, follower.begin, 0.0
        moved.spare = 0.0
        loads.insert(target, moved)

    def _place_of(self, number: int) -> int:
        """Where an instruction is now."""
        load = self._by_number.get(number)
        return int(self._places[number]) if load is None else load.place

    def _index(self, number: int) -> int:
        """Of a LOAD among all, which are sorted by their places."""
        at = bisect_left(self._loads, self._place_of(number), key=lambda load: load.place)
        while self._loads[at].number != number:
            at += 1
        return at

    def _late(self, target: int, at: int, cycles: float) -> int | None:
        """The first LOAD that would come too late with `cycles` more in front of `target`."""
        delay = float(cycles)
        for place in range(target, at):
            load = self._loads[place]
            delay = max(delay - load.idle, 0.0)
            if delay > load.spare:
                return place
            if not delay:
                break
        return None
