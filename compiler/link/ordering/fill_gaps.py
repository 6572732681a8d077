"""Fills the time in which LOAD does nothing with LOADs of constants that later layers need.

LOAD is one in-order queue: behind a LOAD that waits for a result, weights and parameters of the
next layers wait, too. Here they move before it, as long as their rows are free. When LOAD and the
bus are idle is estimated (`program_times`). In the time that STOREs take the bus, nothing is
loaded: what waits for them would wait longer.

Input and output: placed instructions with their memory, before tokens are inserted.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.link.ordering.program_times import ProgramTimes, Times
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["PASSES", "SHORTEST_GAP", "fill_gaps"]

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


def fill_gaps(
    variant: Variant,
    region_bytes: tuple[int, int, int, int],
    items: Sequence[PlacedInstruction],
    unread: Collection[int] = (),
) -> list[PlacedInstruction]:
    """The same program with some LOADs of constants earlier.

    `unread` are the numbers of STOREs that will store nothing. A LOAD stays behind every
    instruction that touches its rows, so the result is unchanged.
    """
    cost = InstructionCost(variant)
    schedule = ProgramTimes(variant, region_bytes, items, unread, cost.shared)
    order = list(range(len(items)))
    for _ in range(PASSES):
        before, order = order, _filled(schedule, order)
        if order == before:
            break
    return [items[number] for number in order]


class _Gap(NamedTuple):
    """Time without a LOAD.

    Parameters
    ----------
    place : in the program, where FETCH is when it begins.
    begin : when a LOAD from there can begin.
    cycles : how many of it may be filled.
    behind : the place of the LOAD behind it.
    """

    place: int
    begin: int
    cycles: float
    behind: int


def _filled(schedule: ProgramTimes, order: Sequence[int]) -> list[int]:
    """The order with some LOADs of constants in gaps."""
    times = schedule.times(order)
    loads = [place for place, number in enumerate(order) if schedule.units[number] is Unit.LOAD]
    places = {number: place for place, number in enumerate(order)}
    moved: dict[int, list[int]] = {}
    gone: set[int] = set()

    def can_move(number: int, gap: _Gap, time: int) -> bool:
        """Whether all that a LOAD waits for is in front of a gap, and has ended then."""
        needed = (*schedule.before[number], *schedule.conflicts[number])
        free = all(places[other] < gap.place or other in gone for other in needed)
        return free and schedule.ready(number, times.ends) <= time

    for gap in _gaps(schedule, order, times, loads, gone):
        inserted = moved[gap.place] = []
        begin = bisect_left(loads, gap.behind)
        time, end = gap.begin, gap.begin + gap.cycles
        for place in loads[begin : bisect_right(loads, gap.behind + WINDOW)]:
            number = order[place]
            if number in gone or not schedule.constant[number]:
                continue
            if time + schedule.cycles[number] > end or len(inserted) == schedule.depth // 2:
                break
            if can_move(number, gap, time):
                inserted.append(number)
                gone.add(number)
                time += schedule.cycles[number]
    rest = ([number] if number not in gone else [] for number in order)
    return [n for place, kept in enumerate(rest) for n in (*moved.get(place, ()), *kept)]


def _gaps(
    schedule: ProgramTimes,
    order: Sequence[int],
    times: Times,
    loads: Sequence[int],
    gone: Collection[int],
) -> Iterator[_Gap]:
    """Gaps in front of `loads`, the places of all LOADs, but not of those that are `gone`."""
    stores = [number for number in order if schedule.units[number] is Unit.STORE]
    spans = [(times.begins[n], times.begins[n] + schedule.cycles[n]) for n in stores]
    limits = np.array([(0, 0), *spans]).ravel()
    # How long STOREs have taken until then.
    stored = np.cumsum([0, *(np.diff(limits) * (np.arange(len(limits) - 1) % 2 == 0))])
    after = end = 0
    for place in loads:
        number = order[place]
        first, idle, begin = after, end, times.begins[number]
        after, end = place + 1, begin + schedule.cycles[number]
        if begin - idle < SHORTEST_GAP or number in gone:
            continue
        before, until = np.interp([idle, begin], limits, stored)
        early = (n for n in range(first, place) if times.handed[order[n]] >= idle - _LEAD_CYCLES)
        where = next(early, place)
        start = max(idle, times.handed[order[where]])
        yield _Gap(where, start, SHARE * (begin - idle - (until - before)), place)
