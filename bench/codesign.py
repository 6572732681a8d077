"""The search for variants against others, with equal evaluations (yardstick Y19).

    python bench/codesign.py [--step counted|estimated] [--evaluations N] [--seeds K] [--json FILE]

ResNet-18 and MobileNet v1 of the zoo on an ECP5-85F, objectives latency and area. Methods: ours
(`daedal.codesign.search`), NSGA-II of pymoo with the best of some population sizes, and random
draws. An evaluation is a variant compiled and counted, or with `--step estimated` one whose layers'
cycles are estimated; then ours has only rooflines to choose by. All methods and seeds share a cache
of evaluations in ``.daedal/codesign``, so that an interrupted run goes on. The hypervolume is in
logarithms of the objectives, from the default variant `ecp5` times `MARGIN`.
"""

import argparse
import hashlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized
from daedal.codesign.analytic import AnalyticCycles
from daedal.codesign.area import area_model
from daedal.codesign.clock import clock_model
from daedal.codesign.counting import Network, count_network, counters
from daedal.codesign.evaluation import Evaluation, Step
from daedal.codesign.objectives import Objective
from daedal.codesign.pareto import front, hypervolume
from daedal.codesign.roofline import RooflineCycles
from daedal.codesign.search import FrontSearch, Goal
from daedal.codesign.variant_space import DEFAULT_PARAMETERS, Point, VariantSpace
from daedal.compiler.version import compiler_version
from daedal.hw.synth.families import Family
from daedal.isa.files import make_folder
from daedal.isa.variant import load_variant

ROOT = Path(__file__).resolve().parents[1]
CHOSEN = ("resnet18", "mobilenet_v1")
FAMILY = Family.ECP5
GOAL = Goal((Objective.latency, Objective.area))
MARGIN = 4.0
"""The reference of the hypervolume is so many times the default's objectives."""
POPULATIONS = (8, 16, 32)
RATED, COUNTED = 60, 3
FEW_PARAMETERS = {
    "block_in": (8, 16, 32),
    "block_out": (8, 16, 32),
    "depthwise_taps": (0, 1, 3),
    "multiplier_style": ("packed", "lut"),
    "inp_bytes": (4_096, 16_384, 65_536),
    "wgt_bytes": (16_384, 65_536, 131_072),
    "acc_bytes": (16_384, 65_536, 131_072),
    "out_bytes": (4_096, 16_384),
    "data_bits": (64, 128),
    "alu_lanes": (2, 4, 8),
    "requantize_lanes": (1, 2, 4, 8),
}
"""Of the sub-space that is enumerated whole."""

Method = Callable[["Problem", int, int], list[Point]]


class Problem:
    """Evaluates points, each once in whatever run."""

    def __init__(self, space: VariantSpace, step: Step, workers: int) -> None:
        self.space = space
        self._step = step
        self.models = {name: quantized(NETWORKS[name]) for name in CHOSEN}
        networks = {name: Network(model) for name, model in self.models.items()}
        self._counters = counters(networks, "ddr", workers)
        self._count = self._counters.__enter__() if step is Step.counted else None
        self.analytic = {name: AnalyticCycles(model) for name, model in self.models.items()}
        base = load_variant("vta")
        self.roofline = {name: RooflineCycles(m, base) for name, m in self.models.items()}
        make_folder(ROOT / ".daedal" / "codesign")
        digest = hashlib.sha256(b"".join(self.models.values())).hexdigest()[:8]
        name = f"{step.value}-{compiler_version()}-{digest}.jsonl"
        self._path = ROOT / ".daedal" / "codesign" / name
        self._known: dict[str, list[float] | None] = {}
        if self._path.is_file():
            for line in self._path.read_text().splitlines():
                key, cycles = json.loads(line)
                self._known[key] = cycles

    def evaluate(self, points: Sequence[Point]) -> list[Evaluation | None]:
        """The evaluation of each point at the problem's step."""
        missing = [point for point in points if self._key(point) not in self._known]
        if self._count is not None and missing:
            variants = [self._variant(point) for point in missing]
            for number, counts in self._count(variants):
                self._keep(missing[number], counts and list(counts.cycles.values()))
        elif missing:
            for point in missing:
                found = [estimate(self._variant(point)) for estimate in self.analytic.values()]
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
        """Logarithms of the objectives; infinite for what does not compile."""
        rows = [
            [np.inf] * 2 if item is None else np.log(GOAL.values(item))
            for item in self.evaluate(points)
        ]
        return np.array(rows, dtype=np.float64).reshape(-1, 2)

    def _variant(self, point: Point) -> Any:
        variant = self.space.variant(point)
        assert variant is not None
        return variant

    def _key(self, point: Point) -> str:
        return str(self._variant(point).fingerprint)

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
    search = FrontSearch(problem.space, GOAL, problem.cheap, seed=seed)
    while len(search.counted) < count:
        points = search.propose(2)
        search.record(dict(zip(points, problem.evaluate(points), strict=True)))
    return list(search.counted)


def random_draws(problem: Problem, count: int, seed: int) -> list[Point]:
    """Uniform over the variants of the space."""
    rng, found = np.random.default_rng(seed), dict[Point, None]()
    while len(found) < count:
        found[problem.space.draw(rng)] = None
    return list(found)


def nsga2(population: int) -> Method:
    """NSGA-II (Deb et al., 2002) of pymoo on the indices of values; points that are no variants
    cost no evaluation and are as bad as those that do not compile."""

    def run(problem: Problem, count: int, seed: int) -> list[Point]:
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
            n_var=len(lengths), n_obj=2, n_constr=0, xl=0, xu=np.array(lengths) - 1, vtype=int
        )
        start = np.array(random_draws(problem, population, seed))
        algorithm = NSGA2(
            pop_size=population,
            sampling=start,
            crossover=SBX(prob=0.9, eta=3.0, vtype=float, repair=RoundingRepair()),
            mutation=PM(prob=1.0, eta=3.0, vtype=float, repair=RoundingRepair()),
            eliminate_duplicates=True,
        )
        algorithm.setup(shape, termination=NoTermination(), seed=seed, verbose=False)
        found: dict[Point, None] = {}
        for _ in range(100 * count):
            asked = algorithm.ask()
            points = [tuple(int(value) for value in row) for row in asked.get("X")]
            built = [point for point in points if problem.space.variant(point) is not None]
            fresh = [point for point in dict.fromkeys(built) if point not in found]
            fresh = fresh[: count - len(found)]
            found.update(dict.fromkeys(fresh))
            known = [point for point in built if point in found]
            values = dict(zip(known, problem.objectives(known), strict=True))
            worst = np.array([50.0, 50.0])
            rows = [np.minimum(values.get(point, worst), worst) for point in points]
            Evaluator().eval(StaticProblem(shape, F=np.array(rows)), asked)
            algorithm.tell(infills=asked)
            if len(found) == count:
                break
        return list(found)

    return run


def main() -> int:
    """Run all methods and seeds, print the table and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--step", type=Step, default=Step.counted)
    parser.add_argument("--evaluations", type=int, default=100, metavar="N")
    parser.add_argument("--seeds", type=int, default=10, metavar="K")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--enumerated", action="store_true", help="the sub-space, known whole")
    parser.add_argument("--rates", action="store_true", help="evaluations a minute, nothing else")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    parameters = FEW_PARAMETERS if options.enumerated else DEFAULT_PARAMETERS
    space = VariantSpace(load_variant("ecp5"), parameters)
    problem = Problem(space, options.step, options.workers)
    if options.rates:
        print(json.dumps(rates(problem), indent=1))
        return 0
    default = space.point(load_variant("ecp5"))
    assert default is not None
    reference = problem.objectives([default])[0] + np.log(MARGIN)
    base = hypervolume(problem.objectives([default]), reference)
    rows: dict[str, Any] = {"default": base}
    methods: dict[str, Method] = {"ours": ours, "random": random_draws}
    methods |= {f"nsga2 of {size}": nsga2(size) for size in POPULATIONS}
    console = Console()
    if options.enumerated:
        rows["optimum"] = enumerated(problem, reference)
        console.print(f"optimum {rows['optimum']:.4f}")
    for name, method in methods.items():
        found = []
        for seed in range(options.seeds):
            points = method(problem, options.evaluations, seed)
            found.append(hypervolume(problem.objectives([default, *points]), reference))
            rows[name] = found
            if options.json:
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
        console.print(f"{name}: {np.mean(found):.4f} ({min(found):.4f} to {max(found):.4f})")
    show(console, rows, base)
    return 0


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
    default = problem.space.point(load_variant("ecp5"))
    assert default is not None
    near = problem.space.neighbours(default)[:COUNTED]
    began = time.process_time()
    for variant in [v for p in near if (v := problem.space.variant(p)) is not None]:
        for model in problem.models.values():
            count_network(model, variant, "ddr")
    found["counted"] = 60 * COUNTED / (time.process_time() - began)
    return found


def enumerated(problem: Problem, reference: np.ndarray) -> float:
    """The hypervolume of all points of the space."""
    points = [
        point
        for point in itertools.product(*(range(length) for length in problem.space.lengths))
        if problem.space.variant(point) is not None
    ]
    Console(stderr=True).print(f"{len(points):,} variants")
    values = problem.objectives(points)
    Console(stderr=True).print(f"{len(front(values))} on the front")
    return hypervolume(values, reference)


def show(console: Console, rows: dict[str, Any], base: float) -> None:
    """Hypervolumes, and the gains over the default relative to ours."""
    table = Table("method", "hypervolume", "gain over the default", "ours / this, gains")
    mine = np.mean(rows["ours"]) - base
    for name, found in rows.items():
        if isinstance(found, list):
            gain = np.mean(found) - base
            ratio = f"{mine / gain:.2f}" if gain > 0 else "-"
            table.add_row(name, f"{np.mean(found):.4f}", f"{gain:.4f}", ratio)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
