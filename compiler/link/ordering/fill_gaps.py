"""Fills the time in which LOAD does nothing with LOADs of constants that later layers need.

LOAD is one in-order queue: behind a LOAD that waits for a result, weights and parameters of the
next layers wait, too. Here they move before it, as long as their rows are free. When LOAD and the
bus are idle is estimated (`program_times`). In the time that STOREs take the bus, nothing is
loaded: what waits for them would wait longer.

Input and output: placed instructions with their memory, before tokens are inserted.
"""

import numpy as np

from daedal.compiler.cost.instructions import shared
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.ordering.program_times import Integers, ProgramTimes, Times
from daedal.compiler.link.placement.hazards import NUM_QUEUES
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.isa.table import Unit
from daedal.native.kernel import kernel
from daedal.native.types import Array, f64, i8, i32, i64

__all__ = ["PASSES", "SHORTEST_GAP", "fill_gaps", "idle_of_bus"]


_LOAD, _STORE = int(Unit.LOAD), int(Unit.STORE)

SHORTEST_GAP = 500
"""Cycles. The estimate of a shorter one is often wrong."""

SHARE = 0.8
"""Of a gap that is filled."""

WINDOW = 1024
"""Instructions over which a LOAD may move."""

PASSES = 4
"""LOADs that have moved leave gaps behind."""

_LEAD_CYCLES = 100
"""LOADs are handed out so much before the gap."""


def fill_gaps(program: PlacedProgram) -> PlacedProgram:
    """The same program with some LOADs of constants earlier.

    A LOAD stays behind every instruction that touches its rows, so the result is unchanged.
    """
    schedule = ProgramTimes(program, shared(program.cycles(DDR), program.units))
    order = np.arange(len(program.items))
    for _ in range(PASSES):
        before, order = order, _filled(schedule, order)
        if np.array_equal(order, before):
            break
    return program.reordered(order)


def idle_of_bus(schedule: ProgramTimes, order: Integers, times: Times) -> tuple[Integers, Integers]:
    """When STOREs begin and end, one after the other, and how long they have taken until then."""
    stores = order[schedule.units[order] == _STORE]
    begins = times.begins[stores]
    limits = np.concatenate(
        [[0, 0], np.stack([begins, begins + schedule.cycles[stores]], 1).ravel()]
    )
    stored = np.cumsum([0, *(np.diff(limits) * (np.arange(len(limits) - 1) % 2 == 0))])
    return limits, stored


def _filled(schedule: ProgramTimes, order: Integers) -> Integers:
    """The order with some LOADs of constants in gaps."""
    times = schedule.times(order)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    loads = np.flatnonzero(schedule.units[order] == _LOAD)
    begins = times.begins[order[loads]]
    ends = np.concatenate([[0], (begins + schedule.cycles[order[loads]])[:-1]])
    limits, stored = idle_of_bus(schedule, order, times)
    taken = np.interp(begins, limits, stored) - np.interp(ends, limits, stored)
    result = np.empty_like(order)
    _fill(
        order,
        places,
        loads,
        begins,
        ends,
        SHARE * (begins - ends - taken),
        schedule.constant.astype(np.int8),
        schedule.cycles,
        schedule.conflicts.reshape(-1),
        schedule.before.ends,
        schedule.before.numbers,
        schedule.depth // 2,
        times.handed,
        times.ends,
        np.zeros(len(order), dtype=np.int8),
        np.empty_like(order),
        np.empty_like(order),
        result,
    )
    return result


@kernel
def _fill(
    order: Array[i64],
    places: Array[i64],
    loads: Array[i64],
    begins: Array[i64],
    idle: Array[i64],
    shares: Array[f64],
    constant: Array[i8],
    cycles: Array[i64],
    conflicts: Array[i32],
    before_ends: Array[i64],
    before: Array[i32],
    most: i64,
    handed: Array[i64],
    ends: Array[i64],
    gone: Array[i8],
    targets: Array[i64],
    moved: Array[i64],
    result: Array[i64],
) -> None:
    """Fill `result`, the new order.

    Of each LOAD, at one of the places `loads`, there are when it begins, when LOAD is `idle`
    before, and how many cycles may be filled (`shares`). `places` are those in `order`. A LOAD
    that moves is `gone`; `moved` lists these, with the places in front of which they come.
    """
    count = first = 0
    for k in range(len(loads)):
        place = loads[k]
        where, first = first, place + 1
        if begins[k] - idle[k] < SHORTEST_GAP or gone[order[place]] != 0:
            continue
        while where < place and handed[order[where]] < idle[k] - _LEAD_CYCLES:
            where += 1
        time = max(idle[k], handed[order[where]])
        until = f64(time) + shares[k]
        inserted = 0
        for later in range(k, len(loads)):
            if loads[later] > place + WINDOW:
                break
            number = order[loads[later]]
            if gone[number] != 0 or constant[number] == 0:
                continue
            if f64(time + cycles[number]) > until or inserted == most:
                break
            if _can_move(number, where, time, places, conflicts, before_ends, before, ends, gone):
                targets[count] = where
                moved[count] = number
                count += 1
                inserted += 1
                gone[number] = 1
                time += cycles[number]
    at = next_moved = 0
    for place in range(len(order)):
        while next_moved < count and targets[next_moved] == place:
            result[at] = moved[next_moved]
            at += 1
            next_moved += 1
        if gone[order[place]] == 0:
            result[at] = order[place]
            at += 1


@kernel
def _can_move(
    number: i64,
    where: i64,
    time: i64,
    places: Array[i64],
    conflicts: Array[i32],
    before_ends: Array[i64],
    before: Array[i32],
    ends: Array[i64],
    gone: Array[i8],
) -> bool:
    """Whether all that a LOAD waits for is in front of a gap, and has ended then."""
    for k in range(before_ends[number - 1] if number > 0 else 0, before_ends[number]):
        if places[before[k]] >= where and gone[before[k]] == 0:
            return False
    for k in range(number * NUM_QUEUES, (number + 1) * NUM_QUEUES):
        other = conflicts[k]
        if other >= 0 and (ends[other] > time or (places[other] >= where and gone[other] == 0)):
            return False
    return True
