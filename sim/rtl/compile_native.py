"""Builds the native simulator: Verilator's C++ and `hdl/native.cpp` in one shared library.

Input: source files in a scratch folder, `harness.v` among them. Output: one library, which
`native.py` loads. `build.py` adds the cache.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from daedal.isa.errors import ToolError
from daedal.sim.rtl.compile import verilate_and_make
from daedal.sim.rtl.toolchain import find_compiler, find_verilator

__all__ = ["build_native", "native_identity"]

_MAIN = Path(__file__).parent / "hdl" / "native.cpp"

# Several of these libraries live in one process, beside anything else: each shows the functions of
# its interface and binds all others, Verilator's run-time library among them, to itself.
_EXPORTS = "{ global: daedal_*; local: *; };\n"

_COMPILER_FLAGS = (
    "-fPIC",
    # Verilator's run-time library ends the process on these; native.cpp reports them.
    *("-DVL_USER_FINISH", "-DVL_USER_STOP", "-DVL_USER_FATAL"),
)


def native_identity() -> list[str]:
    """Return what else a native build depends on: its tools, its main loop, its flags."""
    return [
        "native",
        find_verilator().version,
        find_compiler().version,
        _MAIN.read_text(),
        _EXPORTS,
        *_COMPILER_FLAGS,
    ]


def build_native(
    scratch: Path,
    files: list[str],
    program: Path,
    top: str,
    parameters: Mapping[str, int],
    waves: bool,
    report: Callable[[str], None],
) -> None:
    """Build `files` (names inside `scratch`) into the shared library `program`.

    Raises
    ------
    ToolError
        A tool is missing or refused the design, or `waves` are asked for.
    """
    if waves:
        raise ToolError("the simulator native records no waveforms; choose verilator or icarus")
    (scratch / "native.cpp").write_text(_MAIN.read_text())
    (scratch / "exports").write_text(_EXPORTS)
    options = [
        "--no-timing",  # the main loop is the clock
        "+define+DAEDAL_CLOCK_PORT",
        *("-CFLAGS", " ".join(_COMPILER_FLAGS)),
        *("-LDFLAGS", "-shared -Wl,--version-script=../exports"),
        "native.cpp",
    ]
    verilate_and_make(
        scratch, files, program, top, parameters, options, native_identity(), False, report
    )
