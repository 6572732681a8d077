"""Baselines in the comparison of searches: NSGA-II with and without free estimates, random draws.

NSGA-II is pymoo's. Each method takes a problem, a number of evaluations and a seed, and gives the
points that it evaluated.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bench.codesign.problem import UNBUILT, Evaluate, Problem
from daedal.codesign.search.variant_space import Point

__all__ = ["SETTINGS", "Method", "Setting", "nsga2", "nsga2_informed", "random_draws"]

Method = Callable[[Problem, int, int], list[Point]]
Row = npt.NDArray[np.float64]

FREE = 144
"""Free estimates for each evaluation: `ours` breeds 6 generations of 48 for every two."""


class Setting(NamedTuple):
    """Of NSGA-II: population, distribution index of crossover and mutation, and how many parameters
    a mutation changes on average."""

    population: int
    eta: float
    changes: float

    def __str__(self) -> str:
        return f"population {self.population}, eta {self.eta:g}, {self.changes:g} mutations"


SETTINGS = tuple(
    Setting(population, eta, changes)
    for population in (8, 16, 32)
    for eta, changes in ((3.0, 1.0), (15.0, 1.0), (3.0, 3.0))
)


def random_draws(problem: Problem, count: int, seed: int) -> list[Point]:
    """Uniform over the variants of the space."""
    rng, found = np.random.default_rng(seed), dict[Point, None]()
    while len(found) < count:
        found[problem.space.draw(rng)] = None
    return list(found)


def nsga2(setting: Setting) -> Method:
    """NSGA-II (Deb et al., 2002) of pymoo on the indices of values, with the limits as constraints;
    points that are no variants cost no evaluation and are worse than any other."""

    def run(problem: Problem, count: int, seed: int) -> list[Point]:
        return list(_evolved(setting, problem, problem.evaluate, count, seed, 100 * count))

    return run


def nsga2_informed(setting: Setting) -> Method:
    """NSGA-II on the estimates of the step below, which cost nothing, as many as `ours` makes; then
    the best of all their points are evaluated, front by front."""

    def run(problem: Problem, count: int, seed: int) -> list[Point]:
        from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

        free = FREE * count
        rounds = 4 * free // setting.population
        found = _evolved(setting, problem, problem.cheap, free, seed, rounds)
        points, rows = list(found), np.array(list(found.values()))
        outside = rows[:, 2:].max(axis=1, keepdims=True) > 0
        rng, chosen = np.random.default_rng(seed), list[Point]()
        for members in NonDominatedSorting().do(np.where(outside, UNBUILT, rows[:, :2])):
            chosen += [points[number] for number in rng.permutation(members)]
            if len(chosen) >= count:
                break
        return chosen[:count]

    return run


def _evolved(
    setting: Setting, problem: Problem, evaluate: Evaluate, count: int, seed: int, rounds: int
) -> dict[Point, Row]:
    """The points that NSGA-II asks for, with their `Problem.excess`, until there are `count` or so
    many rounds are over."""
    from pymoo.algorithms.moo.nsga2 import NSGA2
    from pymoo.core.evaluator import Evaluator
    from pymoo.core.problem import Problem as PymooProblem
    from pymoo.core.termination import NoTermination
    from pymoo.operators.crossover.sbx import SBX
    from pymoo.operators.mutation.pm import PM
    from pymoo.operators.repair.rounding import RoundingRepair
    from pymoo.problems.static import StaticProblem

    lengths = problem.space.lengths
    shape = PymooProblem(
        n_var=len(lengths), n_obj=2, n_ieq_constr=2, xl=0, xu=np.array(lengths) - 1, vtype=int
    )
    share = min(1.0, setting.changes / len(lengths))
    repair = RoundingRepair()
    algorithm = NSGA2(
        pop_size=setting.population,
        sampling=np.array(random_draws(problem, setting.population, seed)),
        crossover=SBX(prob=0.9, eta=setting.eta, vtype=float, repair=repair),
        mutation=PM(prob=1.0, prob_var=share, eta=setting.eta, vtype=float, repair=repair),
        eliminate_duplicates=True,
    )
    algorithm.setup(shape, termination=NoTermination(), seed=seed, verbose=False)
    found: dict[Point, Row] = {}
    for _ in range(rounds):
        asked = algorithm.ask()
        points = [tuple(int(value) for value in row) for row in asked.get("X")]
        built = [point for point in points if problem.space.variant(point) is not None]
        fresh = [point for point in dict.fromkeys(built) if point not in found]
        fresh = fresh[: count - len(found)]
        found.update(zip(fresh, problem.excess(fresh, evaluate), strict=True))
        rows = np.array([found.get(point, np.array([*UNBUILT, *UNBUILT])) for point in points])
        Evaluator().eval(StaticProblem(shape, F=rows[:, :2], G=rows[:, 2:]), asked)
        algorithm.tell(infills=asked)
        if len(found) == count:
            break
    return found
