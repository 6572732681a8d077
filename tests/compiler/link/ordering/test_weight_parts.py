"""Parts of LOADs of weights: their order, and which of them are one LOAD again."""

import numpy as np
import pytest

from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.ordering.program_times import ProgramTimes
from daedal.compiler.link.ordering.weight_parts import Part, by_need, joined
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory
from tests.support.placed_layers import load, multiply, program_of

ROWS = 4


def in_front(busy_row: int) -> list[PlacedInstruction]:
    """A long product with rows from `busy_row` on, and their LOAD."""
    rows = (Memory.WGT, busy_row, ROWS)
    return [load(LoadMemory.WGT, busy_row, ROWS), multiply(rows, steps=1000)]


def schedule_of(items: list[PlacedInstruction]) -> ProgramTimes:
    program = program_of(items)
    return ProgramTimes(program, program.cycles(DDR))


@pytest.mark.parametrize(
    ("busy_row", "expected"), [(0, [1, 0]), (ROWS, [0, 1]), (2 * ROWS, [0, 1])]
)
def test_loads_whose_rows_are_free_come_first_then_those_needed_first(
    busy_row: int, expected: list[int]
) -> None:
    """Of two LOADs, which come in the wrong order, the first one has rows 0 to 3."""
    items = in_front(busy_row)
    for row in (0, ROWS):
        items.append(load(LoadMemory.WGT, row, ROWS))
    for row in (0, ROWS):
        items.append(multiply((Memory.WGT, row, ROWS)))
    schedule = schedule_of(items)
    order = np.array([0, 1, 3, 2, 4, 5])
    found = by_need(schedule, order, schedule.times(order)).tolist()
    assert found == [0, 1, *(2 + number for number in expected), 4, 5]


def test_loads_into_the_same_rows_keep_their_order() -> None:
    """The second one fills what the first one did not, as after padding."""
    items = [load(LoadMemory.WGT, 0, 2 * ROWS), load(LoadMemory.WGT, 0, ROWS)]
    items.append(multiply((Memory.WGT, 0, 2 * ROWS)))
    schedule = schedule_of(items)
    order = np.arange(len(items))
    assert by_need(schedule, order, schedule.times(order)).tolist() == [0, 1, 2]


@pytest.mark.parametrize(("busy_row", "num_loads"), [(2 * ROWS, 1), (0, 1), (ROWS, 2)])
def test_parts_are_joined_unless_the_later_one_waits_longer(busy_row: int, num_loads: int) -> None:
    items = in_front(busy_row)
    items += [load(LoadMemory.WGT, row, ROWS) for row in (0, ROWS)]
    items.append(multiply((Memory.WGT, 0, 2 * ROWS)))
    parts = [Part(0), Part(1), Part(2, 0, ROWS), Part(2, ROWS, 2 * ROWS), Part(3)]
    schedule = schedule_of(items)
    order = np.arange(len(items))
    found = list(joined(parts, schedule, order.tolist(), schedule.times(order)))
    whole = [Part(2, 0, 2 * ROWS)] if num_loads == 1 else parts[2:4]
    assert found == [*parts[:2], *whole, parts[4]]
