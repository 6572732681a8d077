"""The search for variants against others, with equal evaluations.

    python bench/codesign/searches.py [--step counted|estimated] [--evaluations N] [--seeds K]
        [--json FILE]
    python bench/codesign/searches.py --enumerated | --joint | --rates [...]

ResNet-18 and MobileNet v1 of the zoo on an ECP5-85F, objectives latency and area. Methods: ours
(`daedal.codesign.search.front_search`), NSGA-II of pymoo with the best of `SETTINGS` (found with
other seeds, of equal evaluations each), NSGA-II on as many free estimates as ours makes, of which
the best points are evaluated, and random draws. An evaluation is a variant compiled and counted, or
with `--step estimated` one whose layers' cycles are estimated; then ours, and NSGA-II on free
estimates, have only rooflines to choose by. The hypervolume is in logarithms of the objectives, up
to `MARGIN` times those of the default, the hand-made `ecp5_half`; all methods know these limits.
Gains are over it.

`--enumerated` compares with the whole front of a sub-space, by the analytic step. `--joint`
compares a search by the least estimates of each layer's schedules with one by the compiler's
default schedules whose results get the least ones afterwards.

All methods and seeds share a cache of evaluations in ``.daedal/codesign``, and finished runs are
kept there, too: the same command continues.
"""

import argparse
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.codesign.cycles.analytic import AnalyticCycles
from daedal.codesign.cycles.counting import Network, count_network, counters
from daedal.codesign.cycles.roofline import RooflineCycles
from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.clock import clock_model
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.front_search import FrontSearch, Goal
from daedal.codesign.search.objectives import Limit, Objective
from daedal.codesign.search.pareto import front, hypervolume
from daedal.codesign.search.variant_space import DEFAULT_PARAMETERS, Point, VariantSpace
from daedal.common.files import make_folder
from daedal.compiler.version import compiler_version
from daedal.hw.synth.families import Family
from daedal.isa.variant import Variant, load_variant

ROOT = Path(__file__).resolve().parents[2]
CHOSEN = ("resnet18", "mobilenet_v1")
FAMILY = Family.ECP5
OBJECTIVES = (Objective.latency, Objective.area)
MARGIN = 4.0
"""The limits, and the reference of the hypervolume, are so many times the default's objectives."""
MOST_AREA = 100.0
TUNING_SEEDS = (1000, 1001)
"""Of the runs by which the baseline's settings are chosen."""
FOLDER = ROOT / ".daedal" / "codesign"
UNBUILT = (50.0, 50.0)
"""Logarithms of the objectives of what is no variant or does not compile."""
FEW = 0.02
"""Of the whole sub-space, the share that the search may evaluate."""
CHUNK = 500
RATED, COUNTED = 60, 3
FEW_PARAMETERS = {
    "block_in": (8, 16),
    "block_out": (8, 16),
    "depthwise_taps": (0, 1),
    "multiplier_style": ("packed", "dsp", "lut"),
    "inp_bytes": (8_192, 16_384, 32_768),
    "wgt_bytes": (32_768, 65_536, 131_072),
    "acc_bytes": (32_768, 65_536, 131_072),
    "out_bytes": (4_096, 8_192),
    "acc_banks": (2, 4),
    "alu_lanes": (2, 4, 8),
    "requantize_lanes": (1, 2, 4),
}
"""Of the sub-space that is enumerated whole."""

FREE = 144
"""Free estimates for each evaluation: `ours` breeds 6 generations of 48 for every two."""

Method = Callable[["Problem", int, int], list[Point]]
Evaluate = Callable[[Sequence[Point]], list[Evaluation | None]]
Row = npt.NDArray[np.float64]


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


class Problem:
    """Evaluates points, each once in whatever run.

    Parameters
    ----------
    usual : whether estimates are those of the compiler's default schedules.
    """

    def __init__(
        self, space: VariantSpace, step: Step, workers: int, *, usual: bool = False
    ) -> None:
        self.space = space
        self._step = step
        self._usual = usual
        self.models = {name: quantized(NETWORKS[name]) for name in CHOSEN}
        networks = {name: Network(model) for name, model in self.models.items()}
        self._counters = counters(networks, "ddr", workers)
        self._count = self._counters.__enter__() if step is Step.counted else None
        self.analytic = {name: AnalyticCycles(model) for name, model in self.models.items()}
        base = load_variant("vta")
        self.roofline = {name: RooflineCycles(m, base) for name, m in self.models.items()}
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


def ours(problem: Problem, count: int, seed: int) -> list[Point]:
    """`FrontSearch`, two variants at a time."""
    search = FrontSearch(problem.space, problem.goal, problem.cheap, seed=seed)
    while len(search.counted) < count:
        points = search.propose(min(2, count - len(search.counted)))
        search.record(dict(zip(points, problem.evaluate(points), strict=True)))
    return list(search.counted)


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


class Runs:
    """Finished runs: the hypervolume of each."""

    def __init__(self, problem: Problem, count: int) -> None:
        self._problem, self._count = problem, count
        names = hashlib.sha256(repr(problem.space.parameters).encode()).hexdigest()[:8]
        sources = _sources("daedal/codesign", "bench/codesign/searches.py")
        self._path = FOLDER / f"runs-{problem.key}-{names}-{sources}-{count}.jsonl"
        self._known: dict[str, float] = {}
        if self._path.is_file():
            self._known = dict(map(json.loads, self._path.read_text().splitlines()))

    def __call__(self, name: str, method: Method, seed: int) -> float:
        """The hypervolume that a method reaches."""
        key = f"{name} {seed}"
        if key not in self._known:
            self._known[key] = self._problem.volume(method(self._problem, self._count, seed))
            with self._path.open("a") as file:
                file.write(json.dumps([key, self._known[key]]) + "\n")
        return self._known[key]


def main() -> int:
    """Do what the options ask, print tables and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--step", type=Step, default=Step.counted)
    parser.add_argument("--evaluations", type=int, default=100, metavar="N")
    parser.add_argument("--seeds", type=int, default=10, metavar="K")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--setting", type=int, metavar="I", help="of the baseline; tuned if absent")
    parser.add_argument("--enumerated", action="store_true", help="against a sub-space known whole")
    parser.add_argument("--joint", action="store_true", help="against one after the other")
    parser.add_argument("--rates", action="store_true", help="evaluations a minute, nothing else")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    parameters = FEW_PARAMETERS if options.enumerated else DEFAULT_PARAMETERS
    space = VariantSpace(load_variant("ecp5_half"), parameters)
    step = Step.estimated if options.enumerated or options.joint else options.step
    problem = Problem(space, step, options.workers)
    console = Console()
    if options.rates:
        console.print_json(data=(found := rates(problem)))
    elif options.enumerated:
        found = whole_front(problem, options.seeds, console)
    elif options.joint:
        found = joint(problem, options.evaluations, options.seeds, console)
    else:
        found = compared(problem, options, console)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


def compared(problem: Problem, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Ours, the tuned baseline and random draws, seed by seed."""
    runs = Runs(problem, options.evaluations)
    base = problem.volume([])
    tuned: dict[str, list[float]] = {}

    def best(title: str, make: Callable[[Setting], Method]) -> tuple[str, Method]:
        """A baseline with its best setting, under its title."""
        if options.setting is not None:
            setting = SETTINGS[options.setting]
            return f"{title}, {setting}", make(setting)
        for item in SETTINGS:
            name = f"{title}, {item}"
            found = [runs(name, make(item), seed) for seed in TUNING_SEEDS]
            tuned[name] = [value - base for value in found]
            console.print(f"tuning: {name}: gain {np.mean(found) - base:.3f}")
        setting = max(SETTINGS, key=lambda item: np.mean(tuned[f"{title}, {item}"]))
        return f"{title}, {setting}", make(setting)

    methods = {
        "ours": ours,
        **dict([best("NSGA-II", nsga2), best("NSGA-II on free estimates", nsga2_informed)]),
        "random": random_draws,
    }
    gains: dict[str, list[float]] = {name: [] for name in methods}
    for seed in range(options.seeds):
        for name, method in methods.items():
            gains[name].append(runs(name, method, seed) - base)
        console.print(f"seed {seed}: " + ", ".join(f"{n} {g[-1]:.3f}" for n, g in gains.items()))
    table = Table(
        "method", "gain, mean", "least", "most", "ours / this, means", "of each seed, least"
    )
    for name, found in gains.items():
        each = [mine / other if other > 0 else np.inf for mine, other in zip(
            gains["ours"], found, strict=True)]  # fmt: skip
        ratio = np.mean(gains["ours"]) / np.mean(found) if np.mean(found) > 0 else np.inf
        numbers = (np.mean(found), min(found), max(found), ratio, min(each))
        table.add_row(name, *(f"{number:.3f}" for number in numbers))
    table.title = f"{problem.key.split('-')[0]}, {options.evaluations} evaluations"
    console.print(table)
    return {"evaluations": options.evaluations, "default": base, "tuning": tuned, "gains": gains}


def whole_front(problem: Problem, seeds: int, console: Console) -> dict[str, Any]:
    """Ours against the whole front of the space, after `FEW` of its evaluations."""
    points = [
        point
        for point in itertools.product(*(range(length) for length in problem.space.lengths))
        if problem.space.variant(point) is not None
    ]
    console.print(f"{len(points):,} variants")
    for begin in range(0, len(points), CHUNK):
        problem.evaluate(points[begin : begin + CHUNK])
        print(f"{begin:,} evaluated", file=sys.stderr, flush=True)
    whole = problem.volume(points)
    on_front = len(front(problem.objectives(points)))
    count = int(FEW * len(points))
    runs = Runs(problem, count)
    shares = [runs("ours", ours, seed) / whole for seed in range(seeds)]
    table = Table(
        "variants", "on the front", "evaluations", "share of its hypervolume, mean", "least"
    )
    table.add_row(
        f"{len(points):,}",
        f"{on_front}",
        f"{count}",
        f"{np.mean(shares):.4f}",
        f"{min(shares):.4f}",
    )
    console.print(table)
    return {"variants": len(points), "front": on_front, "evaluations": count, "shares": shares}


def joint(problem: Problem, count: int, seeds: int, console: Console) -> dict[str, Any]:
    """Hardware and schedules searched together, against one after the other."""
    apart = Problem(problem.space, Step.estimated, 1, usual=True)
    base = problem.volume([])
    together = Runs(problem, count)
    gains: dict[str, list[float]] = {"together": [], "one after the other": []}

    def after(_: Problem, evaluations: int, seed: int) -> list[Point]:
        return ours(apart, evaluations, seed)

    for seed in range(seeds):
        gains["together"].append(together("ours", ours, seed) - base)
        gains["one after the other"].append(together("after", after, seed) - base)
        console.print(f"seed {seed}: " + ", ".join(f"{n} {g[-1]:.4f}" for n, g in gains.items()))
    table = Table("search", "gain, mean", "least", "most")
    for name, found in gains.items():
        table.add_row(
            name, *(f"{number:.4f}" for number in (np.mean(found), min(found), max(found)))
        )
    console.print(table)
    return {"evaluations": count, "default": base, "gains": gains}


def rates(problem: Problem) -> dict[str, float]:
    """Variants a minute and core, of processor time, of each step but synthesis: of drawn variants
    that fit, each once. Blocked graphs, one for each array, are made before."""
    drawn = random_draws(problem, RATED, seed=0)
    fitting = [p for p, item in zip(drawn, problem.cheap(drawn), strict=True) if item is not None]
    problem.analytic["resnet18"].forget()
    problem.analytic["mobilenet_v1"].forget()
    found = {}
    variants = [v for p in fitting if (v := problem.space.variant(p)) is not None]
    for name, steps in (("roofline", problem.roofline), ("analytic", problem.analytic)):
        began = time.process_time()
        for variant in variants:
            for estimate in steps.values():
                estimate(variant)
        found[name] = 60 * len(variants) / (time.process_time() - began)
    began = time.process_time()
    area_model(FAMILY)(variants)
    found["area"] = 60 * len(variants) / (time.process_time() - began)
    # Neighbours of a variant that is in use: what a search ends with. A drawn one may be so small
    # that a program has a million instructions.
    near = problem.space.neighbours(problem.default)
    fits = [item.variant for item in problem.cheap(near) if item is not None][:COUNTED]
    began = time.process_time()
    for variant in fits:
        for model in problem.models.values():
            count_network(model, variant, "ddr")
    found["counted"] = 60 * len(fits) / (time.process_time() - began)
    return found


def _point(space: VariantSpace, variant: Variant) -> Point:
    """The point of a variant, or the nearest of the space where it has other values."""
    found = space.point(variant)
    assert found is not None, f"{variant.name} is not in the space"
    return found


def _sources(*paths: str) -> str:
    """Equal as long as the files are."""
    digest = hashlib.sha256()
    for path in paths:
        files = [ROOT / path] if (ROOT / path).is_file() else sorted((ROOT / path).rglob("*.py"))
        for file in files:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


if __name__ == "__main__":
    sys.exit(main())
