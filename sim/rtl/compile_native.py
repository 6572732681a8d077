"""Builds native simulators: Verilator's C++ and a main loop of ours in one shared library.

Input: source files in a scratch folder: with `harness.v` among them for the main loop
`hdl/native.cpp`, whose library `native.py` loads, or a board's for `hdl/board.cpp` and `board.py`.
`build.py` adds the cache.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from daedal.isa.errors import ToolError
from daedal.sim.rtl.compile import verilate_and_make
from daedal.sim.rtl.toolchain import find_compiler, find_verilator

__all__ = ["build_native", "native_identity"]

_HDL = Path(__file__).parent / "hdl"
_HEADERS = ("failures.h", "said.h")

# Several of these libraries live in one process, beside anything else: each shows the functions of
# its interface and binds all others, Verilator's run-time library among them, to itself.
_EXPORTS = "{ global: daedal_*; local: *; };\n"

_COMPILER_FLAGS = (
    "-fPIC",
    # Verilator's run-time library ends the process on these; native.cpp reports them.
    *("-DVL_USER_FINISH", "-DVL_USER_STOP", "-DVL_USER_FATAL"),
)

# It prints why it stops; make runs in a folder of its own.
_RUNTIME_FLAGS = ("-include", "../said.h")


def native_identity(main: str = "native.cpp") -> list[str]:
    """Return what else a native build depends on: its tools, its main loop, its flags."""
    return [main, *((_HDL / name).read_text() for name in (main, "failures.h")), *_library()]


def _library() -> list[str]:
    """Return what the run-time library depends on, whatever the main loop."""
    return [
        find_verilator().version,
        find_compiler().version,
        (_HDL / "said.h").read_text(),
        _EXPORTS,
        *_COMPILER_FLAGS,
        *_RUNTIME_FLAGS,
    ]


def build_native(
    scratch: Path,
    files: list[str],
    program: Path,
    top: str,
    parameters: Mapping[str, int],
    waves: bool,
    report: Callable[[str], None],
    main: str = "native.cpp",
) -> None:
    """Build `files` (names inside `scratch`) with a main loop of `hdl` into the library `program`.

    Raises
    ------
    ToolError
        A tool is missing or refused the design, or `waves` are asked for.
    """
    if waves:
        raise ToolError("the simulator native records no waveforms; choose verilator or icarus")
    for name in (main, *_HEADERS):
        (scratch / name).write_text((_HDL / name).read_text())
    (scratch / "exports").write_text(_EXPORTS)
    options = [
        "--no-timing",  # the main loop is the clock
        "+define+DAEDAL_CLOCK_PORT",
        *("-CFLAGS", " ".join(_COMPILER_FLAGS)),
        *("-LDFLAGS", "-shared -Wl,--version-script=../exports"),
        main,
    ]
    verilate_and_make(
        scratch,
        files,
        program,
        top,
        parameters,
        options,
        _library(),
        False,
        report,
        runtime_flags=_RUNTIME_FLAGS,
    )
