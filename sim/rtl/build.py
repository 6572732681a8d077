"""Builds a simulator from Verilog: cached by content, atomic, safe against concurrent builders.

Input: the emitted Verilog of an accelerator (module `daedal_top`) and the sizes of its bus and
memory. Output: `Built`, a simulator on disk that `run.py` starts as often as it likes.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from daedal.common.errors import ToolError
from daedal.common.reporting import log
from daedal.isa.sdram_memory import SdramMemory
from daedal.native.caches.locks import alone
from daedal.native.caches.place import writable
from daedal.sim.rtl.compile import (
    build_icarus,
    build_verilator,
    icarus_identity,
    verilator_identity,
)
from daedal.sim.rtl.compile_native import build_native, native_identity
from daedal.sim.rtl.kept import content_key, install, is_whole, scratch_folder

__all__ = [
    "COCOTB_SIMULATORS",
    "SIMULATORS",
    "Built",
    "SdramText",
    "build_board_simulator",
    "build_cocotb",
    "build_protocol_simulator",
    "build_sdram_simulator",
    "build_simulator",
]

COCOTB_SIMULATORS = ("verilator", "icarus")
SIMULATORS = ("native", *COCOTB_SIMULATORS)
"""``native`` is Verilator without cocotb: the same cycles, several times as fast, no waveforms."""

HDL = Path(__file__).parent / "hdl"
HARNESS_FILES = ("dram.v", "axi_rules.v", "harness.v")

_SDRAM_FILES = ("sdram.v", "harness.v")

RECIPE = 3  # part of every cache key; increment it when the build procedure changes

Progress = Callable[[str], None]

_TOOLS: dict[str, tuple[str, Callable[[], list[str]], Callable[..., None]]] = {
    "native": ("simulator.so", native_identity, build_native),
    "verilator": ("simulator", verilator_identity, build_verilator),
    "icarus": ("simulator.vvp", icarus_identity, build_icarus),
    "board": (
        "board.so",
        partial(native_identity, "board.cpp"),
        partial(build_native, main="board.cpp"),
    ),
    "sdram": (
        "sdram.so",
        partial(native_identity, "sdram.cpp"),
        partial(build_native, main="sdram.cpp"),
    ),
}
"""For each simulator: its file name, what its build depends on, and the function that builds it."""


@dataclass(frozen=True)
class SdramText:
    """The emitted controller of a memory, and the macros that `sdram.v` and `harness.v` need."""

    memory: SdramMemory
    controller: str
    macros: str


@dataclass(frozen=True)
class Built:
    """A simulator on disk.

    Attributes
    ----------
    program
        The library (native), the executable (verilator) or the compiled design (icarus).
    top
        Name of the top module.
    bench
        Python module that drives this top through jobs, under cocotb.
    data_bits, addr_bits, words
        Bus width, address width and memory size (in bus words) it was built for.
    sdram
        The SDRAM that it was built with; None: `dram.v`, which is every other memory model.
    build_seconds
        Wall-clock time of the build; 0.0 on a cache hit.
    """

    program: Path
    simulator: str
    top: str
    waves: bool
    build_seconds: float
    bench: str = ""
    data_bits: int = 0
    addr_bits: int = 0
    words: int = 0
    sdram: SdramMemory | None = None


def build_simulator(
    verilog: str | Path,
    *,
    data_bits: int,
    addr_bits: int,
    words: int,
    cache_dir: Path,
    simulator: str = "native",
    waves: bool = False,
    observer: str | None = None,
    sdram: SdramText | None = None,
    progress: Progress | None = None,
) -> Built:
    """Build the accelerator inside `harness.v`, or return it from the cache.

    Parameters
    ----------
    verilog
        Text of the design, or a path to it; its top module is `daedal_top`.
    data_bits, addr_bits
        Width of the accelerator's memory bus and of its addresses.
    words
        Memory size in bus words.
    cache_dir
        Folder that keeps builds; created where missing.
    simulator
        One of `SIMULATORS`.
    waves
        Build with waveform tracing: slower to build and to run; not with ``native``.
    observer
        Text of the module `daedal_observer`, which the harness instantiates next to the machine
        (`observer.py`); not with ``native``.
    sdram
        The memory is this SDRAM instead of `dram.v`; only with ``native``.
    progress
        Called with one sentence before each long step.

    Raises
    ------
    ToolError
        A tool is missing, or refused the design; the message ends with the tool's last lines.
    """
    if simulator not in SIMULATORS:
        raise ToolError(f"simulator must be one of {', '.join(SIMULATORS)}, not {simulator!r}")
    sources: list[str | Path] = [verilog, *(HDL / name for name in HARNESS_FILES)]
    if sdram is not None:
        if simulator != "native":
            raise ToolError(f"an SDRAM needs the simulator native, not {simulator}")
        sources = [verilog, *_with_sdram(sdram)]
    if observer is not None:
        # The define goes into the source text, so all builds use the same command line.
        sources[-1] = "`define DAEDAL_OBSERVE\n" + (HDL / HARNESS_FILES[-1]).read_text()
        sources.append(observer)
    built = _build(
        sources,
        "harness",
        {"DATA_BITS": data_bits, "ADDR_BITS": addr_bits, "WORDS": words},
        cache_dir,
        simulator,
        waves,
        progress,
    )
    return replace(
        built,
        bench="daedal.sim.rtl.bench",
        data_bits=data_bits,
        addr_bits=addr_bits,
        words=words,
        sdram=None if sdram is None else sdram.memory,
    )


def _with_sdram(sdram: SdramText) -> list[str | Path]:
    """The harness with an SDRAM. The macros go into the texts, so that the key covers them."""
    chip, rules = HDL / "sdram_chip.v", HDL / "axi_rules.v"
    memory, harness = (sdram.macros + (HDL / name).read_text() for name in _SDRAM_FILES)
    return [sdram.controller, chip, memory, rules, harness]


def build_protocol_simulator(
    verilog: str | Path,
    *,
    data_bits: int,
    addr_bits: int,
    words: int,
    cache_dir: Path,
    simulator: str = "verilator",
    progress: Progress | None = None,
) -> Built:
    """Build the accelerator alone, for `protocol.py`: cocotbext-axi acts as memory and host.

    Slow (Python wakes several times per cycle), and independent of everything in `hdl/`. The
    same jobs run on it through `run_jobs`. Parameters and errors as `build_simulator`.
    """
    built = build_cocotb(
        [verilog],
        top="daedal_top",
        parameters={},
        cache_dir=cache_dir,
        simulator=simulator,
        progress=progress,
    )
    return replace(
        built,
        bench="daedal.sim.rtl.protocol",
        data_bits=data_bits,
        addr_bits=addr_bits,
        words=words,
    )


def build_board_simulator(
    verilog: str,
    *,
    top: str,
    cache_dir: Path,
    chip: Mapping[str, int] | None = None,
    progress: Progress | None = None,
) -> Built:
    """Build a whole board's design, for `board.py`, which drives its clock and serial port.

    `verilog` is what `hw.boards` emits; vendor primitives in it are modelled in `hdl/`. With
    `chip`, the parameters of `hdl/board_sdram.v`, the design `top` drives an SDRAM. Parameters and
    errors as `build_simulator`.
    """
    sources: list[str | Path] = [verilog, HDL / "ehxplll.v"]
    if chip is not None:
        sources += [HDL / name for name in ("ecp5_pads.v", "sdram_chip.v", "board_sdram.v")]
        top = f"{top}_sdram"
    return _build(sources, top, chip or {}, cache_dir, "board", False, progress)


def build_sdram_simulator(
    verilog: str,
    *,
    parameters: Mapping[str, int],
    cache_dir: Path,
    progress: Progress | None = None,
) -> Built:
    """Build an SDRAM controller (module `sdram_controller`) and its chip, for `sdram.py`.

    `parameters` are those of `hdl/sdram_bench.v`. Parameters and errors as `build_simulator`.
    """
    sources: list[str | Path] = [verilog, HDL / "sdram_chip.v", HDL / "sdram_bench.v"]
    return _build(sources, "sdram_bench", parameters, cache_dir, "sdram", False, progress)


def build_cocotb(
    sources: Sequence[str | Path],
    *,
    top: str,
    parameters: Mapping[str, int],
    cache_dir: Path,
    simulator: str = "verilator",
    waves: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Build any Verilog top for cocotb; Python sees its ports and marked signals.

    `sources` are texts or paths. Raises as `build_simulator` does.
    """
    if simulator not in COCOTB_SIMULATORS:
        names = " or ".join(COCOTB_SIMULATORS)
        raise ToolError(f"a simulator under cocotb must be {names}, not {simulator!r}")
    return _build(sources, top, parameters, cache_dir, simulator, waves, progress)


def _build(
    sources: Sequence[str | Path],
    top: str,
    parameters: Mapping[str, int],
    cache_dir: Path,
    simulator: str,
    waves: bool,
    progress: Progress | None,
) -> Built:
    report = progress or log
    texts = [source.read_text() if isinstance(source, Path) else source for source in sources]
    name, identity, build = _TOOLS[simulator]
    key = content_key([RECIPE, identity(), texts, top, sorted(parameters.items()), waves])
    final = cache_dir.absolute() / f"{simulator}-{key}"
    if is_whole(final, name):  # works in a read-only cache, too
        return Built(final / name, simulator, top, waves, 0.0)
    cache_dir = writable(cache_dir).absolute()
    final = cache_dir / final.name
    seconds = 0.0
    with alone(cache_dir / f"{final.name}.lock"):
        if not is_whole(final, name):  # no other process built it meanwhile
            began = time.perf_counter()
            with scratch_folder(cache_dir) as scratch:
                keep = scratch / "keep"
                keep.mkdir()
                files = []
                for index, text in enumerate(texts):
                    files.append(f"source{index}.v")
                    (scratch / files[-1]).write_text(text)
                build(scratch, files, keep / name, top, parameters, waves, report)
                install(keep, final)
            seconds = time.perf_counter() - began
    return Built(final / name, simulator, top, waves, seconds)
