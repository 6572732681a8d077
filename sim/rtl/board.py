"""A simulated board behind a pseudo-terminal: the whole design, with its serial pins as the way in.

Input: a built board (`build.build_board_simulator`). Output: the path of a serial port, which any
program may open as it would that of a board; `runtime.devices.uart` does.
"""

import ctypes
import os
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from daedal.isa.errors import DeviceError
from daedal.sim.rtl.build import Built

__all__ = ["BoardSimulation", "simulate_board"]

SLICE_CYCLES = 1 << 13
"""Cycles between two looks at whether the simulation is to end."""


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
    """Run `built`, whose serial port has `divisor` clock cycles per bit, until the block ends."""
    simulation = BoardSimulation(built.program, divisor)
    try:
        yield simulation
    finally:
        simulation.close()


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
