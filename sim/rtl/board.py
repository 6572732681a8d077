"""A simulated board behind a pseudo-terminal: the whole design, with its serial pins as the way in.

Input: a board's settings. Output: the path of a serial port, which any program may open as it would
that of a board; `runtime.devices.uart` does.
"""

import ctypes
import os
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from daedal.hw.boards import ulx3s
from daedal.hw.boards.pll import pll_settings
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.boards.uart_receiver import LEAST_DIVISOR
from daedal.isa.errors import DeviceError
from daedal.isa.variant import Variant
from daedal.sim.rtl.build import Built, build_board_simulator
from daedal.sim.rtl.toolchain import require_tools
from daedal.sim.rtl.verilog import kept_board_verilog

__all__ = ["BoardSimulation", "build_board", "simulate_board", "simulation_settings"]

SLICE_CYCLES = 1 << 13
"""Cycles between two looks at whether the simulation is to end."""

_CLOCK_HZ = 80_000_000  # what the board says of itself; cycles take as long as they take

_SILENCE_CYCLES = 1 << 14
"""400 bytes' time; frames come whole out of a pseudo-terminal."""


class BoardSimulation:
    """A board that runs in a thread of its own; `simulate_board` makes and ends it.

    `path` is its serial port. Cycles run while nobody waits for them: a board has a clock.
    """

    def __init__(self, library: Path, divisor: int) -> None:
        self._ours, self._theirs = os.openpty()
        # Held open here, it keeps its settings and loses nothing between two programs.
        tty.setraw(self._theirs)
        os.set_blocking(self._ours, False)
        self.path = Path(os.ttyname(self._theirs))
        self._library = _load(library)
        self._handle = self._library.daedal_board_open(self._ours, divisor)
        self._ending = threading.Event()
        self._failure = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def cycles(self) -> int:
        """Clock cycles so far."""
        return int(self._library.daedal_board_cycles(self._handle))

    def close(self) -> None:
        """End the simulation. Raises DeviceError where it had failed."""
        self._ending.set()
        self._thread.join()
        self._library.daedal_board_close(self._handle)
        os.close(self._ours)
        os.close(self._theirs)
        if self._failure:
            raise DeviceError(f"the simulation failed; it said: {self._failure}")

    def _run(self) -> None:
        while not self._ending.is_set():
            if self._library.daedal_board_advance(self._handle, SLICE_CYCLES) < 0:
                said = self._library.daedal_board_failure(self._handle)
                self._failure = said.decode(errors="replace")
                return


@contextmanager
def simulate_board(built: Built, divisor: int) -> Iterator[BoardSimulation]:
    """Run `built`, whose serial port has `divisor` clock cycles per bit, until the block ends.

    Memory and scratchpads are zero at first, as on a board that has just been switched on.
    """
    simulation = BoardSimulation(built.program, divisor)
    try:
        yield simulation
    finally:
        simulation.close()


def simulation_settings(variant: Variant, memory_bytes: int = 1 << 16) -> BoardSettings:
    """A ULX3S with `variant`, whose serial port is as fast as it can be.

    Raises UserError for a memory that cannot be built.
    """
    clock = pll_settings(ulx3s.OSCILLATOR_HZ, _CLOCK_HZ)
    return BoardSettings(variant, clock, memory_bytes, LEAST_DIVISOR, _SILENCE_CYCLES)


def build_board(
    settings: BoardSettings, cache_dir: Path, report: Callable[[str], None] = lambda _sentence: None
) -> Built:
    """Emit and build a ULX3S, or find it in `cache_dir`; the first time takes a minute or two.

    `report` is called with one sentence before each long step. Raises ToolError where Verilator or
    a C++ compiler is missing, or refused the design.
    """
    require_tools("native")
    text = kept_board_verilog(settings, cache_dir, report)
    return build_board_simulator(text, top=ulx3s.TOP_MODULE, cache_dir=cache_dir, progress=report)


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    handle = ctypes.c_void_p
    for name, result, arguments in (
        ("open", handle, (ctypes.c_int, ctypes.c_uint)),
        ("close", None, (handle,)),
        ("advance", ctypes.c_int, (handle, ctypes.c_uint64)),
        ("cycles", ctypes.c_uint64, (handle,)),
        ("failure", ctypes.c_char_p, (handle,)),
    ):
        function = getattr(library, f"daedal_board_{name}")
        function.restype = result
        function.argtypes = arguments
    return library
