"""Simulated boards for tests: built once, kept between sessions, found by content."""

from contextlib import AbstractContextManager

import pytest

from daedal.common.errors import ToolError
from daedal.isa.variant import Variant
from daedal.sim.rtl.board import BoardSimulation, simulated_board
from daedal.sim.rtl.toolchain import require_tools
from tests.support.rtl import CACHE

__all__ = ["MEMORY_BYTES", "board_with"]

MEMORY_BYTES = 1 << 16


def board_with(variant: Variant) -> AbstractContextManager[BoardSimulation]:
    """A board that is switched on with the block. Skips where a tool is missing."""
    try:
        require_tools("native")
    except ToolError as error:
        pytest.skip(str(error))
    return simulated_board(variant, cache_dir=CACHE, memory_bytes=MEMORY_BYTES, assertions=True)
