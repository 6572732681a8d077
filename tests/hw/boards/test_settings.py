"""What a board's bitstream may be, and what is refused."""

import pytest

from daedal.common.errors import UserError
from daedal.hw.boards.pll import pll_settings
from daedal.hw.boards.settings import BoardSettings, bank_bytes
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
CLOCK = pll_settings(25_000_000, 95e6)


@pytest.mark.parametrize("baud", [115_200, 1_000_000, 2_000_000, 3_000_000])
def test_the_divisor_comes_near_the_baud_rate(baud: int) -> None:
    found = BoardSettings.for_baud(TINY, CLOCK, 1 << 16, baud)
    assert abs(CLOCK.output_hz / found.divisor / baud - 1) < 0.02
    silence_seconds = found.silence_cycles / CLOCK.output_hz
    assert 0.01 <= silence_seconds < 0.02
    assert found.silence_cycles & (found.silence_cycles - 1) == 0


def test_memory_is_whole_banks() -> None:
    assert bank_bytes(TINY) == 16384
    for memory_bytes in (0, 1000, 40_000):
        with pytest.raises(
            UserError,
            match=f"a multiple of 16 KiB for this variant's bus, not {memory_bytes / 1024:g}",
        ):
            BoardSettings(TINY, CLOCK, memory_bytes, 4, 1 << 14)


def test_baud_rates_that_the_clock_cannot_give_are_refused() -> None:
    with pytest.raises(UserError, match=r"to within 2%, which 14000000 misses by -3\.1%"):
        BoardSettings.for_baud(TINY, CLOCK, 1 << 16, 14_000_000)
    slow = pll_settings(25_000_000, 9e6)
    with pytest.raises(UserError, match="at least 4 clock cycles, not 3; choose a slower baud"):
        BoardSettings.for_baud(TINY, slow, 1 << 16, 3_000_000)
