"""Faults that change nothing: proved by equal code or equal Verilog, or stated by a reviewer."""

import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from bench.changes.mutation.tree import Tree

__all__ = ["REVIEWED", "reviewed", "same_code", "same_verilog", "verilog_digests"]

REVIEWED = Path(__file__).parent / "equivalents.toml"
"""Key of a fault -> why no test can notice it, each looked at by a person."""

_EMIT = """
import hashlib, sys
from pathlib import Path
from daedal.hw.emit import emit_verilog
from daedal.isa.variant import load_variant
for name in sys.argv[1:]:
    # With all that a text can have besides: what only checks or shows the machine counts, too.
    text = emit_verilog(load_variant(name), observe=True, assertions=True)
    print(name, hashlib.sha256(text.encode()).hexdigest())
"""


@cache
def reviewed() -> dict[str, dict[str, str]]:
    """The reviewed table: per key the file, the fault in words, and the reason."""
    table: dict[str, dict[str, str]] = tomllib.loads(REVIEWED.read_text(encoding="utf-8"))
    return table


def same_code(before: str, after: str) -> bool:
    """Whether two sources compile to the same bytecode, lines and columns apart."""
    return _essence(compile(before, "m", "exec")) == _essence(compile(after, "m", "exec"))


def _essence(code: CodeType) -> Any:
    constants = [
        _essence(item) if isinstance(item, CodeType) else (type(item), repr(item))
        for item in code.co_consts
    ]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_exceptiontable


def verilog_digests(tree: Tree, variants: tuple[str, ...]) -> str:
    """Names and digests of the Verilog of `variants`, as the tree's sources give it."""
    done = subprocess.run(
        [sys.executable, "-c", _EMIT, *variants],
        cwd=tree.root, env=tree.environment(), capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else f"failed: {done.stderr[-200:]}"


def same_verilog(clean: Tree, faulty: Tree, variants: tuple[str, ...]) -> bool:
    """Whether the fault leaves the Verilog of all `variants` as it is; stops at a difference."""
    return all(verilog_digests(faulty, (name,)) == _clean_digest(clean, name) for name in variants)


_CLEAN: dict[str, str] = {}


def _clean_digest(clean: Tree, name: str) -> str:
    if name not in _CLEAN:
        _CLEAN[name] = verilog_digests(clean, (name,))
    return _CLEAN[name]
