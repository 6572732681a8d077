"""The SDRAM engine: the chip's distances, open rows, and every word of a segment once."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from daedal.hw.boards.sdram import engine
from daedal.hw.formal.prove import prove
from daedal.hw.formal.slots import SlotDistances
from daedal.isa.sdram_chip import CHIPS, SdramChip
from daedal.isa.sdram_slots import SlotTimes
from tests.hw.formal.broken import broken_copy, first_quick

pytestmark = pytest.mark.formal


class SmallChip(SdramChip):
    """Two banks of two rows of four words: no SDRAM is that small."""

    def __post_init__(self) -> None:
        pass


def short_times(**changes: int) -> SlotTimes:
    """The distances at 183 MHz, but for pauses and refreshes, which are short."""
    chip = CHIPS["W9825G6KH-5"]
    values = {item.name: getattr(chip, item.name) for item in fields(chip)}
    small = {"bank_bits": 1, "row_bits": 1, "column_bits": 4, "init_refreshes": 1}
    times = SlotTimes.of(chip, 183.33e6)
    pauses = {"refresh_to_any": 1, "refresh_interval": 7, "power_up": 1}
    return replace(times, chip=SmallChip(**(values | small)), **(pauses | changes))


LONGER = {
    "row_to_data": 3,
    "precharge_to_row": 2,
    "row_to_precharge": 4,
    "refresh_to_any": 2,
    "refresh_interval": 10,
}


@pytest.mark.slow
def test_the_engine_keeps_all_distances() -> None:
    """In all runs of 34 cycles: initialization, rows that are changed, a refresh."""
    result = prove(SlotDistances(times=short_times()), depth=34)
    assert result.holds, result


@pytest.mark.slow
def test_the_engine_keeps_longer_distances() -> None:
    result = prove(SlotDistances(times=short_times(**LONGER)), depth=30)
    assert result.broken is None, result
    assert {"closes_bank0", "closes_bank1", "refresh_when_initialized"} <= set(result.reached)


@pytest.mark.heavy(10)
@pytest.mark.parametrize(
    ("right", "wrong", "claim", "times"),
    first_quick(
        {
            "accepts a segment too many": (
                "self.decides & (~state.has_next | state.starts)",
                "self.decides",
                "two_at_most",
                {},
            ),
            "moves a word too soon": (
                "times.row_to_data - 2",
                "times.row_to_data - 3",
                "chip_moves_in_an_open_row",
                {"row_to_data": 3},
            ),
            "closes a row too soon": (
                "state.conflicts & (state.held == 0)",
                "state.conflicts",
                "chip_row_open",
                {"row_to_precharge": 4},
            ),
            "opens a row too soon": (
                "[segment.bank].eq(0),\n                state.wait.eq(times.precharge_to_row - 1)",
                "[segment.bank].eq(0),\n                state.wait.eq(0)",
                "chip_precharge_time",
                {"precharge_to_row": 2, "refresh_interval": 14},
            ),
            "does not wait for a refresh": (
                "state.wait.eq(times.refresh_to_any - 1)",
                "state.wait.eq(0)",
                "chip_after_refresh",
                {"refresh_to_any": 2},
            ),
            "writes at once after a read": (
                "& ~(reading & following.write)",
                "",
                "chip_turn",
                {},
            ),
            "takes closed rows for open": (
                "*(bank.eq(0) for bank in state.is_open),",
                "",
                "chip_",
                {},
            ),
            "takes a row for another one": ("== segment.row", "== state.rows[0]", None, {}),
            "closes a row in which words move": (
                "is_free = state.is_apart | ~state.has_current",
                "is_free = 1",
                None,
                {},
            ),
            "moves a word twice": ("current.column + 1", "current.column", "right_place", {}),
        }
    ),
)
def test_a_broken_engine_fails(
    right: str, wrong: str, claim: str | None, times: dict[str, int], tmp_path: Path
) -> None:
    copy = broken_copy(engine, right, wrong, tmp_path)
    result = prove(SlotDistances(times=short_times(**times), module=copy), depth=34)
    assert result.broken is not None, result
    assert claim is None or result.broken[0].startswith(claim), result
