"""`Problem`: what the searches that are compared are for, and their evaluations.

ResNet-18 and MobileNet v1 of the zoo on an ECP5-85F, objectives latency and area. Evaluations are
kept in ``.daedal/codesign``.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.codesign.cycles.counting import Network, counters
from daedal.codesign.cycles.roofline import RooflineCycles
from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.clock import clock_model
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.front_search import Goal
from daedal.codesign.search.objectives import Limit, Objective
from daedal.codesign.search.pareto import hypervolume
from daedal.codesign.search.variant_space import Point, VariantSpace
from daedal.common.files import make_folder
from daedal.compiler.version import compiler_version
from daedal.hw.synth.families import Family
from daedal.isa.variant import Variant, load_variant

__all__ = ["FAMILY", "FOLDER", "UNBUILT", "Evaluate", "Problem"]

CHOSEN = ("resnet18", "mobilenet_v1")
FAMILY = Family.ECP5
OBJECTIVES = (Objective.latency, Objective.area)
MARGIN = 4.0
"""The limits, and the reference of the hypervolume, are so many times the default's objectives."""
MOST_AREA = 100.0
FOLDER = Path(__file__).resolve().parents[2] / ".daedal" / "codesign"
UNBUILT = (50.0, 50.0)
"""Logarithms of the objectives of what is no variant or does not compile."""

Evaluate = Callable[[Sequence[Point]], list[Evaluation | None]]


class Problem:
    """Evaluates points, each once in whatever run.

    Parameters
    ----------
    usual : whether estimates are those of the compiler's default schedules.
    other : a problem of the same networks, whose graphs are taken over.
    """

    def __init__(
        self,
        space: VariantSpace,
        step: Step,
        workers: int,
        *,
        usual: bool = False,
        other: "Problem | None" = None,
    ) -> None:
        self.space = space
        self._step = step
        self._usual = usual
        if other is None:
            self.models = {name: quantized(NETWORKS[name]) for name in CHOSEN}
            self.analytic = {name: AnalyticCycles(model) for name, model in self.models.items()}
            base = load_variant("vta")
            self.roofline = {name: RooflineCycles(m, base) for name, m in self.models.items()}
        else:
            self.models, self.analytic, self.roofline = other.models, other.analytic, other.roofline
        networks = {name: Network(model) for name, model in self.models.items()}
        self._counters = counters(networks, "ddr", workers)
        self._count = self._counters.__enter__() if step is Step.counted else None
        make_folder(FOLDER)
        digest = hashlib.sha256(b"".join(self.models.values())).hexdigest()[:8]
        self.key = f"{'usual' if usual else step.value}-{compiler_version()}-{digest}"
        self._path = FOLDER / f"{self.key}.jsonl"
        self._known: dict[str, list[float] | None] = {}
        self._keys: dict[Point, str] = {}
        if self._path.is_file():
            for line in self._path.read_text().splitlines():
                key, cycles = json.loads(line)
                self._known[key] = cycles
        self.default = _point(space, load_variant("ecp5_half"))
        (known,) = self.evaluate([self.default])
        assert known is not None
        latency, area = (MARGIN * known.value(objective) for objective in OBJECTIVES)
        limits = Limit(Objective.latency, latency), Limit(Objective.area, min(area, MOST_AREA))
        self.goal = Goal(OBJECTIVES, limits)
        self.reference = np.log([limit.most for limit in limits])

    def volume(self, points: Sequence[Point]) -> float:
        """The hypervolume of the points and the default."""
        return hypervolume(self.objectives([self.default, *points]), self.reference)

    def evaluate(self, points: Sequence[Point]) -> list[Evaluation | None]:
        """The evaluation of each point at the problem's step."""
        missing = [point for point in points if self._key(point) not in self._known]
        if self._count is not None and missing:
            variants = [self._variant(point) for point in missing]
            for number, counts in self._count(variants):
                self._keep(missing[number], counts and list(counts.cycles.values()))
        elif missing:
            for point in missing:
                variant = self._variant(point)
                found = [item(variant, usual=self._usual) for item in self.analytic.values()]
                self._keep(point, found if np.isfinite(found).all() else None)
        return self._composed(points, [self._known[self._key(point)] for point in points])

    def cheap(self, points: Sequence[Point]) -> list[Evaluation | None]:
        """Evaluations by the step below the problem's."""
        step = self.analytic if self._step is Step.counted else self.roofline
        found: list[list[float] | None] = []
        for point in points:
            cycles = [estimate(self._variant(point)) for estimate in step.values()]
            found.append(cycles if np.isfinite(cycles).all() else None)
        return self._composed(points, found)

    def objectives(self, points: Sequence[Point]) -> np.ndarray:
        """Logarithms of the objectives; infinite for what does not compile or keep the limits."""
        rows = [
            [np.inf] * len(OBJECTIVES) if item is None else np.log(self.goal.values(item))
            for item in self.evaluate(points)
        ]
        return np.array(rows, dtype=np.float64).reshape(-1, len(OBJECTIVES))

    def excess(
        self, points: Sequence[Point], evaluate: Evaluate | None = None
    ) -> npt.NDArray[np.float64]:
        """Logarithms of the objectives, and of how far each is beyond its limit; `evaluate` is
        `self.evaluate` or `self.cheap`."""
        rows = [
            [*UNBUILT, *UNBUILT]
            if item is None or item.mhz <= 0
            else [*(logs := np.log([item.value(name) for name in OBJECTIVES])),
                  *(logs - self.reference)]
            for item in (evaluate or self.evaluate)(points)
        ]  # fmt: skip
        return np.minimum(np.array(rows, dtype=np.float64).reshape(-1, 4), 50.0)

    def _variant(self, point: Point) -> Any:
        variant = self.space.variant(point)
        assert variant is not None
        return variant

    def _key(self, point: Point) -> str:
        if point not in self._keys:
            # The style of multipliers changes no cycle.
            variant = self._variant(point).replace(multiplier_style="lut")
            self._keys[point] = str(variant.fingerprint)
        return self._keys[point]

    def _keep(self, point: Point, cycles: list[float] | None) -> None:
        key = self._key(point)
        self._known[key] = cycles
        with self._path.open("a") as file:
            file.write(json.dumps([key, cycles]) + "\n")

    def _composed(
        self, points: Sequence[Point], cycles: Sequence[list[float] | None]
    ) -> list[Evaluation | None]:
        variants = [self._variant(point) for point in points]
        areas = area_model(FAMILY)(variants)
        clocks = clock_model(FAMILY)(variants, areas)
        return [
            None
            if counts is None
            else Evaluation(
                variant, FAMILY, self._step, dict(zip(CHOSEN, counts, strict=True)), area, clock.mhz
            )
            for variant, area, clock, counts in zip(variants, areas, clocks, cycles, strict=True)
        ]


def _point(space: VariantSpace, variant: Variant) -> Point:
    """The point of a variant, or the nearest of the space where it has other values."""
    found = space.point(variant)
    assert found is not None, f"{variant.name} is not in the space"
    return found
