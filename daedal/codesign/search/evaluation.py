"""`Evaluation`: what is known of one variant, and from which step."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from daedal.codesign.cycles.work import Work, work_from_json, work_to_json
from daedal.codesign.search.objectives import Limit, Objective, geometric_mean, latency_ms
from daedal.hw.synth.families import DEVICES, Family
from daedal.isa.program import variant_from_json
from daedal.isa.variant import Variant

__all__ = ["Evaluation", "Step", "from_json"]


class Step(StrEnum):
    """How cycles were found: estimated, or compiled and counted by the cycle model."""

    estimated = "estimated"
    counted = "counted"


@dataclass(frozen=True)
class Evaluation:
    """One variant on one family.

    Attributes
    ----------
    cycles : of each network, for one image.
    resources : LUT, FF, DSP and block RAM, composed of the parts'.
    mhz : the expected clock.
    host_ms : of each network, what the host takes for one image; empty where it is left out.
    work, energy : of each network, for one image (`energy.Energy.total`); empty where not known.
    """

    variant: Variant
    family: Family
    step: Step
    cycles: Mapping[str, float]
    resources: Mapping[str, float]
    mhz: float
    work: Mapping[str, Work] = field(default_factory=dict)
    energy: Mapping[str, float] = field(default_factory=dict)
    host_ms: Mapping[str, float] = field(default_factory=dict)

    def value(self, measure: str) -> float:
        """An objective, or percent of the device of a resource; smaller is better."""
        if measure == Objective.latency:
            return latency_ms(self.cycles, self.mhz, self.host_ms)
        if measure == Objective.area:
            return 100 * max(self.shares.values())
        if measure == Objective.energy:
            assert self.energy, "energy is asked of evaluations that have work"
            return geometric_mean(self.energy.values())
        return 100 * self.shares[measure]

    @property
    def known(self) -> dict[str, float]:
        """The values of all objectives but an energy that is not known."""
        named = [item for item in Objective if item is not Objective.energy or self.energy]
        return {objective.value: self.value(objective) for objective in named}

    @property
    def shares(self) -> dict[str, float]:
        """Share of the device's resources that it takes."""
        device = DEVICES[self.family]
        return {name: used / getattr(device, name) for name, used in self.resources.items()}

    def within(self, limits: tuple[Limit, ...]) -> bool:
        """Whether every limit is kept."""
        return self.excess(limits) == 0

    def excess(self, limits: tuple[Limit, ...]) -> float:
        """By how much limits are exceeded: the sum of the shares of each."""
        return sum(max(0.0, self.value(limit.measure) / limit.most - 1) for limit in limits)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "variant": dataclasses.asdict(self.variant),
            "family": self.family.value,
            "step": self.step.value,
            "cycles": dict(self.cycles),
            "resources": dict(self.resources),
            "mhz": self.mhz,
            **({"work": work_to_json(self.work)} if self.work else {}),
            **({"energy": dict(self.energy)} if self.energy else {}),
            **({"host_ms": dict(self.host_ms)} if self.host_ms else {}),
        }


def from_json(data: Mapping[str, Any]) -> Evaluation:
    """What `Evaluation.to_json` wrote."""
    return Evaluation(
        variant_from_json(data["variant"]),
        Family(data["family"]),
        Step(data["step"]),
        {name: float(count) for name, count in data["cycles"].items()},
        {name: float(used) for name, used in data["resources"].items()},
        float(data["mhz"]),
        work_from_json(data.get("work", {})),
        {name: float(value) for name, value in data.get("energy", {}).items()},
        {name: float(value) for name, value in data.get("host_ms", {}).items()},
    )
