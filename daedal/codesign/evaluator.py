"""`Evaluator`: from points of a space to evaluations, for one set of networks and one family."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from daedal.codesign.analytic import AnalyticCycles
from daedal.codesign.area import area_model
from daedal.codesign.clock import Clock, clock_model
from daedal.codesign.counting import Counter
from daedal.codesign.evaluation import Evaluation, Step
from daedal.codesign.prediction import Prediction, parameter_steps
from daedal.codesign.variant_space import Point, VariantSpace
from daedal.hw.synth.families import Family
from daedal.isa.variant import Variant

__all__ = ["Evaluator"]


class Evaluator:
    """Evaluates points of `space`.

    Parameters
    ----------
    models : the networks, serialized, by name.
    mhz : a clock for all variants, instead of the learned one.
    """

    def __init__(
        self,
        space: VariantSpace,
        models: Mapping[str, bytes],
        family: Family,
        *,
        mhz: float | None = None,
    ) -> None:
        self._space = space
        self._family = family
        self._mhz = mhz
        self._networks = {name: AnalyticCycles(model) for name, model in models.items()}

    def estimate(self, points: Sequence[Point]) -> list[Evaluation | None]:
        """The estimated evaluation of each point; None where a network does not fit."""
        found: list[Evaluation | None] = []
        for base in self._composed(points):
            cycles = {name: network(base.variant) for name, network in self._networks.items()}
            fits = np.isfinite(list(cycles.values())).all()
            found.append(replace(base, cycles=cycles) if fits else None)
        return found

    def count(
        self, points: Sequence[Point], counter: Counter
    ) -> Iterator[tuple[Point, Evaluation | None]]:
        """Each point with its counted evaluation, as soon as it is known."""
        bases = self._composed(points)
        for number, cycles in counter([base.variant for base in bases]):
            base = bases[number]
            made = None
            if cycles is not None:
                counted = {name: float(count) for name, count in cycles.items()}
                made = replace(base, step=Step.counted, cycles=counted)
            yield points[number], made

    def predict(self, item: Evaluation) -> Prediction:
        """The estimates of a variant of the space in detail."""
        (clock,) = self.clocks([item.variant], [item.resources])
        point = self._space.point(item.variant)
        steps = () if point is None else parameter_steps(self._space, self.estimate, point)
        return Prediction(clock, area_model(self._family).by_part(item.variant), tuple(steps))

    def clocks(
        self, variants: Sequence[Variant], resources: Sequence[Mapping[str, float]]
    ) -> list[Clock]:
        """The clock of each variant."""
        if self._mhz is not None:
            return [Clock(self._mhz, self._mhz, self._mhz)] * len(variants)
        return clock_model(self._family)(variants, resources)

    def _composed(self, points: Sequence[Point]) -> list[Evaluation]:
        """Area and clock of each point; no cycles yet."""
        variants = []
        for point in points:
            variant = self._space.variant(point)
            assert variant is not None, "only points that are variants are evaluated"
            variants.append(variant)
        areas = area_model(self._family)(variants)
        clocks = self.clocks(variants, areas)
        return [
            Evaluation(variant, self._family, Step.estimated, {}, area, clock.mhz)
            for variant, area, clock in zip(variants, areas, clocks, strict=True)
        ]
