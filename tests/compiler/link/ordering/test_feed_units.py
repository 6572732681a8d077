"""Another order for FETCH is taken where it gains much, or where both estimates say so."""

import numpy as np
import pytest

from daedal.compiler.cost.instructions import shared
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.ordering import feed_units as module
from daedal.compiler.link.ordering.feed_units import feed_units
from daedal.compiler.link.ordering.fill_gaps import fill_gaps
from daedal.compiler.link.ordering.program_times import ProgramTimes, Times
from daedal.compiler.link.placement.placed import PlacedInstruction
from tests.compiler.link.ordering.test_past_full_queues import SPACE, moved, tiles
from tests.support.placed_layers import program_of

ITEMS = tiles(SPACE + 4, acc=8)
PROGRAM = program_of(ITEMS)
MOVED, GAIN = moved(ITEMS)
USUAL = fill_gaps(PROGRAM).items


def fed(items: list[PlacedInstruction]) -> list[PlacedInstruction]:
    return feed_units(program_of(items)).items


@pytest.fixture
def _not_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGE_GAIN", 1)


def test_a_large_gain_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOVED not in (ITEMS, USUAL) and GAIN > module.LARGE_GAIN
    monkeypatch.setattr(module, "LEAST_GAIN", 1)
    assert fed(ITEMS) == MOVED


@pytest.mark.usefixtures("_not_at_once")
def test_estimates_of_the_finished_program_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fed(ITEMS) == MOVED
    monkeypatch.setattr(module, "LEAST_GAIN", 1)
    assert fed(ITEMS) == USUAL


@pytest.mark.usefixtures("_not_at_once")
def test_what_later_passes_gain_as_well_does_not_count() -> None:
    """A LOAD alone, which `fill_gaps` moves, too."""
    items = tiles(SPACE + 4)
    other, gain = moved(items)
    usual = fill_gaps(program_of(items)).items
    assert gain > module.LEAST_GAIN and usual not in (items, other)
    assert fed(items) == usual


@pytest.mark.usefixtures("_not_at_once")
def test_an_order_that_is_slower_by_one_estimate_stays_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That in which all transfers wait for each other."""
    times = ProgramTimes.times
    cycles = shared(PROGRAM.cycles(DDR), PROGRAM.units).sum()
    units = [int(item.unit) for item in MOVED]

    def slower(self: ProgramTimes, order: np.ndarray) -> Times:
        found = times(self, order)
        if self.cycles.sum() == cycles and self.units.tolist() == units:
            found = found._replace(ends=found.ends + found.ends.max() // 2)
        return found

    monkeypatch.setattr(ProgramTimes, "times", slower)
    assert fed(ITEMS) == USUAL
