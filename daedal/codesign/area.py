"""`AreaModel`: LUT, FF, DSP and block RAM of a variant without synthesizing it.

A machine is the sum of its parts (`hw.machine.machine_parts`), and each part depends on few numbers
(`parts.features_of`). `data/parts_<family>.json` has parts of drawn variants, each synthesized
alone (`bench/area_data.py`); a `Regression` for each part and resource predicts those of other
variants. Synthesis of a whole machine removes what the parts do not use of each other:
`data/wholes_<family>.json` has some, and their ratio to the sum corrects it.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources as package_data
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.codesign.parts import built_parts, features_of, kind_of, known_amounts, lanes_of
from daedal.codesign.regression import Regression
from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.families import RESOURCES, Family
from daedal.isa.errors import ExploreError
from daedal.isa.variant import Variant

__all__ = ["AreaModel", "Row", "area_model", "read_rows"]

Reals = npt.NDArray[np.float64]
Resources = Mapping[str, float]
Row = tuple[Variant, Mapping[str, Resources]]
"""A variant, and the resources of some of its parts."""

_LEAST_ROWS = 4
"""Fewer of one kind do not make a model of their own."""


@dataclass(frozen=True)
class _Part:
    """Regressions of the logarithm of each resource, or the only amount seen.

    `per_lane` has the ALU's multipliers: of themselves, and of each kind of lane.
    """

    models: Mapping[str, Regression | float]
    per_lane: Reals | None

    @classmethod
    def fit(cls, name: str, rows: Sequence[tuple[Variant, Resources]]) -> "_Part":
        features = np.array([features_of(name, variant) for variant, _ in rows])
        models: dict[str, Regression | float] = {}
        for resource in RESOURCES:
            amounts = np.array([used[resource] for _, used in rows], dtype=np.float64)
            single = np.ptp(amounts) == 0
            models[resource] = (
                float(amounts[0]) if single else Regression.fit(features, np.log1p(amounts))
            )
        if name != "alu":
            return cls(models, None)
        lanes = np.array([lanes_of(variant) for variant, _ in rows])
        multipliers = np.array([used["dsp"] for _, used in rows])
        return cls(models, np.linalg.lstsq(lanes, multipliers, rcond=None)[0])

    def __call__(self, name: str, variants: Sequence[Variant]) -> dict[str, Any]:
        features = np.array([features_of(name, variant) for variant in variants])
        found: dict[str, Any] = {
            resource: model
            if isinstance(model, float)
            else np.maximum(np.expm1(model.predict(features)), 0)
            for resource, model in self.models.items()
        }
        if self.per_lane is not None:
            found["dsp"] = np.array([lanes_of(variant) for variant in variants]) @ self.per_lane
        return found


@dataclass(frozen=True)
class AreaModel:
    """Made by `fit`.

    Attributes
    ----------
    parts : models by part and kind; kind "" for what is of no known kind.
    ratios : whole machines relative to the sum of their parts, by resource.
    """

    family: Family
    parts: Mapping[tuple[str, str], _Part]
    ratios: Resources

    @classmethod
    def fit(cls, family: Family, parts: Sequence[Row], wholes: Sequence[Row] = ()) -> "AreaModel":
        """From parts of some variants, and other variants as a whole."""
        grouped: dict[tuple[str, str], list[tuple[Variant, Resources]]] = {}
        for variant, found in parts:
            for name, used in found.items():
                for kind in {"", kind_of(name, variant)}:
                    grouped.setdefault((name, kind), []).append((variant, used))
        fitted = {
            (name, kind): _Part.fit(name, rows)
            for (name, kind), rows in sorted(grouped.items(), key=lambda item: item[0])
            if not kind or len(rows) >= _LEAST_ROWS
        }
        sums = cls(family, fitted, dict.fromkeys(RESOURCES, 1.0))
        if not wholes:
            return sums
        composed = sums([variant for variant, _ in wholes])
        ratios = {}
        for name in RESOURCES:
            logs = [
                math.log(found[TOP_MODULE][name] / total[name])
                for (_, found), total in zip(wholes, composed, strict=True)
                if found[TOP_MODULE][name] and total[name]
            ]
            ratios[name] = math.exp(float(np.mean(logs))) if logs else 1.0
        return cls(family, fitted, ratios)

    def __call__(self, variants: Sequence[Variant]) -> list[dict[str, float]]:
        """Resources of each variant."""
        return [
            {
                name: self.ratios[name] * sum(used[name] for used in parts.values())
                for name in RESOURCES
            }
            for parts in self._by_part(variants)
        ]

    def by_part(self, variant: Variant) -> dict[str, dict[str, float]]:
        """Resources of each part; they sum to those of the variant."""
        (parts,) = self._by_part([variant])
        return {
            part: {name: self.ratios[name] * amount for name, amount in used.items()}
            for part, used in parts.items()
        }

    def _by_part(self, variants: Sequence[Variant]) -> list[dict[str, dict[str, float]]]:
        """Resources of the parts of each variant, each alone."""
        found: list[dict[str, dict[str, float]]] = [{} for _ in variants]
        groups: dict[tuple[str, str], list[int]] = {}
        for row, variant in enumerate(variants):
            for name in built_parts(variant):
                kind = kind_of(name, variant)
                key = (name, kind if (name, kind) in self.parts else "")
                groups.setdefault(key, []).append(row)
        for (name, kind), rows in groups.items():
            amounts = self.parts[name, kind](name, [variants[row] for row in rows])
            for place, row in enumerate(rows):
                used = {
                    resource: float(amount if isinstance(amount, float) else amount[place])
                    for resource, amount in amounts.items()
                }
                found[row][name] = {**used, **known_amounts(name, variants[row])}
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
        found.append((Variant(f"{family.value}-{number}").replace(None, **values), row["parts"]))
    return found
