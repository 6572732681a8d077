"""Plays bursts on the SDRAM controller and a chip that checks every time of its data sheet.

Input: a chip, its clock, and a list of bursts. Output: the words that were read, and the cycle of
every handshake. `hdl/sdram.cpp` is the AXI4 master, `hdl/sdram_chip.v` the chip.
"""

import ctypes
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.common.errors import DeviceError
from daedal.hw.boards.sdram.alone import emit_alone
from daedal.isa.sdram_chip import SdramChip
from daedal.isa.sdram_memory import SdramMemory
from daedal.isa.sdram_slots import CAPTURE_CLOCKS, SlotTimes
from daedal.isa.variant import Variant
from daedal.sim.rtl.build import Built, build_sdram_simulator

__all__ = [
    "CHANNELS",
    "Bursts",
    "HostAccesses",
    "Played",
    "SdramSimulation",
    "build",
    "chip_settings",
    "open_sdram",
    "sdram_macros",
]

CHANNELS = ("ar", "r", "aw", "w", "b", "host")
"""Channels in the order of `stalls`."""

_NEVER = 1 << 40
Array = npt.NDArray[Any]


def chip_settings(chip: SdramChip, clock_hz: float) -> dict[str, int]:
    """The settings of `sdram_chip.v`, whose times are in picoseconds."""
    times = {
        f"cfg_{name}_ps": round(1000 * getattr(chip, f"{name}_ns"))
        for name in (
            "row_to_data",
            "precharge",
            "row_open",
            "row_cycle",
            "write_recovery",
            "refresh",
            "row_to_row",
            "refresh_interval",
            "power_up",
        )
    }
    return times | {
        "cfg_clock_ps": round(1e12 / clock_hz),
        "cfg_mode": chip.mode,
        "cfg_mode_clocks": chip.mode_clocks,
        "cfg_init_refreshes": chip.init_refreshes,
    }


def sdram_macros(sdram: SdramMemory) -> str:
    """What `hdl/sdram.v` and `hdl/harness.v` need of an SDRAM."""
    chip, times = sdram.chip, sdram.times
    settings = chip_settings(chip, times.clock_hz)
    values = {
        "": "",
        "_ROW_BITS": chip.row_bits,
        "_COLUMN_BITS": chip.column_bits,
        "_BANK_BITS": chip.bank_bits,
        "_POWER_UP": times.power_up,
        "_INTERVAL": times.refresh_interval,
        "_SPARE_CLOCKS": sdram.capture_clocks - CAPTURE_CLOCKS,
        "_TIMES": ", ".join(f".{name}({value})" for name, value in settings.items()),
    }
    return "".join(f"`define DAEDAL_SDRAM{name} {value}\n" for name, value in values.items())


@dataclass(frozen=True)
class Bursts:
    """Bursts of the machine in the order in which they are sent.

    `writes`, `ids`, `addresses` (bytes) and `beats` have an element for each burst; `words` and
    `strobes` one for each beat of the writes; `not_before` is the first cycle of each.
    """

    writes: Array
    addresses: Array
    beats: Array
    words: Array = field(default_factory=lambda: np.zeros(0, np.uint64))
    strobes: Array | None = None
    ids: Array | None = None
    not_before: Array | None = None

    def __len__(self) -> int:
        return len(self.beats)


@dataclass(frozen=True)
class HostAccesses:
    """Accesses of the host: word addresses, strobes (0 reads), words to write."""

    addresses: Array
    strobes: Array
    words: Array


@dataclass(frozen=True)
class Played:
    """What came of bursts: see `Play` in `hdl/sdram.cpp`."""

    address_cycles: Array
    answer_cycles: Array
    answers: Array
    beat_cycles: Array
    read_words: Array
    host_words: Array
    host_cycles: Array
    cycles: int
    began: int


class _Play(ctypes.Structure):
    """`struct Play` of `hdl/sdram.cpp`."""

    _fields_ = [
        ("bursts", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in (
            "writes", "ids", "addresses", "beats", "not_before", "words", "strobes",
            "address_cycles", "answer_cycles", "answers", "beat_cycles", "read_words",
        )),
        ("accesses", ctypes.c_uint64),
        *((name, ctypes.c_void_p) for name in (
            "host_addresses", "host_strobes", "host_words", "host_cycles",
        )),
        ("seed", ctypes.c_uint64),
        ("stalls", ctypes.c_uint8 * len(CHANNELS)),
        ("most_open", ctypes.c_uint32),
        ("in_order", ctypes.c_uint32),
        ("reset_at", ctypes.c_uint64),
        ("most_cycles", ctypes.c_uint64),
        ("cycles", ctypes.c_uint64),
        ("began", ctypes.c_uint64),
    ]  # fmt: skip


class SdramSimulation:
    """A controller with its chip, from power-up on; `open_sdram` creates and closes it."""

    def __init__(self, library: Path, settings: Mapping[str, int]) -> None:
        self._library = _load(library)
        self._handle = self._library.daedal_sdram_open()
        for name, value in settings.items():
            self.set(name, value)
        size = self._library.daedal_sdram_memory_bytes(self._handle)
        pointer = ctypes.cast(
            self._library.daedal_sdram_memory(self._handle), ctypes.POINTER(ctypes.c_uint8)
        )
        self.memory: npt.NDArray[np.uint8] = np.ctypeslib.as_array(pointer, (size,))

    def close(self) -> None:
        """Free all resources; the simulation and its memory cannot be used afterwards."""
        del self.memory
        self._library.daedal_sdram_close(self._handle)
        self._handle = None

    def set(self, name: str, value: int) -> None:
        """Set a port of `sdram_bench.v`: a time of the chip, or the fault."""
        assert self._library.daedal_sdram_set(self._handle, name.encode(), value), name

    def play(
        self,
        bursts: Bursts,
        host: HostAccesses | None = None,
        *,
        stalls: Mapping[str, int] | None = None,
        seed: int = 1,
        most_open: int = 16,
        in_order: bool = False,
        reset_at: int = 0,
        most_cycles: int | None = None,
    ) -> Played:
        """Send all bursts and accesses, and wait for their answers.

        Parameters
        ----------
        stalls : odds of 256, by channel, that a channel pauses for a cycle.
        most_open : bursts of a direction that may be without their whole answer.
        in_order : a burst is sent only after all before it, whatever their directions.
        reset_at : reset the machine in this cycle; the bursts end there.
        most_cycles : give up then.

        Raises
        ------
        DeviceError
            The chip or AXI4 was not used as it must be, or the bursts did not end.
        """
        count, total = len(bursts), int(bursts.beats.sum())
        host = host or HostAccesses(*(np.zeros(0, np.uint64) for _ in range(3)))
        held = {
            "writes": (bursts.writes, np.uint8),
            "ids": (bursts.ids if bursts.ids is not None else np.zeros(count), np.uint8),
            "addresses": (bursts.addresses, np.uint64),
            "beats": (bursts.beats, np.uint16),
            "not_before": (
                bursts.not_before if bursts.not_before is not None else np.zeros(count),
                np.uint64,
            ),
            "words": (bursts.words, np.uint64),
            "strobes": (
                bursts.strobes if bursts.strobes is not None else np.full(len(bursts.words), 255),
                np.uint8,
            ),
            "address_cycles": (np.full(count, _NEVER), np.uint64),
            "answer_cycles": (np.full(count, _NEVER), np.uint64),
            "answers": (np.zeros(count), np.uint8),
            "beat_cycles": (np.full(total, _NEVER), np.uint64),
            "read_words": (np.zeros(total), np.uint64),
            "host_addresses": (host.addresses, np.uint64),
            "host_strobes": (host.strobes, np.uint8),
            "host_words": (host.words, np.uint64),
            "host_cycles": (np.full(len(host.addresses), _NEVER), np.uint64),
        }
        arrays = {name: np.array(given, kind) for name, (given, kind) in held.items()}
        play = _Play(
            bursts=count,
            accesses=len(host.addresses),
            seed=seed,
            most_open=most_open,
            in_order=in_order,
            reset_at=reset_at,
            most_cycles=most_cycles or 100_000 + 40 * (total + 64 * count),
            **{name: array.ctypes.data for name, array in arrays.items()},
        )
        for place, channel in enumerate(CHANNELS):
            play.stalls[place] = (stalls or {}).get(channel, 0)
        if self._library.daedal_sdram_play(self._handle, ctypes.byref(play)) < 0:
            said = self._library.daedal_sdram_failure(self._handle).decode(errors="replace")
            raise DeviceError(_sentence(said))
        names = (
            "address_cycles",
            "answer_cycles",
            "answers",
            "beat_cycles",
            "read_words",
            "host_words",
            "host_cycles",
        )
        return Played(
            **{name: arrays[name] for name in names}, cycles=play.cycles, began=play.began
        )


@contextmanager
def open_sdram(
    variant: Variant,
    times: SlotTimes,
    cache_dir: Path,
    *,
    chip: SdramChip | None = None,
    verilog: str | None = None,
    settings: Mapping[str, int] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Iterator[SdramSimulation]:
    """Power up a controller and its chip until the block ends.

    Parameters
    ----------
    times : the controller's. chip : of the checking model, by default the same.
    verilog : a controller to use instead of `emit_alone`'s.
    settings : ports of `sdram_bench.v`, in addition to the chip's times.

    Raises
    ------
    ToolError
        Verilator or a C++ compiler is missing, or refused the design.
    """
    built = build(variant, times, cache_dir, verilog=verilog, progress=progress)
    wanted = chip_settings(chip or times.chip, times.clock_hz) | dict(settings or {})
    simulation = SdramSimulation(built.program, wanted)
    try:
        yield simulation
    finally:
        simulation.close()


def build(
    variant: Variant,
    times: SlotTimes,
    cache_dir: Path,
    *,
    verilog: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Built:
    """Build the simulator of a controller with its chip."""
    chip = times.chip
    return build_sdram_simulator(
        verilog or emit_alone(variant, times, assertions=True),
        parameters={
            "DATA_BITS": chip.data_bits,
            "ROW_BITS": chip.row_bits,
            "COLUMN_BITS": chip.column_bits,
            "BANK_BITS": chip.bank_bits,
            "ADDR_BITS": variant.bus.address_bits,
            "WORD_BITS": (chip.size_bytes // variant.bus_bytes - 1).bit_length(),
        },
        cache_dir=cache_dir,
        progress=progress,
    )


_FATAL = re.compile(r"Assertion failed in \S+: (?P<sentence>.+)")


def _sentence(said: str) -> str:
    found = _FATAL.search(said)
    return found["sentence"] if found else said


def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    handle = ctypes.c_void_p
    for name, result, arguments in (
        ("open", handle, ()),
        ("close", None, (handle,)),
        ("set", ctypes.c_int, (handle, ctypes.c_char_p, ctypes.c_uint64)),
        ("play", ctypes.c_int, (handle, ctypes.c_void_p)),
        ("failure", ctypes.c_char_p, (handle,)),
        ("memory", ctypes.c_void_p, (handle,)),
        ("memory_bytes", ctypes.c_uint64, (handle,)),
    ):
        function = getattr(library, f"daedal_sdram_{name}")
        function.restype = result
        function.argtypes = arguments
    return library
