"""`ClockModel`: the clock that place and route may reach, with its spread, without routing.

Learned from `data/routes_<family>.json`: variants routed out of context. The seeds of one design
alone spread by 30 %, so that an interval belongs to every number.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources as package_data
from typing import Any

import numpy as np

from daedal.codesign.regression import Array
from daedal.hw.synth.families import DEVICES, Family
from daedal.isa.errors import ExploreError
from daedal.isa.variant import Variant

__all__ = ["Clock", "ClockModel", "clock_model"]

_RIDGE = 1.0
_SIGMAS = 2.0


@dataclass(frozen=True)
class Clock:
    """MHz that are expected, and those between which nearly all designs like it lie."""

    mhz: float
    low: float
    high: float


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
    """A ridge regression of the logarithm of MHz.

    Attributes
    ----------
    deviation : standard deviation of the leave-one-out errors of the logarithm.
    """

    family: Family
    center: Array
    spread: Array
    mean: float
    weights: Array
    deviation: float

    @classmethod
    def fit(cls, family: Family, features: Array, mhz: Array) -> "ClockModel":
        """From routed variants."""
        center, spread = features.mean(axis=0), features.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        scaled, target = (features - center) / spread, np.log(mhz)
        mean = float(target.mean())
        gram = np.linalg.inv(scaled.T @ scaled + _RIDGE * np.eye(scaled.shape[1]))
        weights = gram @ scaled.T @ (target - mean)
        hat = np.diag(scaled @ gram @ scaled.T) + 1 / len(mhz)
        errors = (target - mean - scaled @ weights) / (1 - np.minimum(hat, 0.9))
        return cls(family, center, spread, mean, weights, float(np.sqrt(np.mean(errors**2))))

    def __call__(
        self, variants: Sequence[Variant], resources: Sequence[Mapping[str, float]]
    ) -> list[Clock]:
        """The clock of each variant with these resources."""
        rows = [
            clock_features(variant, used, self.family)
            for variant, used in zip(variants, resources, strict=True)
        ]
        scaled = (np.array(rows).reshape(len(rows), -1) - self.center) / self.spread
        expected = self.mean + scaled @ self.weights
        reach = math.exp(_SIGMAS * self.deviation)
        return [Clock(mhz, mhz / reach, mhz * reach) for mhz in np.exp(expected).tolist()]


@cache
def clock_model(family: Family) -> ClockModel:
    """The model of the data that comes with Daedal. Raises ExploreError where there is none."""
    path = package_data.files("daedal.codesign") / "data" / f"routes_{family.value}.json"
    if not path.is_file():
        raise ExploreError(
            f"clocks are known of family ecp5, not of {family.value}, which has no open place and "
            "route; give the clock with --clock"
        )
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    features, clocks = [], []
    for row in rows:
        values = {key: value for part in row["variant"].values() for key, value in part.items()}
        variant = Variant("routed").replace(**values)
        features.append(clock_features(variant, row["resources"], family))
        clocks.append(float(np.median(row["mhz"])))
    return ClockModel.fit(family, np.array(features), np.array(clocks))
