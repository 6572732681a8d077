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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.codesign.baselines import (
    SETTINGS,
    Method,
    Setting,
    nsga2,
    nsga2_informed,
    random_draws,
)
from bench.codesign.problem import FAMILY, FOLDER, Problem
from bench.json_file import write_json
from daedal.codesign.cycles.counting import count_network
from daedal.codesign.hardware.area import area_model
from daedal.codesign.search.evaluation import Step
from daedal.codesign.search.front_search import FrontSearch
from daedal.codesign.search.pareto import front
from daedal.codesign.search.variant_space import DEFAULT_PARAMETERS, Point, VariantSpace
from daedal.isa.variant import load_variant

ROOT = Path(__file__).resolve().parents[2]
TUNING_SEEDS = (1000, 1001)
"""Of the runs by which the baseline's settings are chosen."""
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


def ours(problem: Problem, count: int, seed: int) -> list[Point]:
    """`FrontSearch`, two variants at a time."""
    search = FrontSearch(problem.space, problem.goal, problem.cheap, seed=seed)
    while len(search.counted) < count:
        points = search.propose(min(2, count - len(search.counted)))
        search.record(dict(zip(points, problem.evaluate(points), strict=True)))
    return list(search.counted)


class Runs:
    """Finished runs: the hypervolume of each."""

    def __init__(self, problem: Problem, count: int) -> None:
        self._problem, self._count = problem, count
        names = hashlib.sha256(repr(problem.space.parameters).encode()).hexdigest()[:8]
        own = (f"bench/codesign/{name}.py" for name in ("searches", "problem", "baselines"))
        sources = _sources("daedal/codesign", *own)
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
    write_json(options.json, found)
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
    apart = Problem(problem.space, Step.estimated, 1, usual=True, other=problem)
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
