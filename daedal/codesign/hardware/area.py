"""`AreaModel`: LUT, FF, DSP and block RAM of a variant without synthesizing it.

A machine is the sum of its parts (`hw.machine.machine_parts`), and each part is a sum of known
sizes (`parts.sizes_of`). `data/parts_<family>.json` has parts of drawn variants, each synthesized
alone (`bench/codesign/area_data.py`), from which a `NonnegativeFit` for each part learns the cells
that each size takes. Synthesis of a whole machine removes what the parts do not use of each other:
`data/wholes_<family>.json` has some, and ratios of groups of parts, learned from their totals,
correct the sums.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources as package_data
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.codesign.hardware.nonnegative import NonnegativeFit
from daedal.codesign.hardware.parts import (
    TABLE_PART,
    Geometry,
    built_parts,
    known_amounts,
    lanes_of,
    option_amounts,
    sizes_of,
    table_amounts,
)
from daedal.common.errors import ExploreError
from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.families import RESOURCES, Family
from daedal.isa.variant import Variant

__all__ = ["LEARNED", "AreaModel", "PartModel", "Row", "area_model", "read_rows"]

Reals = npt.NDArray[np.float64]
Resources = Mapping[str, float]
Row = tuple[Variant, Mapping[str, Resources]]
"""A variant, and the resources of some of its parts."""

LEARNED = ("lut", "ff")
"""What `sizes_of` has sizes for, in its order."""

_LEAST_ROWS = 4
"""Rows of a part that were made of today's gateware; with fewer, stale ones count too."""

_DATAPATH = ("gemm", "alu", "accumulators", "inp")
"""Parts with a ratio of a whole machine's cells to those alone in common.

Each alone would say little: what lies between two parts is counted in either of them. The others,
which control them, have a ratio in common, too; it depends on the counters, which they serve.
"""

_TOLD = 0.02
"""What machines tell of ratios counts if it is at least this share of what they tell best."""


@dataclass(frozen=True)
class PartModel:
    """Learns the resources of one part.

    Attributes
    ----------
    fits : of the look-up tables and of the flip-flops.
    per_lane : the ALU's multipliers: of itself, and of each kind of lane; None for other parts.
    others : block RAM and multipliers, by the width of the bus and what `known_amounts` says.
    exact : whether they are what `known_amounts` says, where it says something, as on ECP5.
    """

    fits: Mapping[str, NonnegativeFit]
    per_lane: Reals | None
    others: Mapping[str, NonnegativeFit]
    exact: bool

    @classmethod
    def fit(
        cls, name: str, rows: Sequence[tuple[Variant, Resources]], exact: bool = True
    ) -> "PartModel":
        """From a part of some variants."""
        variants = [variant for variant, _ in rows]
        sizes = _sizes(name, [Geometry(variant) for variant in variants])
        fits = {
            resource: NonnegativeFit.fit(sizes[place], _amounts(rows, resource))
            for place, resource in enumerate(LEARNED)
        }
        known = [known_amounts(name, variant) for variant in variants]
        others = {
            resource: NonnegativeFit.fit(_hard(variants, known, resource), _amounts(rows, resource))
            for resource in RESOURCES
            if resource not in LEARNED and any(used[resource] for _, used in rows)
        }
        if name != "alu":
            return cls(fits, None, others, exact)
        lanes = np.array([lanes_of(variant) for variant in variants])
        multipliers = np.array([used["dsp"] for _, used in rows])
        return cls(fits, np.linalg.lstsq(lanes, multipliers, rcond=None)[0], others, exact)

    def __call__(
        self, name: str, variants: Sequence[Variant], geometries: Sequence[Geometry]
    ) -> dict[str, Reals]:
        """Resources of the part in each variant, alone."""
        sizes = _sizes(name, geometries)
        found = {resource: np.zeros(len(variants)) for resource in RESOURCES}
        for place, resource in enumerate(LEARNED):
            found[resource] = self.fits[resource].predict(sizes[place])
        known = [known_amounts(name, variant) for variant in variants]
        for resource, fit in self.others.items():
            if not self.exact or resource not in known[0]:
                found[resource] = fit.predict(_hard(variants, known, resource))
        if self.per_lane is not None:
            found["dsp"] = np.array([lanes_of(variant) for variant in variants]) @ self.per_lane
        for resource in known[0] if self.exact else ():
            found[resource] = np.array([exact[resource] for exact in known])
        return found


def _sizes(name: str, geometries: Sequence[Geometry]) -> list[Reals]:
    made = [sizes_of(name, geometry) for geometry in geometries]
    return [np.array([item[place] for item in made], np.float64) for place in range(len(LEARNED))]


def _hard(variants: Sequence[Variant], known: Sequence[Resources], resource: str) -> Reals:
    """What the hard blocks of a part are sums of."""
    return np.array(
        [
            [1.0, variant.bus.data_bits, amounts.get(resource, 0.0)]
            for variant, amounts in zip(variants, known, strict=True)
        ]
    )


def _amounts(rows: Sequence[tuple[Variant, Resources]], resource: str) -> Reals:
    return np.array([used[resource] for _, used in rows], np.float64)


@dataclass(frozen=True)
class AreaModel:
    """Made by `fit`.

    Attributes
    ----------
    parts : a model of each part.
    ratios : of a whole machine's resources to those of its parts alone, by resource: of the
        datapath, and of all other parts without and with counters.
    deviation : standard deviation of the relative errors by resource, each whole machine left out
        in turn; empty without whole machines.
    """

    family: Family
    parts: Mapping[str, PartModel]
    ratios: Mapping[str, tuple[float, float, float]]
    deviation: Resources

    @classmethod
    def fit(cls, family: Family, parts: Sequence[Row], wholes: Sequence[Row] = ()) -> "AreaModel":
        """From parts of some variants, and other variants as a whole."""
        grouped: dict[str, list[tuple[Variant, Resources]]] = {}
        for variant, found in parts:
            for name, used in found.items():
                grouped.setdefault(name, []).append((variant, used))
        exact = family is Family.ECP5
        fitted = {name: PartModel.fit(name, rows, exact) for name, rows in sorted(grouped.items())}
        sums = cls(family, fitted, dict.fromkeys(RESOURCES, (1.0, 1.0, 1.0)), {})
        if not wholes:
            return sums
        variants = [variant for variant, _ in wholes]
        composed = sums.by_parts(variants)
        ratios, deviation = {}, {}
        for resource in RESOURCES:
            alone = np.array(
                [
                    _by_group(variant, each, resource)
                    for variant, each in zip(variants, composed, strict=True)
                ]
            )
            totals = np.array([found[TOP_MODULE][resource] for _, found in wholes], np.float64)
            ratios[resource] = _ratios(alone, totals)
            deviation[resource] = _left_out(alone, totals)
        return cls(family, fitted, ratios, deviation)

    def __call__(self, variants: Sequence[Variant]) -> list[dict[str, float]]:
        """Resources of each variant."""
        return [
            {name: sum(used[name] for used in parts.values()) for name in RESOURCES}
            for parts in self.by_parts(variants)
        ]

    def by_part(self, variant: Variant) -> dict[str, dict[str, float]]:
        """Resources of each part; they sum to those of the variant."""
        (parts,) = self.by_parts([variant])
        return parts

    def by_parts(self, variants: Sequence[Variant]) -> list[dict[str, dict[str, float]]]:
        """Resources of the parts of each variant."""
        found: list[dict[str, dict[str, float]]] = [{} for _ in variants]
        geometries = [Geometry(variant) for variant in variants]
        groups: dict[str, list[int]] = {}
        for row, variant in enumerate(variants):
            for name in built_parts(variant):
                groups.setdefault(name, []).append(row)
        for row in groups.pop(TABLE_PART, []):
            found[row][TABLE_PART] = table_amounts(variants[row], self.family)
        for name, rows in groups.items():
            chosen = [variants[row] for row in rows], [geometries[row] for row in rows]
            groups_of = [_group(variant, name) for variant in chosen[0]]
            amounts = {
                resource: (np.array(self.ratios[resource])[groups_of] * amount).tolist()
                for resource, amount in self.parts[name](name, *chosen).items()
            }
            for place, row in enumerate(rows):
                found[row][name] = {resource: each[place] for resource, each in amounts.items()}
        for variant, each_part in zip(variants, found, strict=True):
            for part, amounts in option_amounts(variant, self.family).items():
                for resource, amount in amounts.items():
                    each_part[part][resource] += amount
        return found


def _group(variant: Variant, part: str) -> int:
    """Place in `AreaModel.ratios`."""
    return 0 if part in _DATAPATH else 1 + variant.units.counters


def _by_group(variant: Variant, parts: Mapping[str, Resources], resource: str) -> list[float]:
    """The sum of each group."""
    found = [0.0, 0.0, 0.0]
    for name, used in parts.items():
        found[_group(variant, name)] += used[resource]
    return found


def _ratios(alone: Reals, totals: Reals) -> tuple[float, float, float]:
    """Of each group, those with the least relative errors of the machines' totals.

    A ratio that the machines do not tell stays close to 1, and those with and without counters
    close to each other.
    """
    some = totals > 0
    if not some.any():
        return 1.0, 1.0, 1.0
    datapath, without, counting = alone[some].T
    shares = np.stack([datapath, without + counting, without]) / totals[some]
    change, *_ = np.linalg.lstsq(shares.T, 1 - shares[:2].sum(axis=0), rcond=_TOLD)
    first, rest, less = change.tolist()
    return 1 + first, 1 + rest + less, 1 + rest


def _left_out(alone: Reals, totals: Reals) -> float:
    errors = []
    for row in range(len(totals)) if len(totals) > 1 else ():
        others = np.arange(len(totals)) != row
        if totals[row] > 0:
            predicted = float(alone[row] @ np.array(_ratios(alone[others], totals[others])))
            errors.append(predicted / totals[row] - 1)
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else 0.0


@cache
def area_model(family: Family) -> AreaModel:
    """The model of the data that comes with Daedal. Raises ExploreError where there is none."""
    parts = read_rows("parts", family)
    if not parts:
        raise ExploreError(
            f"areas are known of family ecp5, not of {family.value}; choose --fpga ecp5-85f"
        )
    return AreaModel.fit(family, parts, read_rows("wholes", family))


def read_rows(kind: str, family: Family) -> list[Row]:
    """The ``parts`` or the ``wholes`` of the synthesized variants of a family.

    A whole machine is the part `TOP_MODULE`; the others are what it takes of each.

    Those that ``bench/codesign/area_data.py --check`` marked as stale are left out, as long as
    enough of the same part remain.
    """
    path = package_data.files("daedal.codesign.hardware") / "data" / f"{kind}_{family.value}.json"
    if not path.is_file():
        return []
    rows: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    fresh: dict[str, int] = {}
    for row in rows.values():
        for name, used in row["parts"].items():
            fresh[name] = fresh.get(name, 0) + (not used.get("stale", False))
    found: list[Row] = []
    for number, row in rows.items():
        values = {key: value for part in row["variant"].values() for key, value in part.items()}
        parts = {
            name: used
            for name, used in row["parts"].items()
            if not used.get("stale", False) or fresh[name] < _LEAST_ROWS
        }
        for used in list(parts.values()):  # those of a whole machine, its own logic apart
            units = used.get("parts", {})
            parts |= {name: units[name] for name in units if name != TOP_MODULE}
        if parts:
            found.append((Variant(f"{family.value}-{number}").replace(None, **values), parts))
    return found
