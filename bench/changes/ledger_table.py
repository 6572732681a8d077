"""The ledger's table on disk, and what moved between two of them.

Input and output: tests/golden/cycles.toml, a table of figures for each ``network.variant``.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.figures import Figures

__all__ = ["LEDGER", "Move", "Moves", "difference", "ledger_text", "moves", "read_ledger"]

ROOT = Path(__file__).resolve().parents[2]
LEDGER = ROOT / "tests" / "golden" / "cycles.toml"

_HEAD = """\
# Cycles of the bench on the cycle model, with memory preset "ddr" unless the key names another.
# Written by `make ledger`; the tests fail where a program has other figures. A commit that makes
# one worse says why.
"""


@dataclass(frozen=True)
class Move:
    """A figure that is not the ledger's; `old` is None for a new entry."""

    key: str
    figure: str
    old: int | None
    new: int

    @property
    def percent(self) -> float:
        """More than before, in percent; 0 for a new entry."""
        return 100 * (self.new / self.old - 1) if self.old else 0.0

    def __str__(self) -> str:
        if self.old is None:
            return f"{self.key}: {self.figure} {self.new:,}, not in the ledger yet"
        direction = "worse" if self.new > self.old else "better"
        change = f"{direction} by {abs(self.percent):.2f} %"
        return f"{self.key}: {self.figure} {self.old:,} -> {self.new:,}, {change}"


Moves = list[Move]


def read_ledger(path: Path = LEDGER) -> dict[str, Figures]:
    """The table by key: ``network.variant``."""
    content = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {
        f"{name}.{variant}": Figures(**figures)
        for name, variants in content.items()
        for variant, figures in variants.items()
    }


def ledger_text(table: Mapping[str, Figures]) -> str:
    """The table as TOML."""
    parts = [_HEAD]
    for key, figures in table.items():
        lines = (f"{name} = {value:_}" for name, value in _known(figures).items())
        parts.append("\n".join([f"[{key}]", *lines]) + "\n")
    return "\n".join(parts)


def moves(key: str, old: Figures | None, new: Figures) -> Moves:
    """Every figure that changed."""
    before, after = _known(old) if old else {}, _known(new)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return [Move(key, name, before.get(name), after.get(name, 0)) for name in changed]


def _known(figures: Figures) -> dict[str, int]:
    """Those that were counted, by name."""
    return {name: value for name, value in asdict(figures).items() if value is not None}


def difference(key: str, old: Figures | None, new: Figures) -> str | None:
    """What a test says where the figures are not the ledger's; None where they are."""
    moved = moves(key, old, new)
    if not moved:
        return None
    listed = "; ".join(map(str, moved))
    if any(move.old is not None and move.new > move.old for move in moved):
        return (
            f"{listed}: mend it, or run `make ledger` and give the reason in the commit's message"
        )
    return f"{listed}: the ledger is out of date: run `make ledger`"
