"""Builds native simulators: Verilator's C++ and our own main loop in one shared library.

Input: source files in a scratch folder. With `harness.v` among them the main loop is
`hdl/native.cpp`, and `native.py` loads the library; for a board it is `hdl/board.cpp`, and
`board.py` loads it. `build.py` adds the cache.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from daedal.common.errors import ToolError
from daedal.sim.rtl.compile import verilate_and_make
from daedal.sim.rtl.toolchain import find_compiler, find_verilator

__all__ = ["build_native", "native_identity"]

_HDL = Path(__file__).parent / "hdl"
_HEADERS = ("failures.h", "said.h")

# One process may load several of these libraries. Each exports only its interface functions and
# keeps all other symbols, those of Verilator's run-time library included, local.
_EXPORTS = "{ global: daedal_*; local: *; };\n"

_COMPILER_FLAGS = (
    "-fPIC",
    # By default Verilator's run-time library ends the process on these; native.cpp reports them.
    *("-DVL_USER_FINISH", "-DVL_USER_STOP", "-DVL_USER_FATAL"),
)

# The header captures the reason that the library prints before it stops; make runs in a subfolder.
_RUNTIME_FLAGS = ("-include", "../said.h")


def native_identity(main: str = "native.cpp") -> list[str]:
    """Return what else a native build depends on: its tools, its main loop, its flags."""
    return [main, *((_HDL / name).read_text() for name in (main, "failures.h")), *_library()]


def _library() -> list[str]:
    """Return what the run-time library depends on, independently of the main loop."""
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
