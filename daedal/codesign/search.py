"""`FrontSearch`: which variants to compile next, so that the Pareto front grows most.

Two steps of fidelity work together. Estimates (`AnalyticCycles`, `AreaModel`) cost milliseconds: an
evolution around the front so far makes thousands of them. Of these, the variants that would add
most hypervolume are compiled and counted. What counting finds corrects the estimates that follow:
the ratio of both is learned over the parameters.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from daedal.codesign.evaluation import Evaluation
from daedal.codesign.objectives import Limit, Objective
from daedal.codesign.pareto import Objectives, front, hypervolume
from daedal.codesign.regression import Regression
from daedal.codesign.variant_space import Point, VariantSpace

__all__ = ["FrontSearch", "Goal"]

_BREEDING = 48
"""Points that one generation adds."""
_NEAREST = 8
"""Parents where no point keeps the limits."""
_LEAST_ROWS = 6
"""Counted variants from which the correction is learned; below, it is their mean."""
_SHIFT = 0.05
"""How far beyond the worst front point the reference of the hypervolume lies."""


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
    start : points that are estimated first, beside random ones.
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
        self._values: dict[Point, list[float]] = {}
        self._excess: dict[Point, float] = {}
        self._correction: Callable[[Objectives], Objectives] | None = None

    def record(self, found: Mapping[Point, Evaluation | None]) -> None:
        """What counting found."""
        self.counted.update(found)

    def propose(self, count: int) -> list[Point]:
        """Points to count next, the most promising first; fewer where the space is exhausted."""
        self._correction = self._learn()
        for _ in range(self.generations):
            self._breed()
        points = list(self._values)
        if not points:
            return []
        corrected = self._corrected(points)
        known = self._objectives(list(self.counted))
        chosen: list[Point] = []
        fresh = [n for n, point in enumerate(points) if point not in self.counted]
        reference = self._reference(np.vstack([known, corrected]))
        current = known
        for _ in range(min(count, len(fresh))):
            number = _most(corrected, fresh, current, reference)
            chosen.append(points[number])
            current = np.vstack([current, corrected[number : number + 1]])
            fresh.remove(number)
        return chosen

    def front(self) -> list[Evaluation]:
        """The counted front, by the first objective."""
        points = list(self.counted)
        values = self._objectives(points)
        found = [self.counted[points[number]] for number in front(values)]
        return [item for item in found if item is not None]

    def _objectives(self, points: Sequence[Point]) -> Objectives:
        """What was counted."""
        rows = [
            [np.inf] * len(self.goal.objectives)
            if (item := self.counted[point]) is None
            else self.goal.values(item)
            for point in points
        ]
        return np.array(rows, dtype=np.float64).reshape(-1, len(self.goal.objectives))

    def _corrected(self, points: Sequence[Point]) -> Objectives:
        """Estimated objectives of points, times what counting found on similar variants."""
        rows = [self._values[point] for point in points]
        values = np.array(rows, dtype=np.float64).reshape(-1, len(self.goal.objectives))
        if self._correction is not None and Objective.latency in self.goal.objectives:
            axis = self.goal.objectives.index(Objective.latency)
            values[:, axis] *= np.exp(self._correction(_features(points)))
        return values

    def _learn(self) -> Callable[[Objectives], Objectives] | None:
        """Predicts the logarithm of counted over estimated latency; None where nothing is known."""
        both = [
            (point, item, estimated)
            for point, item in self.counted.items()
            if item is not None and (estimated := self.estimated.get(point)) is not None
        ]
        if not both:
            return None
        ratios = np.array(
            [
                np.log(item.value(Objective.latency) / estimated.value(Objective.latency))
                for _, item, estimated in both
            ]
        )
        if len(both) < _LEAST_ROWS:
            mean = float(ratios.mean())
            return lambda features: np.full(len(features), mean)
        return Regression.fit(_features([point for point, _, _ in both]), ratios).predict

    def _reference(self, values: Objectives) -> Objectives:
        """Beyond the worst of the finite fronts."""
        number = front(values)
        worst: Objectives = values[number if len(number) else slice(None)].max(axis=0)
        return worst * (1 + _SHIFT)

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
            self._values.update(
                (point, self.goal.values(item))
                for point, item in zip(fresh, found, strict=True)
                if item is not None
            )
            self._excess.update(
                (point, item.excess(self.goal.limits))
                for point, item in zip(fresh, found, strict=True)
                if item is not None
            )

    def _parents(self) -> list[Point]:
        """The points of the corrected front, or those nearest to the limits where none keeps them
        (Deb's constrained domination, 2002)."""
        points = list(self._values)
        if all(self._excess.values()):
            return sorted(points, key=self._excess.__getitem__)[:_NEAREST]
        return [points[number] for number in front(self._corrected(points))]

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


def _features(points: Sequence[Point]) -> Objectives:
    return np.array(points, dtype=np.float64).reshape(len(points), -1)


def _most(
    values: Objectives, numbers: Sequence[int], current: Objectives, reference: Objectives
) -> int:
    """The number whose values add most hypervolume to `current`."""
    base = hypervolume(current, reference)
    best, gain = numbers[0], -1.0
    # Points that the others dominate add less than these.
    allowed = np.array(numbers)
    candidates = allowed[front(values[allowed])] if len(allowed) else allowed
    for number in candidates:
        joined = np.vstack([current, values[number : number + 1]])
        added = hypervolume(joined, reference) - base
        if added > gain:
            best, gain = int(number), added
    return best
