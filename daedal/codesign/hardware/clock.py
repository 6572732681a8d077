"""`ClockModel`: the clock that place and route may reach, with its spread, without routing.

Learned from `data/routes_<family>.json` (`bench/codesign/clock_data.py`): variants routed out of
context. The seeds of one design alone spread by 30 %, so that an interval belongs to every number.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources as package_data
from typing import Any

import numpy as np

from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.nonnegative import nonnegative_minimum
from daedal.codesign.hardware.regression import Array
from daedal.common.errors import ExploreError
from daedal.hw.synth.families import DEVICES, Family
from daedal.isa.variant import Variant

__all__ = ["Clock", "ClockModel", "Route", "clock_model", "read_routes"]

_RIDGES = (0.3, 1.0, 3.0, 10.0, 100.0)
_LEAST_ROWS = 8
"""Routed variants of today's gateware; with fewer, stale ones count too."""
_NORMAL = 1.96
"""Of a normal distribution, 95 % lie within so many standard deviations."""


@dataclass(frozen=True)
class Clock:
    """MHz that are expected of the median seed, and those between which nearly every seed lies."""

    mhz: float
    low: float
    high: float


@dataclass(frozen=True)
class Route:
    """A routed variant and the MHz of its seeds."""

    variant: Variant
    mhz: tuple[float, ...]


def clock_features(variant: Variant, resources: Mapping[str, float], family: Family) -> list[float]:
    """What slows a design down: its size, and how full the device is."""
    device = DEVICES[family]
    return [
        math.log2(variant.macs_per_cycle),
        math.log2(variant.array.batch * variant.array.block_out),
        math.log2(variant.bus.data_bits),
        resources["lut"] / device.lut,
        resources["block_ram"] / device.block_ram,
    ]


@dataclass(frozen=True)
class ClockModel:
    """A ridge regression of the logarithm of MHz in which no feature makes a design faster.

    Attributes
    ----------
    deviation : standard deviation of the logarithm of a median, each variant left out in turn.
    seeds : the same of one seed from its variant's median.
    num_seeds : of one variant, on average.
    degrees : degrees of freedom of `deviation`.
    """

    family: Family
    center: Array
    spread: Array
    mean: float
    weights: Array
    deviation: float
    seeds: float
    num_seeds: float
    degrees: int

    @classmethod
    def fit(cls, family: Family, features: Array, mhz: Sequence[Sequence[float]]) -> "ClockModel":
        """From routed variants, at least two: features (variants, features), MHz of their seeds.

        The ridge is the one whose errors of variants left out are least.
        """
        center, spread = features.mean(axis=0), features.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        scaled = (features - center) / spread
        target = np.array([np.median(np.log(each)) for each in mhz])
        mean = float(target.mean())
        errors = {ridge: _left_out(scaled, target, ridge) for ridge in _RIDGES}
        best = min(_RIDGES, key=lambda ridge: float(np.sum(errors[ridge] ** 2)))
        inside = [np.log(each) - middle for each, middle in zip(mhz, target, strict=True)]
        freedom = sum(len(each) - 1 for each in inside)
        seeds = math.sqrt(sum(float(np.sum(each**2)) for each in inside) / max(1, freedom))
        deviation = float(np.sqrt(np.mean(errors[best] ** 2)))
        weights = _weights(scaled, target, best)
        num_seeds = 1 + freedom / len(mhz)
        return cls(family, center, spread, mean, weights, deviation, seeds, num_seeds, len(mhz) - 1)

    @property
    def reach(self) -> float:
        """Half of the interval of one seed, as a logarithm.

        The medians that `deviation` is of have a share of the seeds' spread already.
        """
        rest = self.seeds**2 * (1 - 1 / self.num_seeds)
        return _student(self.degrees) * math.sqrt(self.deviation**2 + rest)

    def __call__(
        self, variants: Sequence[Variant], resources: Sequence[Mapping[str, float]]
    ) -> list[Clock]:
        """The clock of each variant with these resources, as `AreaModel` composes them."""
        rows = [
            clock_features(variant, used, self.family)
            for variant, used in zip(variants, resources, strict=True)
        ]
        scaled = (np.array(rows).reshape(len(rows), len(self.center)) - self.center) / self.spread
        expected = self.mean + scaled @ self.weights
        reach = math.exp(self.reach)
        return [Clock(mhz, mhz / reach, mhz * reach) for mhz in np.exp(expected).tolist()]


def _weights(scaled: Array, target: Array, ridge: float) -> Array:
    """None is positive: all features slow designs down."""
    gram = scaled.T @ scaled + ridge * np.eye(scaled.shape[1])
    found: Array = -nonnegative_minimum(gram, -scaled.T @ (target - target.mean()))
    return found


def _left_out(scaled: Array, target: Array, ridge: float) -> Array:
    """The error of each row from a fit to the others."""
    errors = []
    for row in range(len(target)):
        others = np.arange(len(target)) != row
        weights = _weights(scaled[others], target[others], ridge)
        errors.append(target[row] - target[others].mean() - scaled[row] @ weights)
    return np.array(errors)


def _student(degrees: int) -> float:
    """The 97.5 % quantile of Student's distribution.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5.
    """
    z = _NORMAL
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )


@cache
def clock_model(family: Family) -> ClockModel:
    """The model of the data that comes with Daedal. Raises ExploreError where there is none."""
    routes = read_routes(family)
    if not routes:
        raise ExploreError(
            f"clocks are known of family ecp5, not of {family.value}, which has no open place and "
            "route; give the clock with --clock"
        )
    variants = [route.variant for route in routes]
    # Composed, as they are for variants that nobody has synthesized.
    composed = area_model(family)(variants)
    features = [
        clock_features(variant, used, family)
        for variant, used in zip(variants, composed, strict=True)
    ]
    return ClockModel.fit(family, np.array(features), [route.mhz for route in routes])


def read_routes(family: Family) -> list[Route]:
    """The routed variants of a family.

    Those that ``bench/codesign/clock_data.py --check`` marked as stale are left out, as long as
    enough others remain.
    """
    path = package_data.files("daedal.codesign.hardware") / "data" / f"routes_{family.value}.json"
    if not path.is_file():
        return []
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    fresh = [row for row in rows if not row.get("stale", False)]
    found = []
    for row in fresh if len(fresh) >= _LEAST_ROWS else rows:
        values = {key: value for part in row["variant"].values() for key, value in part.items()}
        found.append(Route(Variant("routed").replace(**values), tuple(row["mhz"])))
    return found
