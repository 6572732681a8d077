"""Simulated boards for tests: built once, kept between sessions, found by content."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from daedal.hw.boards.settings import BoardSettings
from daedal.isa.errors import ToolError
from daedal.isa.variant import Variant
from daedal.sim.rtl.board import BoardSimulation, build_board, simulate_board, simulation_settings
from daedal.sim.rtl.build import Built
from daedal.sim.rtl.toolchain import require_tools
from tests.support.rtl import CACHE

__all__ = ["MEMORY_BYTES", "board_settings", "board_simulator", "simulated_board"]

MEMORY_BYTES = 1 << 16


def board_settings(variant: Variant) -> BoardSettings:
    """A ULX3S with `variant`, whose serial port is as fast as it can be."""
    return simulation_settings(variant, MEMORY_BYTES)


def board_simulator(settings: BoardSettings) -> Built:
    """Its simulator. Skips without tools."""
    try:
        require_tools("native")
    except ToolError as error:
        pytest.skip(str(error))
    return build_board(settings, CACHE)


@contextmanager
def simulated_board(variant: Variant) -> Iterator[BoardSimulation]:
    """The board of `board_settings` in simulation. Skips without tools."""
    settings = board_settings(variant)
    with simulate_board(board_simulator(settings), settings.divisor) as board:
        yield board
