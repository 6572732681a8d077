"""The chip's description, and its times in slots, recomputed clock by clock."""

from dataclasses import replace
from math import ceil

import pytest

from daedal.common.errors import UserError
from daedal.hw.boards.sdram.controller import SdramController
from daedal.hw.boards.sdram.pins import SdramPhy
from daedal.isa.sdram_chip import CHIPS, SdramChip
from daedal.isa.sdram_slots import (
    CLOCKS_PER_SLOT,
    PRECHARGE_CLOCK,
    ROW_CLOCK,
    SlotTimes,
)
from daedal.isa.variant import load_variant

ULX3S = CHIPS["IS42S16160G-7"]
FAST = CHIPS["W9825G6KH-5"]


def test_the_chip_of_the_ulx3s() -> None:
    assert ULX3S.size_bytes == 32 << 20
    assert ULX3S.row_bytes == 1024
    # MT48LC16M16A2 data sheet, mode register: CL in bits 4 to 6, burst length 4 is 0b010.
    assert ULX3S.mode == 0b011_0_010


@pytest.mark.parametrize("clock_hz", [95e6, 125e6, 1e9 / 7, 160e6, 183.3e6, 200e6])
def test_slots_are_as_long_as_the_times_and_no_longer(clock_hz: float) -> None:
    times, clock_ns = SlotTimes.of(FAST, clock_hz), 1e9 / clock_hz

    def elapsed(slots: int, start: int, end: int) -> float:
        return (CLOCKS_PER_SLOT * slots + end - start) * clock_ns + 1e-6

    for slots, start, end, wanted, least in (
        (times.precharge_to_row, PRECHARGE_CLOCK, ROW_CLOCK, FAST.precharge_ns, 1),
        (times.row_to_data, ROW_CLOCK, 0, FAST.row_to_data_ns, 2),
        (times.row_to_precharge, ROW_CLOCK, PRECHARGE_CLOCK, FAST.row_open_ns, 1),
        (times.refresh_to_any, ROW_CLOCK, PRECHARGE_CLOCK, FAST.refresh_ns, 1),
        (times.mode_to_any, ROW_CLOCK, PRECHARGE_CLOCK, 2 * clock_ns, 1),
    ):
        assert elapsed(slots, start, end) >= wanted
        shorter = elapsed(slots - 1, start, end) < wanted
        cycle_is_longer = wanted == FAST.row_open_ns and slots == _slots_of_cycle(times)
        assert slots == least or shorter or cycle_is_longer
    cycle = times.row_to_precharge + times.precharge_to_row
    assert cycle * CLOCKS_PER_SLOT * clock_ns + 1e-6 >= FAST.row_cycle_ns
    assert times.refresh_interval * CLOCKS_PER_SLOT * clock_ns <= FAST.refresh_interval_ns
    assert times.power_up * CLOCKS_PER_SLOT * clock_ns + 1e-3 >= FAST.power_up_ns


def _slots_of_cycle(times: SlotTimes) -> int:
    """The least `row_to_precharge` that keeps tRC."""
    clocks = ceil(times.chip.row_cycle_ns * times.clock_hz / 1e9 - 1e-6)
    return ceil(clocks / CLOCKS_PER_SLOT) - times.precharge_to_row


def test_distances_at_two_clocks() -> None:
    slow, fast = SlotTimes.of(ULX3S, 1e9 / 7), SlotTimes.of(FAST, 2 * 91.67e6)
    names = ("precharge_to_row", "row_to_data", "row_to_precharge", "refresh_to_any", "mode_to_any")
    assert [getattr(slow, name) for name in names] == [1, 2, 2, 3, 1]
    assert [getattr(fast, name) for name in names] == [1, 2, 3, 4, 1]
    assert (slow.refresh_interval, fast.refresh_interval) == (279, 358)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data_bits": 12}, "data_bits of an SDRAM must be 8, 16 or 32, not 12"),
        ({"cas_latency": 4}, r"cas_latency of an SDRAM must be 2 or 3, not 4 \(chip 'IS42S16160G"),
        ({"row_bits": 20}, "row_bits of an SDRAM must be 11 to 13, not 20"),
        ({"refresh_ns": 0.0}, "refresh_ns must be more than 0 and at most 10,000, not 0"),
        ({"row_cycle_ns": 40.0}, "row_cycle_ns must be at least row_open_ns, 45, not 40"),
        (
            {"refresh_interval_ns": 600.0},
            "refresh_interval_ns must be more than ten times refresh_ns, 70, not 600",
        ),
    ],
)
def test_a_chip_that_cannot_be_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(ULX3S, **changes)


def test_a_refresh_that_leaves_time_for_just_a_row_and_a_quarter() -> None:
    """512 columns of 20 ns and a quarter; a nanosecond less is too little."""
    SlotTimes.of(replace(ULX3S, refresh_interval_ns=12_800.0), 50e6)
    with pytest.raises(UserError, match="a row and a quarter, 12800 ns, not 12799"):
        SlotTimes.of(replace(ULX3S, refresh_interval_ns=12_799.0), 50e6)


def test_a_bus_of_another_width_is_refused() -> None:
    wide = load_variant("vta").replace("wide", data_bits=128)
    with pytest.raises(UserError, match="data_bits must be 64 with this SDRAM, 4 columns of 16 b"):
        SdramController(variant=wide, times=SlotTimes.of(ULX3S, 1e9 / 7))


def test_columns_are_captured_within_four_clocks() -> None:
    with pytest.raises(ValueError, match="capture_clocks must be 0 to 4, not 5"):
        SdramPhy(chip=ULX3S, capture_clocks=5)


@pytest.mark.parametrize(
    ("chip", "clock_hz", "message"),
    [
        (ULX3S, 150e6, r"the clock of the SDRAM must be at most 142.857 MHz, not 150 MHz \(chip"),
        (ULX3S, 0, "the clock of an SDRAM must be more than 0 Hz, not 0"),
        (ULX3S, 50e6, "must be at least a row and a quarter, 12800 ns, not 7812, at 50 MHz"),
        (
            replace(FAST, write_recovery_ns=20.0),
            200e6,
            "write_recovery_ns of an SDRAM must be at most 3 clocks, not 4, at 200 MHz",
        ),
        (
            replace(FAST, row_to_row_ns=24.0),
            200e6,
            "row_to_row_ns of an SDRAM must be at most 4 clocks, not 5, at 200 MHz",
        ),
    ],
)
def test_a_clock_that_does_not_suit_the_chip_is_refused(
    chip: SdramChip, clock_hz: float, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        SlotTimes.of(chip, clock_hz)
