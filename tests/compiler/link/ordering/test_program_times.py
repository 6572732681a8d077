"""When instructions begin and end: the kernel against the rules, instruction by instruction."""

import numpy as np
import pytest

from daedal.compiler.link.ordering import program_times as module
from daedal.compiler.link.ordering.program_times import LATENCY_CYCLES, ProgramTimes
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.isa.table import Unit
from tests.compiler.link.placement.test_hazards import REGIONS, TINY, stream

FETCH, QUEUE = 2, 4


def defined(schedule: ProgramTimes, order: list[int]) -> list[tuple[int, int, int]]:
    """Handed out, begun and ended, by number."""
    found = [(0, 0, 0)] * len(order)
    queues: dict[Unit, list[int]] = {unit: [] for unit in Unit}
    at = 0
    for number in order:
        unit = Unit(int(schedule.units[number]))
        before = queues[unit]
        at += FETCH
        if len(before) >= schedule.depth:
            # An instruction leaves its queue when the one in front of it has begun.
            full = before[-schedule.depth]
            ahead = before[-schedule.depth - 1 : -schedule.depth]
            at = max(at, found[full][0], *(found[other][1] for other in ahead))
        free = found[before[-1]][1] + int(schedule.cycles[before[-1]]) if before else 0
        ready = max((found[other][2] for other in schedule.waits_for(number)), default=0)
        begin = max(free, ready, at + QUEUE)
        end = begin + int(schedule.cycles[number]) + LATENCY_CYCLES[unit]
        found[number] = at, begin, end
        before.append(number)
    return found


@pytest.mark.parametrize("how", ["", "plain", "checked"])
def test_times_follow_the_rules(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how:
        monkeypatch.setattr(module, "_times", getattr(module._times, how))
    for _ in range(3):
        items = stream(rng, 60)
        unread = [n for n, item in enumerate(items) if item.unit is Unit.STORE][::2]
        program = PlacedProgram.of(TINY, REGIONS, items, unread)
        schedule = ProgramTimes(program, 7 + 90 * program.units)
        assert {int(schedule.cycles[number]) for number in unread} == {0}
        order = np.arange(len(items))
        times = schedule.times(order)
        found = list(zip(*(values.tolist() for values in times), strict=True))
        assert found == defined(schedule, order.tolist())
