"""How good the tuner is, against known optima.

    python bench/tuning/tuner.py [--json F] [--curves SVG]

`bench.tuning.truth` finds the optima first; what it measures teaches the transferred model, which
has to see bad schedules, too (``--drawn 10 --inside 8``). Bars:

- zero measurements: the analytic choice above the optimum, median and worst;
- measured candidates until one is within 1 % of the optimum, against uniform draws (their
  exact expectation) and a cold tuner as TVM's (boosted trees that learn ranks, annealing, batches
  of 64). On every workload whose default is more than 3 % above the optimum; and, so that there are
  eight at least, on those whose optimum is known and where uniform draws need the most, with the
  analytic estimate withheld from all methods. Ablations: without transfer, without the estimate,
  without a model;
- an unseen variant: above the optimum after 16 measurements;
- time of a prediction.

The transferred model never saw the layer that it is tested on, on any variant; for the unseen
variant, it never saw the variant. Exit status 1 when a bar is missed.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.tuning.curves import curves_drawing
from bench.tuning.oracle import Oracle
from bench.tuning.searches.annealing import Annealing
from bench.tuning.searches.exhaustive import Exhaustive
from bench.tuning.truth import NEAR, RECORDS, load_truth
from bench.tuning.workloads import WORKLOADS
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.space import Table as Columns
from daedal.compiler.tune.candidates import Rows
from daedal.compiler.tune.cost_model import Boosted, Reals
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.features import seen_by_model
from daedal.compiler.tune.guided import Guided
from daedal.compiler.tune.samples import Samples
from daedal.compiler.tune.search import Search
from daedal.compiler.tune.transfer import Transfer
from daedal.compiler.version import compiler_version

__all__ = ["main"]

MEDIAN_BAR, WORST_BAR = 0.01, 0.05
SPEED_UP_BAR = 10.0
FAR = 0.03
"""A default so far above the optimum is worth tuning."""
NUM_WORKLOADS = 8
KNOWN = 1.1
"""An optimum counts as known if the best one is at most so many times what none undercuts."""

UNSEEN_TRIALS, UNSEEN_BAR = 16, 0.02
PREDICTION_BAR_SECONDS = 1e-4
COLD_BATCH = 64
OWN_BATCH = 2
MOST_TRIALS = 256
RUNS = RECORDS.with_name(f"tuner_runs_{compiler_version().rpartition('+')[2]}.db")
"""What the searches here measured."""
SEEDS = 3

Say = Callable[[str], None]


class BlindSpace(LayerSpace):
    """A space of which a cold tuner sees everything but the analytic estimate."""

    def __init__(self, oracle: Oracle) -> None:
        self._space = oracle.space
        columns = oracle.columns
        self._columns = {name: columns[name] for name in seen_by_model(columns, prior=False)}

    @property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        return self._space.knobs

    def all(self) -> Columns:
        return self._space.all()

    def fits(self, table: Columns) -> npt.NDArray[np.bool_]:
        return self._space.fits(table)

    def cycles(self, table: Columns) -> Reals:
        return np.ones(len(next(iter(table.values()))))

    def features(self, table: Columns) -> dict[str, Reals]:
        """Only of all configurations, in their order."""
        assert len(next(iter(table.values()))) == len(next(iter(self._columns.values())))
        return self._columns


class ColdTuner(Annealing):
    """As TVM's first tuner: a first batch at random, then annealing on ranks that trees learned."""

    def __init__(self, oracle: Oracle, *, seed: int) -> None:
        super().__init__(BlindSpace(oracle), seed=seed, model=Boosted(seed=seed, ranks=True))

    def choose(self, count: int) -> Rows:
        return super().choose(count) if len(self.observed()) else self.draw(count)


def transfer_without(
    oracles: Mapping[str, Oracle], leaves_out: Callable[[str], bool], *, prior: bool, seed: int
) -> Transfer:
    """A model that learned from all workloads but those that are left out."""
    samples = Samples()
    for name, oracle in oracles.items():
        if not leaves_out(name):
            samples.add(name, *oracle.samples())
    return Transfer(samples, seed=seed, prior=prior)


def layer_of(name: str) -> str:
    """The layer of a workload's name."""
    return name.partition("@")[0]


def guided(
    oracles: Mapping[str, Oracle], name: str, *, prior: bool, transfers: bool, seed: int
) -> Search:
    """This kit's search on one workload, with a model that never saw its layer."""

    def leaves_out(other: str) -> bool:
        return not transfers or layer_of(other) == layer_of(name)

    model = transfer_without(oracles, leaves_out, prior=prior, seed=seed)
    oracle = oracles[name]
    return Guided(oracle.space, model.warm(oracle.columns), seed=seed)


def needed(
    oracle: Oracle, make: Callable[[int], Search], *, batch: int, exact: bool, seeds: int = SEEDS
) -> dict[str, Any]:
    """Measured candidates until one is near the optimum, the mean over seeds, and the curves.

    A run that finds none counts with all that it measured.
    """
    curves = [
        oracle.trials(make(seed), batch=batch, most=MOST_TRIALS, exact=exact)
        for seed in range(seeds)
    ]
    best = oracle.best
    return {
        "trials": float(np.mean([len(curve) for curve in curves])),
        "found": sum(curve[-1] <= NEAR * best for curve in curves) / seeds,
        "curves": [[value / best for value in curve] for curve in curves],
    }


def zero_measurements(oracle: Oracle) -> dict[str, Any]:
    """How far the default is above the optimum."""
    default, best, limit = oracle.default_cycles, oracle.best, oracle.limit
    near = oracle.num_near()
    return {
        "programs": len(oracle.candidates),
        "default": default,
        "best": best,
        "limit": limit,
        "above": default / best - 1,
        "above_at_most": default / limit - 1 if limit else None,
        "bound_below": best / oracle.lowest_bound - 1 if oracle.lowest_bound else None,
        "random_trials": list(oracle.random_trials()),
        "near": near,
    }


def measure(oracles: Mapping[str, Oracle], say: Say) -> dict[str, Any]:
    """Everything."""
    zero = {name: zero_measurements(oracle) for name, oracle in oracles.items()}
    far = [name for name, row in zero.items() if row["above"] > FAR]
    bounded = [name for name, row in zero.items() if row["best"] <= KNOWN * row["limit"]]
    others = sorted(set(bounded) - set(far), key=lambda name: -zero[name]["random_trials"][1])
    withheld = others[: max(NUM_WORKLOADS - len(far), NUM_WORKLOADS // 2)]
    rows = {}
    for name in (*far, *withheld):
        prior = name in far
        rows[name] = compare(oracles, name, zero[name]["random_trials"][1], prior=prior)
        say(f"{name}: " + ", ".join(f"{k} {v['trials']:.1f}" for k, v in rows[name].items()))
    unseen = {name: unseen_variant(oracles, name) for name in oracles}
    for name, row in unseen.items():
        say(f"{name}, variant unseen: {row['above']:.2%} above after {UNSEEN_TRIALS}")
    return {
        "zero": zero,
        "search": rows,
        "withheld": withheld,
        "unseen": unseen,
        "prediction_seconds": prediction_seconds(oracles),
    }


def compare(
    oracles: Mapping[str, Oracle], name: str, random: float, *, prior: bool
) -> dict[str, Any]:
    """All methods on one workload."""
    oracle = oracles[name]

    def ours(prior: bool, transfers: bool) -> dict[str, Any]:
        def make(seed: int) -> Search:
            return guided(oracles, name, prior=prior, transfers=transfers, seed=seed)

        # Blind searches propose programs that take minutes each; all of those are told the same
        # about what the bound excludes.
        return needed(oracle, make, batch=OWN_BATCH, exact=prior)

    found = {
        "ours": ours(prior, True),
        "random": {"trials": random, "found": 1.0, "curves": []},
        "cold": needed(
            oracle, lambda seed: ColdTuner(oracle, seed=seed), batch=COLD_BATCH, exact=False
        ),
        "without transfer": ours(prior, False),
    }
    if prior:
        found["without the estimate"] = ours(False, True)
        found["without a model"] = needed(
            oracle,
            lambda seed: Exhaustive(oracle.space, seed=seed),
            batch=1,
            exact=False,
            seeds=1,
        )
    return found


def unseen_variant(oracles: Mapping[str, Oracle], name: str) -> dict[str, Any]:
    """The best of the default and further measurements, with a model that never saw the variant."""
    oracle = oracles[name]
    variant, default = oracle.workload.variant_name, oracle.default_cycles
    if default <= NEAR * oracle.best:
        return {"variant": variant, "above": default / oracle.best - 1, "trials": 1}

    def leaves_out(other: str) -> bool:
        return oracles[other].workload.variant_name == variant or layer_of(other) == layer_of(name)

    model = transfer_without(oracles, leaves_out, prior=True, seed=0)
    search = Guided(oracle.space, model.warm(oracle.columns), seed=0)
    search.observe([oracle.space.default], [default])
    curve = oracle.trials(search, batch=OWN_BATCH, most=UNSEEN_TRIALS - 1, exact=True)
    above = min(default, curve[-1]) / oracle.best - 1
    return {"variant": variant, "above": above, "trials": 1 + len(curve)}


def prediction_seconds(oracles: Mapping[str, Oracle]) -> float:
    """Processor time to predict one candidate of a batch of a thousand, the best of five times."""
    largest = max(oracles.values(), key=lambda oracle: len(oracle.candidates))
    model = transfer_without(oracles, lambda _: False, prior=True, seed=0)
    thousand = {name: column[:1000] for name, column in largest.columns.items()}
    rows = np.arange(1000)
    model.warm(thousand)
    times = []
    for _ in range(5):
        begin = time.process_time()
        model.warm(thousand).predict(rows)
        times.append(time.process_time() - begin)
    return min(times) / 1000


def judge(found: Mapping[str, Any]) -> dict[str, Any]:
    """The figures that have bars, and whether they hold."""
    above = [row["above"] for row in found["zero"].values()]
    ratios = {
        other: [row[other]["trials"] / row["ours"]["trials"] for row in found["search"].values()]
        for other in ("random", "cold")
    }
    speed_ups = {
        other: float(np.exp(np.mean(np.log(values)))) if values else 0.0
        for other, values in ratios.items()
    }
    unseen = max(row["above"] for row in found["unseen"].values())
    figures = {
        "median_above": float(np.median(above)),
        "worst_above": max(above),
        "speed_up": speed_ups,
        "found": {name: row["ours"]["found"] for name, row in found["search"].items()},
        "least_speed_up": {other: min(values, default=0.0) for other, values in ratios.items()},
        "worst_unseen": unseen,
        "prediction_seconds": found["prediction_seconds"],
    }
    figures["bars"] = {
        "zero measurements, median": figures["median_above"] <= MEDIAN_BAR,
        "zero measurements, worst": figures["worst_above"] <= WORST_BAR,
        "measurements against random": speed_ups["random"] >= SPEED_UP_BAR,
        "measurements against a cold tuner": speed_ups["cold"] >= SPEED_UP_BAR,
        "unseen variant": unseen <= UNSEEN_BAR,
        "prediction": found["prediction_seconds"] <= PREDICTION_BAR_SECONDS,
    }
    return figures


def show(console: Console, found: Mapping[str, Any], figures: Mapping[str, Any]) -> None:
    """Tables of everything."""
    table = Table("workload", "programs", "default", "best", "above", "at most", "random needs")
    for name, row in found["zero"].items():
        most = row["above_at_most"]
        low, likely, high = row["random_trials"]
        table.add_row(
            name,
            f"{row['programs']:,}",
            f"{row['default']:,}",
            f"{row['best']:,.0f}",
            f"{row['above']:.2%}",
            "" if most is None else f"{most:.2%}",
            f"{likely:.0f} ({low:.0f} to {high:.0f})",
        )
    console.print(table)
    methods = list(dict.fromkeys(method for row in found["search"].values() for method in row))
    table = Table("measured until within 1 %", "estimate", *methods)
    for name, row in found["search"].items():
        cells = [f"{row[method]['trials']:.1f}" if method in row else "" for method in methods]
        table.add_row(name, "withheld" if name in found["withheld"] else "given", *cells)
    console.print(table)
    for name, holds in figures["bars"].items():
        console.print(f"{name}: {'holds' if holds else 'missed'}")
    console.print({key: value for key, value in figures.items() if key != "bars"})


def _plain(value: Any) -> Any:
    """Plain data from a number of numpy."""
    return value.item()


def main() -> int:
    """Measure, print, and say whether every bar holds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=sorted(WORKLOADS), metavar="NAME")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--curves", type=Path, metavar="SVG")
    options = parser.parse_args()
    console = Console(stderr=True)
    known = load_truth()
    with Database(RECORDS) as truth, Database(RUNS) as runs:
        oracles = {
            name: Oracle(WORKLOADS[name], truth, runs)
            for name in options.only or WORKLOADS
            if name in known
        }
        found = measure(oracles, console.log)
    figures = judge(found)
    show(Console(width=150), found, figures)
    if options.json is not None:
        content = json.dumps({**figures, **found}, indent=1, default=_plain) + "\n"
        options.json.write_text(content, encoding="utf-8")
    if options.curves is not None:
        options.curves.write_text(curves_drawing(found["search"]), encoding="utf-8")
    return int(not all(figures["bars"].values()))


if __name__ == "__main__":
    sys.exit(main())
