"""Fills the time in which LOAD does nothing with LOADs of constants that later layers need.

LOAD is one in-order queue: behind a LOAD that waits for a result, weights and parameters of the
next layers wait, too. Here they move before it, as long as their rows are free. When LOAD and the
bus are idle is estimated: FETCH hands out instructions in program order, as long as the queue of
the next one has space; units execute in order, each instruction after those that it conflicts with.
In the time that STOREs take the bus, nothing is loaded: what waits for them would wait longer.

Input and output: placed instructions with their memory, before tokens are inserted.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.link.ordering.prefetch import earlier_loads
from daedal.compiler.link.placement.hazards import NUM_QUEUES, hazards
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

LATENCY_CYCLES = {Unit.LOAD: 80, Unit.GEMM: 16, Unit.ALU: 24, Unit.STORE: 80}
"""From an instruction's last step to the first of one that waits for it, with preset `ddr` and
others on the bus: chosen by the ledger."""

_FETCH_CYCLES, _QUEUE_CYCLES = 2, 4
"""From one instruction to the next, and from FETCH to the unit."""

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
    schedule = _Schedule(variant, region_bytes, items, unread)
    order = list(range(len(items)))
    for _ in range(PASSES):
        before, order = order, _filled(schedule, order)
        if order == before:
            break
    return [items[number] for number in order]


class _Times(NamedTuple):
    """When each instruction leaves FETCH, begins, and ends, by its number."""

    handed: Sequence[int]
    begins: Sequence[int]
    ends: Sequence[int]


class _Schedule:
    """What an estimate of a program's times needs."""

    def __init__(
        self,
        variant: Variant,
        region_bytes: tuple[int, int, int, int],
        items: Sequence[PlacedInstruction],
        unread: Collection[int],
    ) -> None:
        self.units = [item.unit for item in items]
        self.conflicts = [
            [other for other in found if other >= 0]
            for found in hazards(variant, region_bytes, items)
        ]
        self.before = earlier_loads(variant, items)
        self.constant = [item.unit is Unit.LOAD and item.beats is None for item in items]
        self.depth = variant.units.queue_depth
        cost = InstructionCost(variant)
        self.cycles = [
            0 if number in unread else cost.shared(item.instruction)
            for number, item in enumerate(items)
        ]

    def times(self, order: Sequence[int]) -> _Times:
        """Of the program in this order."""
        handed, begins, ends = ([0] * len(self.units) for _ in range(3))
        # By unit, when its instructions leave its queue: when those in front of them begin.
        leave: list[list[int]] = [[] for _ in range(NUM_QUEUES)]
        last_begin, free = [0] * NUM_QUEUES, [0] * NUM_QUEUES
        at = 0
        for number in order:
            unit = self.units[number]
            at += _FETCH_CYCLES
            if len(leave[unit]) >= self.depth:
                at = max(at, leave[unit][-self.depth])
            leave[unit].append(max(last_begin[unit], at))
            begin = max(self.ready(number, ends), free[unit], at + _QUEUE_CYCLES)
            handed[number], begins[number], last_begin[unit] = at, begin, begin
            free[unit] = begin + self.cycles[number]
            ends[number] = free[unit] + LATENCY_CYCLES[unit]
        return _Times(handed, begins, ends)

    def ready(self, number: int, ends: Sequence[int]) -> int:
        """When all that an instruction waits for has ended."""
        return max((ends[other] for other in self.conflicts[number]), default=0)


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


def _filled(schedule: _Schedule, order: Sequence[int]) -> list[int]:
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
    schedule: _Schedule,
    order: Sequence[int],
    times: _Times,
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
