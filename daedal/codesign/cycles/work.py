"""`Work`: what the units of a machine do for one image, and `Counts`, that of several networks.

Input: a profile of the cycle model. Estimates have the same form (`EstimatedWork`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from daedal.isa.profile import Profile
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.runtime.profiler.network_profile import NetworkProfile

__all__ = ["Counts", "Work", "work_from_json", "work_to_json"]


@dataclass(frozen=True)
class Work:
    """Cycles in which units work, and what crosses the bus.

    Attributes
    ----------
    products : cycles in which GEMM starts a product.
    vectors : cycles in which the ALU is busy.
    read, written : bus words; of those read, some are instructions.
    """

    products: float
    vectors: float
    read: float
    written: float

    @classmethod
    def of(cls, profile: Profile | NetworkProfile) -> "Work":
        """What was counted. Marks are left out: they serve the measurement."""
        units = profile.units
        return cls(
            float(units[Unit.GEMM].work),
            float(units[Unit.ALU].classes[CycleClass.BUSY]),
            float(profile.beats_read),
            float(units[Unit.STORE].work),
        )


@dataclass(frozen=True)
class Counts:
    """For one image, by network.

    Attributes
    ----------
    work : empty where only cycles are known.
    """

    cycles: Mapping[str, float]
    work: Mapping[str, Work] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        found: dict[str, Any] = {"cycles": dict(self.cycles)}
        return found | ({"work": work_to_json(self.work)} if self.work else {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Counts":
        """What `to_json` wrote. Raises LookupError or TypeError for anything else."""
        return cls(
            {name: float(count) for name, count in data["cycles"].items()},
            work_from_json(data.get("work", {})),
        )


def work_to_json(work: Mapping[str, Work]) -> dict[str, dict[str, float]]:
    """Plain data of each network."""
    return {name: asdict(item) for name, item in work.items()}


def work_from_json(data: Mapping[str, Mapping[str, float]]) -> dict[str, Work]:
    """What `work_to_json` wrote. Raises TypeError for anything else."""
    return {
        name: Work(**{key: float(value) for key, value in item.items()})
        for name, item in data.items()
    }
