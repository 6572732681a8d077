"""A simulated board behind a pseudo-terminal: the whole design, reached through its serial pins.

Input: a variant. Output: the path of a serial port, which any program can open as it would open a
real board's; `runtime.devices.uart` does.
"""

import ctypes
import os
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from daedal.common.errors import DeviceError
from daedal.common.reporting import Report, log
from daedal.hw.boards.board_file import load_board
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.boards.top import TOP_MODULE
from daedal.isa.sdram_chip import SdramChip
from daedal.isa.variant import Variant
from daedal.native.caches.place import cache_folder
from daedal.sim.rtl.build import Built, build_board_simulator
from daedal.sim.rtl.contracts import broken_contract
from daedal.sim.rtl.sdram import chip_settings
from daedal.sim.rtl.toolchain import require_tools
from daedal.sim.rtl.verilog import kept_board_verilog

__all__ = ["BoardSimulation", "chip_parameters", "simulated_board"]

SLICE_CYCLES = 1 << 13
"""Cycles between checks whether the simulation should end."""

Build = Callable[[BoardSettings, Path, Report], Built]

_BOARD = "ulx3s-85f"
"""Boards differ in nothing that is simulated, but for the levels of the button and the lights."""

_CLOCK_HZ = 80_000_000  # what the board reports; the simulation does not run in real time

_SDRAM_CLOCK_HZ = 70_000_000
"""The same with SDRAM, whose times follow from it."""

_SDRAM_PHASE = 180.0

_TESTED_WORDS = 1 << 8
"""Of memory, at start-up: all of them would take minutes."""

_EDGES_WITH_SDRAM = 4
"""Edges of the simulated oscillator in a cycle of the design (`hdl/ehxplll.v`)."""

_DIVISOR = 4
"""Clock cycles per bit: the fewest the design supports, as most cycles only move bits."""

_SILENCE_CYCLES = 1 << 14
"""Timeout of a partial frame, about 400 byte times; a pseudo-terminal delivers frames whole."""


class BoardSimulation:
    """A board that runs in its own thread; `simulated_board` creates and closes it.

    `path` is its serial port. As on a real board, the clock runs even while no host is waiting.
    `edges` of the oscillator are a clock cycle, and `divisor` of these a bit of the serial port.
    """

    def __init__(self, library: Path, divisor: int, edges: int = 1) -> None:
        self._ours, self._theirs = os.openpty()
        # Keeping it open preserves its settings and pending bytes between two client programs.
        tty.setraw(self._theirs)
        os.set_blocking(self._ours, False)
        self.path = Path(os.ttyname(self._theirs))
        self._library = _load(library)
        self._edges = edges
        self._handle = self._library.daedal_board_open(self._ours, divisor * edges)
        self._ending = threading.Event()
        self._failure = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def cycles(self) -> int:
        """Clock cycles so far."""
        return int(self._library.daedal_board_cycles(self._handle)) // self._edges

    def close(self) -> None:
        """End the simulation. Raises DeviceError if it has failed."""
        self._ending.set()
        self._thread.join()
        self._library.daedal_board_close(self._handle)
        os.close(self._ours)
        os.close(self._theirs)
        if self._failure:
            said = f"the simulation failed; it said: {self._failure}"
            raise DeviceError(broken_contract(self._failure) or said)

    def _run(self) -> None:
        while not self._ending.is_set():
            if self._library.daedal_board_advance(self._handle, SLICE_CYCLES) < 0:
                said = self._library.daedal_board_failure(self._handle)
                self._failure = said.decode(errors="replace")
                return


@contextmanager
def simulated_board(
    variant: Variant,
    *,
    cache_dir: Path | None = None,
    memory: int | SdramChip = 1 << 16,
    assertions: bool = False,
    build: Build | None = None,
    report: Report = log,
) -> Iterator[BoardSimulation]:
    """Power up a board with `variant` until the block ends; memory and scratchpads start at zero.

    The first time, Verilog is emitted and built, which takes a minute or two; `cache_dir`,
    by default the user's cache, keeps both, and `report` is called with one sentence before each
    long step. `memory` is the bytes of block RAM, or the chip, whose model checks every time of
    its data sheet. With `assertions` the machine checks its contracts (`hw.contracts`). `build`
    replaces the function that builds the simulator, for example by
    `netlist.board.build_board_netlist`.

    Raises
    ------
    ToolError
        Verilator or a C++ compiler is missing, or refused the design.
    UserError
        The board cannot be built with so much memory.
    """
    require_tools("native")
    settings = _settings(variant, memory)
    built = (build or partial(_build, assertions))(
        settings, cache_folder("rtl") if cache_dir is None else cache_dir, report
    )
    edges = _EDGES_WITH_SDRAM if settings.sdram else 1
    simulation = BoardSimulation(built.program, _DIVISOR, edges)
    try:
        yield simulation
    finally:
        simulation.close()


def _settings(variant: Variant, memory: int | SdramChip) -> BoardSettings:
    board = load_board(_BOARD)
    if isinstance(memory, int):
        clock = board.clock(_CLOCK_HZ)
        return BoardSettings(board, variant, clock, memory, _DIVISOR, _SILENCE_CYCLES)
    clock = board.clock(_SDRAM_CLOCK_HZ, _SDRAM_PHASE)
    size = memory.size_bytes
    return BoardSettings(
        board, variant, clock, size, _DIVISOR, _SILENCE_CYCLES, memory, _TESTED_WORDS
    )


def chip_parameters(settings: BoardSettings) -> dict[str, int] | None:
    """The parameters of `hdl/board_sdram.v` for a board with SDRAM."""
    chip = settings.sdram
    if chip is None:
        return None
    times = chip_settings(chip, 2 * settings.clock.output_hz)
    return {
        "DATA_BITS": chip.data_bits,
        "ROW_BITS": chip.row_bits,
        "COLUMN_BITS": chip.column_bits,
        "BANK_BITS": chip.bank_bits,
        **{name.removeprefix("cfg_").upper(): value for name, value in times.items()},
    }


def _build(assertions: bool, settings: BoardSettings, cache_dir: Path, report: Report) -> Built:
    """Build the simulator of the design as emitted."""
    return build_board_simulator(
        kept_board_verilog(settings, cache_dir, report, assertions=assertions),
        top=TOP_MODULE,
        cache_dir=cache_dir,
        chip=chip_parameters(settings),
        progress=report,
    )


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
