"""Simulated boards for tests: built once, kept between sessions, found by content."""

from contextlib import AbstractContextManager

import pytest

from bench.correctness.rtl_launches import CACHE
from daedal.common.errors import ToolError
from daedal.isa.sdram_chip import SdramChip
from daedal.isa.variant import Variant
from daedal.runtime.devices.register_device import RegisterDevice
from daedal.runtime.devices.uart import UartPort, uart_device
from daedal.sim.rtl.board import BoardSimulation, simulated_board
from daedal.sim.rtl.toolchain import require_tools

__all__ = ["ANSWER_SECONDS", "MEMORY_BYTES", "board_with", "simulated_port", "simulated_uart"]

MEMORY_BYTES = 1 << 16
BAUD = 3_000_000
"""Any: a pseudo-terminal has none. Only boards slower than the real ones would miss the search."""

ANSWER_SECONDS = 60.0
"""A frame takes 40,000 cycles, which are seconds in simulations of large designs."""


def board_with(
    variant: Variant, memory: int | SdramChip = MEMORY_BYTES
) -> AbstractContextManager[BoardSimulation]:
    """A board that is switched on with the block. Skips where a tool is missing."""
    try:
        require_tools("native")
    except ToolError as error:
        pytest.skip(str(error))
    return simulated_board(variant, cache_dir=CACHE, memory=memory, assertions=True)


def simulated_port(board: BoardSimulation) -> UartPort:
    """The serial port of a simulated board."""
    return UartPort(str(board.path), baud=BAUD, answer_seconds=ANSWER_SECONDS)


def simulated_uart(variant: Variant, board: BoardSimulation) -> RegisterDevice:
    """The device ``uart`` on a simulated board."""
    return uart_device(variant, port=str(board.path), baud=BAUD, answer_seconds=ANSWER_SECONDS)
