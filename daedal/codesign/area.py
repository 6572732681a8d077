"""`AreaModel`: LUT, FF, DSP and block RAM of a variant without synthesizing it.

A machine is the sum of its parts (`hw.machine.machine_parts`). `data/parts_<family>.json` has
parts of drawn variants, each synthesized alone (`bench/area_data.py`); a `Regression` for each part
and resource predicts those of other variants. Synthesis of a whole machine removes what the parts
do not use of each other: `data/wholes_<family>.json` has some, and their ratio to the sum corrects
it.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources as package_data
from typing import Any

import numpy as np

from daedal.codesign.regression import Array, Regression
from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.families import RESOURCES, Family
from daedal.isa.errors import ExploreError
from daedal.isa.variant import MultiplierStyle, Variant

__all__ = ["AreaModel", "Row", "area_model", "features_of", "read_rows"]

Resources = Mapping[str, float]
Row = tuple[Variant, Mapping[str, Resources]]
"""A variant, and the resources of some of its parts."""

FEATURES = (
    "batch", "block_in", "block_out", "depthwise_taps", "multiplier_style", "inp_bytes",
    "wgt_bytes", "acc_bytes", "out_bytes", "par_bytes", "gemm_uop_bytes", "alu_uop_bytes",
    "acc_banks", "data_bits", "read_bursts", "write_bursts", "queue_depth", "token_bits",
    "alu_lanes", "requantize_lanes", "counters",
)  # fmt: skip

_ONLY_WITH_COUNTERS = "mark_recorder"


def features_of(variant: Variant) -> list[float]:
    """What areas depend on: logarithms of the parameters, so that products become sums."""
    sections = (variant.array, variant.memory, variant.bus, variant.units)
    found: list[float] = []
    for name in FEATURES:
        (value,) = (getattr(section, name) for section in sections if hasattr(section, name))
        if name == "multiplier_style":
            found += [float(variant.array.style is style) for style in MultiplierStyle]
        elif isinstance(value, bool):
            found.append(float(value))
        else:
            found.append(math.log2(1 + value) if name == "depthwise_taps" else math.log2(value))
    return found


@dataclass(frozen=True)
class AreaModel:
    """Made by `fit`.

    Attributes
    ----------
    parts : for each part and resource, a regression of the logarithm, or the only amount seen.
    ratios : whole machines relative to the sum of their parts, by resource.
    """

    family: Family
    parts: Mapping[tuple[str, str], Regression | float]
    ratios: Resources

    @classmethod
    def fit(cls, family: Family, parts: Sequence[Row], wholes: Sequence[Row] = ()) -> "AreaModel":
        """From parts of some variants, and other variants as a whole."""
        fitted: dict[tuple[str, str], Regression | float] = {}
        for part in sorted({part for _, found in parts for part in found}):
            having = [(variant, found[part]) for variant, found in parts if part in found]
            features = np.array([features_of(variant) for variant, _ in having])
            for resource in RESOURCES:
                amounts = np.array([used[resource] for _, used in having])
                if np.ptp(amounts) == 0:
                    fitted[part, resource] = float(amounts[0])
                else:
                    fitted[part, resource] = Regression.fit(features, np.log1p(amounts))
        sums = cls(family, fitted, dict.fromkeys(RESOURCES, 1.0))
        if not wholes:
            return sums
        composed = sums([variant for variant, _ in wholes])
        logs = {
            name: [
                math.log(found[TOP_MODULE][name] / total[name])
                for (_, found), total in zip(wholes, composed, strict=True)
                if found[TOP_MODULE][name] and total[name]
            ]
            for name in RESOURCES
        }
        ratios = {name: math.exp(float(np.mean(found or [0.0]))) for name, found in logs.items()}
        return cls(family, fitted, ratios)

    def __call__(self, variants: Sequence[Variant]) -> list[dict[str, float]]:
        """Resources of each variant."""
        totals = {name: np.zeros(len(variants)) for name in RESOURCES}
        for (_, resource), amounts in self._amounts(variants).items():
            totals[resource] += amounts
        return [
            {name: float(totals[name][row]) for name in RESOURCES} for row in range(len(variants))
        ]

    def by_part(self, variant: Variant) -> dict[str, dict[str, float]]:
        """Resources of each part; they sum to those of the variant."""
        found: dict[str, dict[str, float]] = {}
        for (part, resource), amounts in self._amounts([variant]).items():
            found.setdefault(part, {})[resource] = float(amounts[0])
        return {part: used for part, used in found.items() if any(used.values())}

    def _amounts(self, variants: Sequence[Variant]) -> dict[tuple[str, str], Array]:
        """By part and resource: amounts of each variant."""
        if not variants:
            return {}
        features: Array = np.array([features_of(variant) for variant in variants])
        counters = np.array([variant.units.counters for variant in variants])
        found: dict[tuple[str, str], Array] = {}
        for (part, resource), model in self.parts.items():
            if isinstance(model, float):
                amounts = np.full(len(variants), model)
            else:
                amounts = np.expm1(model.predict(features))
            built = counters if part == _ONLY_WITH_COUNTERS else True
            found[part, resource] = amounts * built * self.ratios[resource]
        return found


@cache
def area_model(family: Family) -> AreaModel:
    """The model of the data that comes with Daedal. Raises ExploreError where there is none."""
    parts = read_rows("parts", family)
    if not parts:
        raise ExploreError(
            f"areas are known of family ecp5, not of {family.value}; choose --target ecp5-85f"
        )
    return AreaModel.fit(family, parts, read_rows("wholes", family))


def read_rows(kind: str, family: Family) -> list[Row]:
    """The ``parts`` or the ``wholes`` of the synthesized variants of a family."""
    path = package_data.files("daedal.codesign") / "data" / f"{kind}_{family.value}.json"
    if not path.is_file():
        return []
    rows: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found = []
    for number, row in rows.items():
        values = {key: value for part in row["variant"].values() for key, value in part.items()}
        found.append((Variant(f"{family.value}-{number}").replace(**values), row["parts"]))
    return found
