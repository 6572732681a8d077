"""`diff_profiles`: what changed between two profiles, layer by layer, the largest effect first.

Layers are matched by name, those with the same name in order. The two profiles may come from
different variants, memory models, devices or networks: `ProfileDiff.conditions` lists those
differences.
"""

from dataclasses import asdict, dataclass
from typing import Any

from daedal.isa.registers import CLASSES, CycleClass
from daedal.isa.table import Unit
from daedal.runtime.layers import LayerProfile
from daedal.runtime.profiler.network_profile import NetworkProfile

__all__ = ["LayerChange", "Move", "ProfileDiff", "diff_profiles"]

_NAMED_IN_SUMMARY = 3


@dataclass(frozen=True)
class Move:
    """A unit spent `cycles` more (or, negative, less) in a class."""

    unit: Unit
    kind: CycleClass
    cycles: int


@dataclass(frozen=True)
class LayerChange:
    """A layer before and after; None on the side where it does not exist."""

    name: str
    before: LayerProfile | None
    after: LayerProfile | None

    @property
    def cycles(self) -> int:
        """Cycles more, or less."""
        return _cycles(self.after) - _cycles(self.before)

    @property
    def bytes_moved(self) -> int:
        """Bytes moved more, or less."""
        before = self.before.bytes_moved if self.before is not None else 0
        after = self.after.bytes_moved if self.after is not None else 0
        return after - before

    @property
    def bound(self) -> str:
        """What bounds it, as ``load`` or ``load -> GEMM``."""
        names = [x.bound.value if x is not None else "none" for x in (self.before, self.after)]
        return names[0] if names[0] == names[1] else " -> ".join(names)

    @property
    def moves(self) -> tuple[Move, ...]:
        """Classes whose cycles changed, the largest change first."""
        units = [side.units for side in (self.before, self.after) if side is not None]
        found = [
            Move(unit, kind, _spent(self.after, unit, kind) - _spent(self.before, unit, kind))
            for unit in units[0]
            for kind in CLASSES
        ]
        moved = [move for move in found if move.cycles]
        return tuple(sorted(moved, key=lambda move: -abs(move.cycles)))

    def to_json(self) -> dict[str, Any]:
        """Plain data for reports."""
        return {
            "name": self.name,
            "cycles": [_cycles(self.before), _cycles(self.after)],
            "bound": [
                None if side is None else side.bound.value for side in (self.before, self.after)
            ],
            "bytes_moved": [
                None if side is None else side.bytes_moved for side in (self.before, self.after)
            ],
            "moves": [
                {
                    "unit": move.unit.name.lower(),
                    "class": move.kind.name.lower(),
                    "cycles": move.cycles,
                }
                for move in self.moves
            ],
        }


@dataclass(frozen=True)
class ProfileDiff:
    """Two profiles and their layers' changes, the largest change of cycles first."""

    before: NetworkProfile
    after: NetworkProfile
    changes: tuple[LayerChange, ...]

    @property
    def conditions(self) -> dict[str, tuple[str | int, str | int]]:
        """What differs in machine, memory and device: before and after by name."""
        old, new = asdict(self.before.conditions), asdict(self.after.conditions)
        return {name: (old[name], new[name]) for name in old if old[name] != new[name]}

    @property
    def summary(self) -> str:
        """One sentence: the total, and the layers that changed most."""
        old, new = self.before.cycles, self.after.cycles
        if old == new and not any(change.cycles for change in self.changes):
            return f"Both take {old:,} cycles, and so does every layer."
        more = new - old
        whole = f"{new:,} cycles instead of {old:,} ({_signed(more)}, {_percent(more, old)})"
        named = [change for change in self.changes if change.cycles][:_NAMED_IN_SUMMARY]
        parts = [f"{change.name} {_signed(change.cycles)}" for change in named]
        return f"{whole}; most in {', '.join(parts)}." if parts else f"{whole}."

    def to_json(self) -> dict[str, Any]:
        """Plain data for reports."""
        return {
            "summary": self.summary,
            "conditions": {name: list(pair) for name, pair in self.conditions.items()},
            "cycles": [self.before.cycles, self.after.cycles],
            "layers": [change.to_json() for change in self.changes],
        }


def diff_profiles(before: NetworkProfile, after: NetworkProfile) -> ProfileDiff:
    """What changed from `before` to `after`."""
    old, new = _by_name(before), _by_name(after)
    changes = [
        LayerChange(key[0], old.get(key), new.get(key)) for key in dict.fromkeys((*old, *new))
    ]
    return ProfileDiff(
        before, after, tuple(sorted(changes, key=lambda change: -abs(change.cycles)))
    )


def _by_name(profile: NetworkProfile) -> dict[tuple[str, int], LayerProfile]:
    """Layers by name and by their index among layers of that name."""
    found: dict[tuple[str, int], LayerProfile] = {}
    counts: dict[str, int] = {}
    for layer in profile.layers:
        name = layer.layer.name
        found[name, counts.get(name, 0)] = layer
        counts[name] = counts.get(name, 0) + 1
    return found


def _cycles(layer: LayerProfile | None) -> int:
    return layer.cycles if layer is not None else 0


def _spent(layer: LayerProfile | None, unit: Unit, kind: CycleClass) -> int:
    return layer.units[unit].classes[kind] if layer is not None else 0


def _signed(value: int) -> str:
    return f"{value:+,}".replace("-", "−")


def _percent(value: int, whole: int) -> str:
    return f"{100 * value / max(1, whole):+.1f} %".replace("-", "−")
