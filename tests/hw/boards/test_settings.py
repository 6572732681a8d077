"""What a board's bitstream may be, and what is refused."""

import pytest

from daedal.common.bridge import BAUD_RATES
from daedal.common.errors import UserError
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.settings import BoardSettings, bank_bytes
from daedal.isa.variant import load_variant

TINY = load_variant("tiny")
BOARD = load_board("ulx3s-85f")
CLOCK = BOARD.clock(95e6)


@pytest.mark.parametrize("baud", [115_200, 1_000_000, 2_000_000, 3_000_000])
def test_the_divisor_comes_near_the_baud_rate(baud: int) -> None:
    found = BoardSettings.for_baud(BOARD, TINY, CLOCK, 1 << 16, baud)
    assert abs(CLOCK.output_hz / found.divisor / baud - 1) < 0.02
    silence_seconds = found.silence_cycles / CLOCK.output_hz
    assert 0.01 <= silence_seconds < 0.02
    assert found.silence_cycles & (found.silence_cycles - 1) == 0


@pytest.mark.parametrize(
    ("mhz", "baud"),
    [
        (80, 3_000_000),
        (71.4, 3_000_000),  # the most that most boards' SDRAM allows
        (25, 1_000_000),  # 8 cycles give 3.125 million, which is too far off; 12, 2.083 million
        (22, 2_000_000),
        (9, 1_000_000),
        (3.2, 115_200),
    ],
)
def test_the_fastest_rate_that_the_clock_gives_is_the_default(mhz: float, baud: int) -> None:
    clock = BOARD.clock(mhz * 1e6)
    found = BoardSettings.for_baud(BOARD, TINY, clock, 1 << 16)
    assert found == BoardSettings.for_baud(BOARD, TINY, clock, 1 << 16, baud)
    assert found.divisor >= 4
    for faster in BAUD_RATES[: BAUD_RATES.index(baud)]:
        with pytest.raises(UserError):
            BoardSettings.for_baud(BOARD, TINY, clock, 1 << 16, faster)


def test_memory_is_whole_banks() -> None:
    assert bank_bytes(TINY) == 16384
    for memory_bytes in (0, 1000, 40_000):
        with pytest.raises(
            UserError,
            match=f"a multiple of 16 KiB for this variant's bus, not {memory_bytes / 1024:g}",
        ):
            BoardSettings(BOARD, TINY, CLOCK, memory_bytes, 4, 1 << 14)


def test_baud_rates_that_the_clock_cannot_give_are_refused() -> None:
    with pytest.raises(UserError, match=r"to within 2%, which 14000000 misses by -3\.1%"):
        BoardSettings.for_baud(BOARD, TINY, CLOCK, 1 << 16, 14_000_000)
    slow = BOARD.clock(9e6)
    with pytest.raises(UserError, match="at least 4 clock cycles, not 3; choose a slower baud"):
        BoardSettings.for_baud(BOARD, TINY, slow, 1 << 16, 3_000_000)
