"""`FrontSearch`: which variants to compile next, so that the Pareto front grows most.

Two steps of fidelity work together. Estimates (`AnalyticCycles`, `AreaModel`) cost milliseconds: an
evolution around the front so far makes thousands of them. Of these, the variants from which most
hypervolume is expected are compiled and counted. What counting finds corrects the estimates that
follow: the ratio of both is learned over the parameters, with its uncertainty, and so is what does
not compile. Objectives are compared by their logarithms: a tenth less is worth the same everywhere.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daedal.codesign.hardware.regression import Regression
from daedal.codesign.search.evaluation import Evaluation
from daedal.codesign.search.objectives import Limit, Objective
from daedal.codesign.search.pareto import Objectives, front, gains
from daedal.codesign.search.variant_space import Point, VariantSpace

__all__ = ["FrontSearch", "Goal"]

_BREEDING = 48
"""Points that one generation adds."""
_LEAST_ROWS = 6
"""Counted variants from which the correction is learned; below, it is their mean."""
_SHIFT = 0.05
"""How far beyond the worst front point the reference of the hypervolume lies, in logarithms, for
objectives without a limit."""
_QUANTILES = (-1.28, -0.52, 0.0, 0.52, 1.28)
"""Of a normal distribution, in standard deviations: the middles of five equal parts."""
_MOST_ERRORS = 3.0
"""Uncertainty that counts at most, in leave-one-out errors."""
_CHUNK = 1024
"""Points that are predicted at once."""
_LEAST = 1e-6
"""Of a measure that is zero, such as multipliers of a machine that makes them of look-up tables."""
_GROWTH = 1.25
"""Of the rows since length and noise of a regression were chosen; then they are chosen again."""
_FAR = 3.0
"""Standard deviations between the first and the last value of a parameter."""
_CAUTION = 3.0
"""Power of the chance to compile: what is expected of a variant that does not compile is never
refuted, and would be tried again and again."""


@dataclass(frozen=True)
class Goal:
    """What a search is for.

    Attributes
    ----------
    objectives : to minimize.
    limits : to keep.
    usable : limits of the device; one of `limits` for the same resource replaces it.
    """

    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...] = ()
    usable: tuple[Limit, ...] = (Limit(Objective.area, 100.0),)

    @property
    def measures(self) -> set[str]:
        """What `values` depends on."""
        return {*self.objectives, *(limit.measure for limit in self.all_limits)}

    @property
    def all_limits(self) -> tuple[Limit, ...]:
        """What every result keeps."""
        given = {limit.measure for limit in self.limits}
        return (*self.limits, *(limit for limit in self.usable if limit.measure not in given))

    @property
    def most(self) -> dict[str, float]:
        """The largest value of each measure that has a limit."""
        found: dict[str, float] = {}
        for limit in self.all_limits:
            found[limit.measure] = min(limit.most, found.get(limit.measure, np.inf))
        return found

    def values(self, evaluation: Evaluation) -> list[float]:
        """The objectives; infinite where a limit is not kept."""
        if not evaluation.within(self.all_limits):
            return [np.inf] * len(self.objectives)
        return [evaluation.value(objective) for objective in self.objectives]


@dataclass
class FrontSearch:
    """Ask with `propose`, tell with `record`; deterministic for a seed.

    Attributes
    ----------
    estimate : evaluations of points in order; None where a network does not fit a variant.
    start : points of the first generation; the others of it are random.
    generations : how often the estimates breed for each proposal.
    counted : by point, what was recorded; None where the compiler refused.
    """

    space: VariantSpace
    goal: Goal
    estimate: Callable[[Sequence[Point]], list[Evaluation | None]]
    start: Sequence[Point] = ()
    seed: int = 0
    generations: int = 6
    counted: dict[Point, Evaluation | None] = field(default_factory=dict)
    estimated: dict[Point, Evaluation | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        others = sorted(self.goal.measures - {Objective.latency})
        self._axes: tuple[str, ...] = (Objective.latency, *others)
        self._points: list[Point] = []
        self._logs: list[list[float]] = []
        self._correction = _Learned(0.0)
        self._chance = _Learned(1.0)

    def record(self, found: Mapping[Point, Evaluation | None]) -> None:
        """What counting found."""
        self.counted.update(found)

    def propose(self, count: int) -> list[Point]:
        """Points to count next, the most promising first; fewer where the space is exhausted."""
        self._learn()
        for _ in range(self.generations):
            self._breed()
        fresh = np.array(
            [n for n, point in enumerate(self._points) if point not in self.counted], dtype=np.int64
        )
        if not len(fresh):
            return []
        mean = self._expected()
        current = self._objectives(list(self.counted))
        reference = self._reference(np.vstack([current, self._kept(mean)]))
        # Others add nothing even if they are far better than expected.
        best = self._kept(mean[fresh], _QUANTILES[0] * self._correction.most)
        hopeful = fresh[gains(best, current, reference) > 0]
        deviation = self._correction.uncertainty(self._points, hopeful)
        chance = np.clip(self._chance(self._points)[hopeful], 0.0, 1.0) ** _CAUTION
        chosen: list[int] = []
        while len(chosen) < count and len(hopeful):
            several = [self._kept(mean[hopeful], q * deviation) for q in _QUANTILES]
            added = chance * np.mean([gains(v, current, reference) for v in several], axis=0)
            added[np.isin(hopeful, chosen)] = -1.0
            best_number = int(np.argmax(added))
            if added[best_number] <= 0:
                break
            chosen.append(int(hopeful[best_number]))
            current = np.vstack([current, self._kept(mean[chosen[-1:]])])
        # Where nothing is expected to add anything: what misses the limits least.
        others = fresh[~np.isin(fresh, chosen)]
        order = np.argsort(self._excess(mean[others]), kind="stable")
        chosen += others[order][: count - len(chosen)].tolist()
        return [self._points[number] for number in chosen]

    def front(self) -> list[Evaluation]:
        """The counted front, by the first objective."""
        points = list(self.counted)
        found = [self.counted[points[number]] for number in front(self._objectives(points))]
        return [item for item in found if item is not None]

    def _objectives(self, points: Sequence[Point]) -> Objectives:
        """Logarithms of what was counted; infinite where a limit is not kept."""
        rows = [
            [np.inf] * len(self.goal.objectives)
            if (item := self.counted[point]) is None
            else self.goal.values(item)
            for point in points
        ]
        return np.log(np.array(rows, dtype=np.float64).reshape(-1, len(self.goal.objectives)))

    def _expected(self) -> Objectives:
        """Logarithms of all measures of each estimated point; counted variants that are similar
        correct the latency."""
        logs = np.array(self._logs, dtype=np.float64).reshape(-1, len(self._axes))
        logs[:, 0] += self._correction(self._points)
        return logs

    def _kept(self, logs: Objectives, shift: npt.NDArray[np.float64] | float = 0.0) -> Objectives:
        """The objectives of points, with latencies shifted; infinite where a limit is not kept."""
        logs = logs.copy()
        logs[:, 0] += shift
        values = logs[:, [self._axes.index(objective) for objective in self.goal.objectives]]
        kept: npt.NDArray[np.bool_] = np.all(logs <= self._limits, axis=1, keepdims=True)
        return np.where(kept, values, np.inf)

    @property
    def _limits(self) -> npt.NDArray[np.float64]:
        most = self.goal.most
        return np.log([most.get(measure, np.inf) for measure in self._axes])

    def _excess(self, logs: Objectives) -> npt.NDArray[np.float64]:
        """How far each point misses the limits."""
        found: npt.NDArray[np.float64] = np.maximum(logs - self._limits, 0.0).max(axis=1)
        return found

    def _learn(self) -> None:
        """From the counted points: the logarithm of counted over estimated latency, and what
        compiles."""
        points, ratios = [], []
        for point, item in self.counted.items():
            estimated = self.estimated.get(point)
            if item is not None and estimated is not None:
                points.append(point)
                latency = item.value(Objective.latency)
                ratios.append(math.log(latency / estimated.value(Objective.latency)))
        self._correction = _Learned.of(points, ratios, 0.0, self._correction)
        compiles = [float(item is not None) for item in self.counted.values()]
        counted = list(self.counted)
        if any(compiles) or not counted:
            self._chance = _Learned.of(counted, compiles, 1.0, self._chance)
        else:
            self._chance = _Learned(1.0, _Unlike(_features(counted), self.space.lengths))

    def _reference(self, values: Objectives) -> Objectives:
        """The limits, and for other objectives beyond the worst of the finite fronts."""
        number = front(values)
        worst: Objectives = values[number if len(number) else slice(None)].max(axis=0)
        most = self.goal.most
        limits = [
            np.log(most[objective]) if objective in most else np.inf
            for objective in self.goal.objectives
        ]
        return np.where(np.isfinite(limits), limits, worst + _SHIFT)

    def _breed(self) -> None:
        """Estimate a generation of new points: around the front, at first random ones."""
        parents = self._parents()
        fresh: dict[Point, None] = {} if self.estimated else dict.fromkeys(self.start)
        for _ in range(20 * _BREEDING):
            if len(fresh) == _BREEDING:
                break
            child = self._child(parents) if parents else self.space.draw(self._rng)
            if child not in self.estimated and self.space.variant(child) is not None:
                fresh[child] = None
        if fresh:
            found = self.estimate(list(fresh))
            self.estimated.update(zip(fresh, found, strict=True))
            for point, item in zip(fresh, found, strict=True):
                if item is not None:
                    self._points.append(point)
                    self._logs.append(self._logs_of(item))

    def _logs_of(self, item: Evaluation) -> list[float]:
        """Logarithms of all measures. A machine many times the device may have no clock."""
        latency = math.log(item.value(Objective.latency)) if item.mhz > 0 else math.inf
        others = [math.log(max(item.value(measure), _LEAST)) for measure in self._axes[1:]]
        return [latency, *others]

    def _parents(self) -> list[Point]:
        """The points of the corrected front, of those that are likely to compile."""
        if not self._points:
            return []
        mean = self._expected()
        values = self._kept(mean)
        if not np.isfinite(values).any():
            return [self._points[int(np.argmin(self._excess(mean)))]]
        likely = np.where((self._chance(self._points) >= 0.5)[:, None], values, np.inf)
        if np.isfinite(likely).any():
            values = likely
        return [self._points[number] for number in front(values)]

    def _child(self, parents: Sequence[Point]) -> Point:
        """A parent, sometimes crossed with another, with one to three parameters changed."""
        rng = self._rng
        child = list(parents[int(rng.integers(len(parents)))])
        if rng.random() < 0.3:  # uniform crossover
            other = parents[int(rng.integers(len(parents)))]
            child = [b if rng.random() < 0.5 else a for a, b in zip(child, other, strict=True)]
        for _ in range(rng.integers(1, 4)):
            axis = int(rng.integers(len(child)))
            length = self.space.lengths[axis]
            if rng.random() < 0.8:  # to a neighbouring value
                step = 1 if rng.random() < 0.5 else -1
                child[axis] = min(max(child[axis] + step, 0), length - 1)
            else:
                child[axis] = int(rng.integers(length))
        return tuple(child)


class _Unlike:
    """The chance of points to compile where none did: the greater, the farther they are away."""

    def __init__(self, failed: Objectives, lengths: Sequence[int]) -> None:
        self._failed = failed
        self._lengths = np.maximum(np.array(lengths) - 1, 1) / _FAR

    def predict(self, features: Objectives) -> npt.NDArray[np.float64]:
        """For each row, a prior of one that compiles against those like it that did not."""
        apart = (features[:, None] - self._failed[None]) / self._lengths
        alike = np.exp(-(apart**2).sum(axis=2) / 2).sum(axis=1)
        chance: npt.NDArray[np.float64] = 1 / (1 + alike)
        return chance


class _Learned:
    """A number of points, learned from some of them; predicted once for each.

    Parameters
    ----------
    mean : of all points without a `model`.
    rows : from which length and noise of a regression were chosen.
    """

    def __init__(
        self, mean: float, model: "Regression | _Unlike | None" = None, rows: int = 0
    ) -> None:
        self._mean = mean
        self._model = model
        self._rows = rows
        self._known = np.zeros(0)

    @classmethod
    def of(
        cls,
        points: Sequence[Point],
        numbers: Sequence[float],
        otherwise: float,
        before: "_Learned",
    ) -> "_Learned":
        """From points with known numbers; `otherwise` where there are none.

        `before` was learned from the first of them.
        """
        if len(points) < _LEAST_ROWS or np.ptp(numbers) == 0:
            return cls(float(np.mean(numbers)) if len(numbers) else otherwise)
        features, targets = _features(points), np.array(numbers)
        if isinstance(before._model, Regression) and len(points) < _GROWTH * before._rows:
            return cls(0.0, Regression.fit(features, targets, before._model), before._rows)
        return cls(0.0, Regression.fit(features, targets), len(points))

    def __call__(self, points: Sequence[Point]) -> npt.NDArray[np.float64]:
        """The numbers of points; the first ones are those of the last call."""
        if self._model is None:
            return np.full(len(points), self._mean)
        parts = [self._known]
        for begin in range(len(self._known), len(points), _CHUNK):
            parts.append(self._model.predict(_features(points[begin : begin + _CHUNK])))
        self._known = np.concatenate(parts)
        return self._known

    @property
    def most(self) -> float:
        """Standard deviation that counts at most."""
        return _MOST_ERRORS * self._model.deviation if isinstance(self._model, Regression) else 0.0

    def uncertainty(
        self, points: Sequence[Point], numbers: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float64]:
        """The standard deviation of some points."""
        if not isinstance(self._model, Regression) or not len(numbers):
            return np.zeros(len(numbers))
        parts = [
            self._model.uncertainty(_features([points[number] for number in part]))
            for part in np.array_split(numbers, -(-len(numbers) // _CHUNK))
        ]
        return np.minimum(np.concatenate(parts), self.most)


def _features(points: Sequence[Point]) -> Objectives:
    return np.array(points, dtype=np.float64).reshape(len(points), -1)
