"""`Profile`: what a device counted during one launch. Cycles, per-unit classes, work, marks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from daedal.isa.registers import CLASSES, CycleClass
from daedal.isa.table import Unit

__all__ = ["MarkRecord", "Profile", "UnitCounters"]


@dataclass(frozen=True)
class UnitCounters:
    """Cycles of one unit by class (they sum to the cycles counted), and its work."""

    classes: Mapping[CycleClass, int]
    work: int

    def since(self, earlier: "UnitCounters") -> "UnitCounters":
        """Counts since `earlier`: the difference of the two."""
        classes = {kind: self.classes[kind] - earlier.classes[kind] for kind in CLASSES}
        return UnitCounters(classes, self.work - earlier.work)

    def plus(self, other: "UnitCounters") -> "UnitCounters":
        """The sum of both counts."""
        classes = {kind: self.classes[kind] + other.classes[kind] for kind in CLASSES}
        return UnitCounters(classes, self.work + other.work)

    @property
    def cycles(self) -> int:
        """Sum of all classes."""
        return sum(self.classes.values())

    def to_json(self) -> dict[str, int]:
        """Classes by their names in lower case, and ``work``."""
        return {**{kind.name.lower(): self.classes[kind] for kind in CLASSES}, "work": self.work}


@dataclass(frozen=True)
class MarkRecord:
    """A marked instruction retired: when, on which unit, and that unit's counters so far."""

    tag: int
    unit: Unit
    instruction: int
    cycle: int
    counters: UnitCounters


@dataclass(frozen=True, repr=False)
class Profile:
    """Counters of one launch; `cycles` is None on a device that has no notion of time."""

    device: str
    cycles: int | None = None
    beats_read: int = 0
    beats_written: int = 0
    units: Mapping[Unit, UnitCounters] = field(default_factory=dict)
    marks: Sequence[MarkRecord] = ()
    wall_seconds: float = 0.0

    def __repr__(self) -> str:
        parts = ["cycles are not counted" if self.cycles is None else f"{self.cycles:,} cycles"]
        if self.cycles and self.units:
            busy = (
                f"{unit.name} {100 * found.classes[CycleClass.BUSY] / self.cycles:.0f} %"
                for unit, found in self.units.items()
            )
            parts.append(f"busy: {', '.join(busy)}")
        if self.marks:
            parts.append(f"marks: {len(self.marks):,}")
        return f"<Profile of {self.device}: {'; '.join(parts)}>"

    @classmethod
    def total(cls, launches: Sequence["Profile"]) -> "Profile":
        """Sums over launches on one device; units only where all launches have them. Marks are kept
        only for a single launch, as their tags are unique only within one."""
        first = launches[0]
        if len(launches) == 1:
            return first
        counted = [item.cycles for item in launches if item.cycles is not None]
        units = {
            unit: reduce(UnitCounters.plus, (item.units[unit] for item in launches))
            for unit in first.units
            if all(item.units for item in launches)
        }
        return cls(
            first.device,
            sum(counted) if len(counted) == len(launches) else None,
            sum(item.beats_read for item in launches),
            sum(item.beats_written for item in launches),
            units,
            wall_seconds=sum(item.wall_seconds for item in launches),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data for reports."""
        return {
            "device": self.device,
            "cycles": self.cycles,
            "beats_read": self.beats_read,
            "beats_written": self.beats_written,
            "units": {unit.name.lower(): value.to_json() for unit, value in self.units.items()},
            "marks": [
                {
                    "tag": mark.tag,
                    "unit": mark.unit.name.lower(),
                    "instruction": mark.instruction,
                    "cycle": mark.cycle,
                    "counters": mark.counters.to_json(),
                }
                for mark in self.marks
            ],
            "wall_seconds": self.wall_seconds,
        }
