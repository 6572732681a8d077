"""Simulated boards for tests: built once, kept between sessions, found by content."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from daedal.hw.boards import ulx3s
from daedal.hw.boards.pll import pll_settings
from daedal.hw.boards.settings import BoardSettings
from daedal.isa.errors import ToolError
from daedal.isa.variant import Variant
from daedal.sim.rtl.board import BoardSimulation, simulate_board
from daedal.sim.rtl.build import Built, build_board_simulator
from daedal.sim.rtl.toolchain import require_tools
from daedal.sim.rtl.verilog import kept_board_verilog
from tests.support.rtl import CACHE

__all__ = ["MEMORY_BYTES", "board_settings", "board_simulator", "simulated_board"]

MEMORY_BYTES = 1 << 16
_DIVISOR = 4
_SILENCE_CYCLES = 1 << 14


def board_settings(variant: Variant) -> BoardSettings:
    """A ULX3S with `variant`, whose serial port is as fast as it can be."""
    clock = pll_settings(ulx3s.OSCILLATOR_HZ, 80e6)
    return BoardSettings(variant, clock, MEMORY_BYTES, _DIVISOR, _SILENCE_CYCLES)


def board_simulator(settings: BoardSettings) -> Built:
    """Its simulator. Skips without tools."""
    try:
        require_tools("native")
    except ToolError as error:
        pytest.skip(str(error))
    text = kept_board_verilog(settings, CACHE, print)
    return build_board_simulator(text, top=ulx3s.TOP_MODULE, cache_dir=CACHE)


@contextmanager
def simulated_board(variant: Variant) -> Iterator[BoardSimulation]:
    """The board of `board_settings` in simulation. Skips without tools."""
    settings = board_settings(variant)
    with simulate_board(board_simulator(settings), settings.divisor) as board:
        yield board
