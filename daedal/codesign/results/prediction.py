"""`Prediction`: what is estimated of a point: its clock, its units' area, what parameters buy.

What a parameter buys is the change of the estimates from the point to each of its neighbours in the
space: the variants with the next smaller or larger value of one parameter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from daedal.codesign.hardware.clock import Clock
from daedal.codesign.search.evaluation import Evaluation
from daedal.codesign.search.objectives import Limit, Objective
from daedal.codesign.search.variant_space import Point, Value, VariantSpace

__all__ = ["ParameterStep", "Prediction", "parameter_steps", "prediction_from_json"]


@dataclass(frozen=True)
class ParameterStep:
    """One parameter changed to the next value.

    Attributes
    ----------
    latency : relative change, -0.1 for a tenth less; None where a network does not fit.
    area : change in percent of the device; None with `latency`.
    energy : relative change; None where the search does not estimate energies, too.
    shares : what it takes of each resource, in percent of the device; empty with no `latency`.
    """

    parameter: str
    before: Value
    after: Value
    latency: float | None
    area: float | None
    energy: float | None = None
    shares: Mapping[str, float] = field(default_factory=dict)

    def exceeded(self, here: Evaluation, limits: Sequence[Limit]) -> list[Limit]:
        """The limits that it breaks, from the values of `here`, the variant before the change."""
        if self.latency is None:
            return []
        values = {
            **self.shares,
            Objective.latency: here.value(Objective.latency) * (1 + self.latency),
        }
        if self.area is not None:
            values[Objective.area] = here.value(Objective.area) + self.area
        if self.energy is not None and here.energy:
            values[Objective.energy] = here.value(Objective.energy) * (1 + self.energy)
        return [limit for limit in limits if values.get(limit.measure, 0.0) > limit.most]


@dataclass(frozen=True)
class Prediction:
    """The estimates of one point.

    Attributes
    ----------
    units : resources by part of the machine, as `AreaModel` composes them, and of the board's
        other logic.
    """

    clock: Clock
    units: Mapping[str, Mapping[str, float]]
    steps: tuple[ParameterStep, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "clock": asdict(self.clock),
            "units": {unit: dict(used) for unit, used in self.units.items()},
            "steps": [asdict(step) for step in self.steps],
        }


def prediction_from_json(data: Mapping[str, Any]) -> Prediction:
    """What `Prediction.to_json` wrote. Raises LookupError or TypeError for anything else."""
    return Prediction(
        Clock(**data["clock"]),
        {unit: dict(used) for unit, used in data["units"].items()},
        tuple(ParameterStep(**step) for step in data["steps"]),
    )


def parameter_steps(
    space: VariantSpace,
    estimate: Callable[[Sequence[Point]], list[Evaluation | None]],
    point: Point,
) -> list[ParameterStep]:
    """The neighbours of `point` in the order of the parameters; none where it does not fit."""
    neighbours = space.neighbours(point)
    here, *others = estimate([point, *neighbours])
    if here is None:
        return []
    before, found = space.values(point), []
    for other, made in zip(neighbours, others, strict=True):
        ((name, value),) = (
            (name, value) for name, value in space.values(other).items() if value != before[name]
        )
        latency = area = energy = None
        shares: dict[str, float] = {}
        if made is not None:
            latency = made.value(Objective.latency) / here.value(Objective.latency) - 1
            area = made.value(Objective.area) - here.value(Objective.area)
            shares = {key: 100 * share for key, share in made.shares.items()}
            if made.energy and here.energy:
                energy = made.value(Objective.energy) / here.value(Objective.energy) - 1
        found.append(ParameterStep(name, before[name], value, latency, area, energy, shares))
    return found
