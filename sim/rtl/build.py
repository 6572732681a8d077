"""Builds a simulator from Verilog: cached by content, atomic, safe against concurrent builders.

Input: the emitted Verilog of an accelerator (module `daedal_top`) and the sizes of its bus and
memory. Output: `Built`, a simulator on disk that `run.py` starts as often as it likes.
"""

import fcntl
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from daedal.isa.errors import ToolError
from daedal.sim.rtl.toolchain import (
    Compiler,
    find_compiler,
    find_icarus,
    find_make,
    find_verilator,
    tool_environment,
)

__all__ = ["SIMULATORS", "Built", "build_cocotb", "build_protocol_simulator", "build_simulator"]

SIMULATORS = ("verilator", "icarus")

HDL = Path(__file__).parent / "hdl"
HARNESS_FILES = ("dram.v", "axi_rules.v", "harness.v")

JOBS = 2  # parallel compilers: two cores are what the project promises its times on
LOG_TAIL_LINES = 25

RECIPE = 1  # part of every cache key; raise it when the way of building changes

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Built:
    """A simulator on disk.

    Attributes
    ----------
    program
        The executable (verilator) or the compiled design (icarus).
    top
        Name of the top module.
    bench
        Python module that drives this top through jobs.
    data_bits, addr_bits, words
        Bus width, address width and memory size (in bus words) it was built for.
    build_seconds
        Wall clock of the build; 0.0 where it came from the cache.
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


def build_simulator(
    verilog: str | Path,
    *,
    data_bits: int,
    addr_bits: int,
    words: int,
    cache_dir: Path,
    simulator: str = "verilator",
    waves: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Build the accelerator inside `harness.v`, or find it in the cache.

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
        ``verilator`` or ``icarus``.
    waves
        Build with waveform tracing: slower to build and to run.
    progress
        Called with one sentence before each long step.

    Raises
    ------
    ToolError
        A tool is missing, or refused the design; the message ends with the tool's last lines.
    """
    built = build_cocotb(
        [verilog, *(HDL / name for name in HARNESS_FILES)],
        top="harness",
        parameters={"DATA_BITS": data_bits, "ADDR_BITS": addr_bits, "WORDS": words},
        cache_dir=cache_dir,
        simulator=simulator,
        waves=waves,
        progress=progress,
    )
    sizes = {"data_bits": data_bits, "addr_bits": addr_bits, "words": words}
    return replace(built, bench="daedal.sim.rtl.bench", **sizes)


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
    """Build the accelerator bare, for `protocol.py`: cocotbext-axi plays memory and host.

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
    sizes = {"data_bits": data_bits, "addr_bits": addr_bits, "words": words}
    return replace(built, bench="daedal.sim.rtl.protocol", **sizes)


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
    """Build any Verilog top for cocotb; its ports and marked signals are what Python sees.

    `sources` are texts or paths. Raises as `build_simulator` does.
    """
    if simulator not in SIMULATORS:
        raise ToolError(f"simulator must be one of {', '.join(SIMULATORS)}, not {simulator!r}")
    report = progress or (lambda _sentence: None)
    texts = [source.read_text() if isinstance(source, Path) else source for source in sources]
    name = "simulator" if simulator == "verilator" else "simulator.vvp"
    identity = _verilator_identity() if simulator == "verilator" else _icarus_identity()
    key = hashlib.sha256(
        json.dumps([RECIPE, identity, texts, top, sorted(parameters.items()), waves]).encode()
    ).hexdigest()[:24]
    cache_dir = cache_dir.resolve()
    cache_dir.mkdir(parents=True, exist_ok=True)
    final = cache_dir / f"{simulator}-{key}"
    seconds = 0.0
    with _lock(cache_dir / f"{simulator}-{key}.lock"):
        if not (final / name).is_file():
            began = time.perf_counter()
            scratch = Path(tempfile.mkdtemp(prefix="building-", dir=cache_dir))
            try:
                keep = scratch / "keep"
                keep.mkdir()
                files = []
                for index, text in enumerate(texts):
                    files.append(f"source{index}.v")
                    (scratch / files[-1]).write_text(text)
                build = _build_verilator if simulator == "verilator" else _build_icarus
                build(scratch, files, keep / name, top, parameters, waves, report)
                shutil.rmtree(final, ignore_errors=True)
                keep.rename(final)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
            seconds = time.perf_counter() - began
    return Built(final / name, simulator, top, waves, seconds)


def _verilator_identity() -> list[str]:
    import cocotb_tools.config

    # The libraries' folder is linked into the simulator by its absolute path.
    return [
        find_verilator().version,
        find_compiler().version,
        importlib.metadata.version("cocotb"),
        str(cocotb_tools.config.libs_dir),
    ]


def _icarus_identity() -> list[str]:
    return [find_icarus().version]


def _verilator_options(waves: bool) -> list[str]:
    """Options that decide speed; each was measured on a 16x16 int8 array with its scratchpads."""
    return [
        "-O3",
        "--timing",  # the clock is in the harness: nothing outside wakes once per cycle
        "--x-assign",
        "fast",
        "--x-initial",
        "fast",
        "--no-assert",
        "--output-split",
        "20000",  # several files, so that two compilers share the work
        "-Wno-fatal",  # emitted Verilog is not written for a linter
        *(["--trace-vcd", "+define+DAEDAL_WAVES"] if waves else []),
    ]


def _build_verilator(
    scratch: Path,
    files: list[str],
    program: Path,
    top: str,
    parameters: Mapping[str, int],
    waves: bool,
    report: Progress,
) -> None:
    import cocotb_tools.config

    verilator, compiler, make = find_verilator(), find_compiler(), find_make()
    if " " in str(scratch):
        raise ToolError(
            f"make cannot build in a folder with spaces in its name ({scratch.parent}); "
            "choose another cache folder"
        )
    libs = cocotb_tools.config.libs_dir
    main = cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp"
    environment = tool_environment() | {"VERILATOR_ROOT": str(verilator.root)}
    # The harness marks what Python sees; any other top shows its ports (and nothing below).
    public = [] if top == "harness" else ["--public-flat-rw", "--public-depth", "1"]
    report("translating Verilog to C++ (Verilator)")
    _run(
        [
            str(verilator.binary),
            *("--cc", "--exe", "--vpi", "--Mdir", "obj", "--prefix", "Vtop", "-o", "simulator"),
            *("--top-module", top),
            *_verilator_options(waves),
            *public,
            *(f"-G{name}={value}" for name, value in parameters.items()),
            *("-LDFLAGS", f"-Wl,-rpath,{libs} -L{libs} -lcocotbvpi_verilator"),
            str(main),
            *files,
        ],
        scratch,
        environment,
        "Verilator",
    )
    variables = _make_variables(compiler, waves)
    runtime = _runtime_folder(scratch.parent, variables)
    if runtime.is_dir():
        for compiled in runtime.iterdir():
            shutil.copyfile(compiled, scratch / "obj" / compiled.name)
    report("compiling the simulator (C++)")
    _run(
        [str(make), "-C", "obj", "-f", "Vtop.mk", "-j", str(JOBS), *variables],
        scratch,
        environment,
        "the C++ compiler",
    )
    if not runtime.is_dir():
        _keep_runtime(scratch / "obj", runtime)
    os.replace(scratch / "obj" / "simulator", program)


def _runtime_folder(cache_dir: Path, variables: list[str]) -> Path:
    """Return where Verilator's own run-time library lies compiled: half the work of a small build."""
    text = json.dumps([RECIPE, _verilator_identity(), variables])
    return cache_dir / f"runtime-{hashlib.sha256(text.encode()).hexdigest()[:24]}"


def _keep_runtime(objects: Path, runtime: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix="runtime-", dir=runtime.parent))
    for compiled in objects.glob("verilated*.o"):
        shutil.copyfile(compiled, scratch / compiled.name)
    try:
        scratch.rename(runtime)
    except OSError:  # another builder was faster, and its files are the same
        shutil.rmtree(scratch)


def _make_variables(compiler: Compiler, waves: bool) -> list[str]:
    """Return what the wheel's makefile lacks or guesses: tools by name, flags, optimization."""
    gcc = compiler.family == "gcc"
    return [
        f"CXX={compiler.command}",
        f"LINK={compiler.command}",
        f"AR={shutil.which('ar') or f'{sys.executable} -m ziglang ar'}",
        f"PYTHON3={sys.executable}",
        "CFG_CXXFLAGS_STD=-std=gnu++20",
        f"CFG_CXXFLAGS_COROUTINES={'-fcoroutines' if gcc else ''}",
        f"CFG_CXXFLAGS_PCH_I={'-include' if gcc else '-include-pch'}",
        f"CFG_GCH_IF_CLANG={'' if gcc else '.gch'}",
        "CFG_LDLIBS_THREADS=-lpthread",
        "OPT_FAST=-O2",
        "OPT_SLOW=-O0",
        "OPT_GLOBAL=-O2",
        f"VM_TRACE={int(waves)}",
    ]


def _build_icarus(
    scratch: Path,
    files: list[str],
    program: Path,
    top: str,
    parameters: Mapping[str, int],
    waves: bool,
    report: Progress,
) -> None:
    report("compiling the simulation (Icarus)")
    _run(
        [
            str(find_icarus().iverilog),
            *("-g2012", "-s", top, "-o", str(program)),
            *(f"-P{top}.{name}={value}" for name, value in parameters.items()),
            *(["-DDAEDAL_WAVES"] if waves else []),
            *files,
        ],
        scratch,
        tool_environment(),
        "Icarus Verilog",
    )


def _run(command: list[str], folder: Path, environment: dict[str, str], who: str) -> None:
    """Run one tool to its end; it dies with us if we are interrupted."""
    log = folder / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # make and its compilers form one group to end together
        )
        try:
            status = process.wait()
        except BaseException:
            os.killpg(process.pid, 15)
            process.wait()
            raise
    if status != 0:
        lines = log.read_text(errors="replace").splitlines()
        told = [line for line in lines if re.search("error", line, re.IGNORECASE)] or lines
        tail = "\n".join(told[-LOG_TAIL_LINES:])
        raise ToolError(
            f"{who} could not build the simulator (exit status {status}); it said:\n{tail}"
        )


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold `path` against other builders of the same simulator."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
