"""The known optima of `bench.tuning.workloads`, on the cycle model, kept in a table:

    python bench/tuning/truth.py [--only NAME ...] [--trials N] [--drawn N] [--seconds S]

Configurations are measured in the order of their estimates until the proved lower bounds of all
others exclude them, or the budget is spent; the table says which. Everything measured goes to a
database, so that an interrupted run continues. Records of another compiler are noticed: the best
known configuration is measured again first, and where its cycles differ, all records of its
workload are left out. The best one of the table is measured again, too, so that no refresh forgets
it. What `bench.tuning.optima` added to a row stays.

With ``--drawn``, so many configurations of each workload are also drawn uniformly from its whole
space, and built, verified, run and compared with the integer reference. The largest programs
take a minute each. With ``--trials 0``, nothing else is measured: a row keeps its optimum, and has
a new number of programs and of draws. With ``--inside``, so many are drawn from those that the
bounds do not exclude from being within 1 % of the optimum.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np

from bench.tuning.searches.exhaustive import Optimum, find_optimum
from bench.tuning.searches.tuner import Trial
from bench.tuning.workloads import WORKLOADS, TuningWorkload
from daedal.common.files import make_folder, write_atomically
from daedal.compiler.ops.accelerator.layer_space import LayerSpace
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.cost_model import Reals
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import Record
from daedal.compiler.version import compiler_version
from daedal.isa.memory_model import PRESETS
from daedal.tuning.accelerator import TARGET

__all__ = ["MEMORY", "NEAR", "RECORDS", "TABLE", "Cache", "inside", "load_truth"]

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("truth.json")
RECORDS = ROOT / ".daedal" / "tuning_truth.db"
MEMORY = "ddr"
NEAR = 1.01
"""A configuration is near the optimum if its cycles are at most so many times the optimum's."""


class Cache:
    """Measures configurations of one workload, each once, in whatever run.

    Records go to `database`; those of `given` are known, too.
    """

    def __init__(
        self, workload: TuningWorkload, database: Database, given: Database | None = None
    ) -> None:
        self._workload = workload
        self._database = database
        self._checked = False
        runner = workload.runner
        setting = (runner.workload, workload.variant.fingerprint, MEMORY, TARGET)
        space = workload.space
        assert space is not None
        fitting = set(space.enumerate())

        def recorded(source: Database) -> dict[Config, int | None]:
            found = source.measured(*setting).items()
            complete = {space.complete(config): cycles for config, cycles in found}
            return {config: cycles for config, cycles in complete.items() if config in fitting}

        self.given: dict[Config, int | None] = recorded(given) if given is not None else {}
        self.known: dict[Config, int | None] = {**recorded(database), **self.given}

    def check(self) -> bool:
        """Measure the best one known again; forget all if it takes other cycles."""
        measured = {config: cycles for config, cycles in self.known.items() if cycles is not None}
        if measured:
            best = min(measured, key=lambda config: measured[config])
            found = self._workload.runner.measure(best)
            if found != measured[best]:
                self.known.clear()
        return bool(self.known) or not measured

    def __call__(self, configs: Sequence[Config]) -> list[int | None]:
        """Cycles of each configuration."""
        for config in configs:
            if config not in self.known:
                self.add([config], [self._workload.runner.measure(config)])
        return [self.known[config] for config in configs]

    def add(self, configs: Sequence[Config], cycles: Sequence[int | None]) -> None:
        """Keep what was measured elsewhere."""
        found = dict(zip(configs, cycles, strict=True))
        self.known |= found
        self._database.add(self._record(config, value) for config, value in found.items())

    def _record(self, config: Config, cycles: int | None) -> Record:
        workload = self._workload
        return Record(
            workload.runner.workload,
            workload.variant.fingerprint,
            MEMORY,
            TARGET,
            config,
            cycles,
            kit=self._database.kit,
        )


def drawn(space: LayerSpace, count: int, seed: int = 0) -> list[Config]:
    """Different configurations, drawn uniformly from all."""
    return space.sample(np.random.default_rng(seed), count)


def redrawn(workload: TuningWorkload, row: dict[str, Any], num_drawn: int) -> dict[str, Any]:
    """`row` with the size of the space of today, and new draws; its optimum must be in it.

    What a draw that is not right says is printed.
    """
    space = workload.space
    assert space is not None
    held = space.table([Config.from_json(row[name]) for name in ("config", "default")])
    assert space.fits(held).all(), f"the optimum of {workload.name} left its space"
    right = 0
    configs = drawn(space, num_drawn)
    for config in configs:
        begin = time.monotonic()
        (result,) = workload.runner.results([config])
        right += result.cycles is not None
        if result.cycles is None:
            print(f"  {config}: {result.failure}: {result.reason}", flush=True)
        print(f"  {config}: {result.cycles} cycles, {time.monotonic() - begin:.1f} s", flush=True)
    programs = len(space.configs(space.all()))
    return {**row, "programs": programs, "drawn": len(configs), "drawn_right": right}


def inside(
    space: LayerSpace, bounds: Reals, most: float, count: int, seed: int = 1
) -> list[Config]:
    """The first `count` of a random order of the configurations with bounds up to `most`.

    The order does not depend on `most`: measuring them estimates how many are near the optimum.
    """
    order = np.random.default_rng(seed).permutation(len(bounds))
    rows = order[bounds[order] <= most][:count]
    return space.configs({knob: column[rows] for knob, column in space.all().items()})


def load_truth(path: Path = TABLE) -> dict[str, Any]:
    """The table: its rows by workload; empty if there is none."""
    if not path.is_file():
        return {}
    rows: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return rows


def find(
    workload: TuningWorkload,
    database: Database,
    trials: int,
    num_drawn: int = 0,
    num_inside: int = 0,
    known: Sequence[Config] = (),
) -> dict[str, Any]:
    """The row of one workload; `known` are configurations that were good before."""
    space = workload.space
    assert space is not None
    cache = Cache(workload, database)
    cache.check()
    fitting = set(space.enumerate()) if known else set()
    best_before = [space.complete(config) for config in known]
    cache([space.default, *(config for config in best_before if config in fitting)])
    right = [cycles is not None for cycles in cache(drawn(space, num_drawn))]
    bounds = bounds_of(space)
    best = min(cycles for cycles in cache.known.values() if cycles is not None)
    cache(inside(space, bounds, NEAR * best, num_inside))

    def say(done: list[Trial]) -> None:
        (trial,) = done
        print(f"  {trial.cycles} (best {trial.best_cycles}) {trial.config}", flush=True)

    found = find_optimum(space, cache, bounds, trials=trials, known=cache.known, report=say)
    default = cache.known[space.default]
    return {**row_of(workload, found, default), "drawn": len(right), "drawn_right": sum(right)}


def bounds_of(space: LayerSpace) -> Reals:
    """The proved lower bound of each configuration."""
    return space.bound(space.all(), PRESETS[MEMORY])


def row_of(workload: TuningWorkload, found: Optimum, default: int | None) -> dict[str, Any]:
    """What the table keeps."""
    space = workload.space
    assert space is not None
    return {
        "workload": workload.runner.workload.key,
        "fingerprint": workload.variant.fingerprint,
        "compiler": compiler_version(),
        "memory": MEMORY,
        "programs": len(space.configs(space.all())),
        "config": found.config.to_json(),
        "cycles": found.cycles,
        "default": space.default.to_json(),
        "default_cycles": default,
        "measured": found.measured,
        "excluded": found.excluded,
        "certified": found.certified,
        "limit": found.limit,
    }


def main() -> int:
    """Find the optima, and write the table after each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=sorted(WORKLOADS), metavar="NAME")
    parser.add_argument("--trials", type=int, default=60, metavar="N")
    parser.add_argument("--drawn", type=int, default=0, metavar="N")
    parser.add_argument("--inside", type=int, default=0, metavar="N")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="S")
    options = parser.parse_args()
    make_folder(RECORDS.parent)
    begin = time.monotonic()
    rows = load_truth()
    with Database(RECORDS) as database:
        for name in options.only or WORKLOADS:
            workload = WORKLOADS[name]
            if time.monotonic() - begin > options.seconds:
                break
            if workload.space is None:
                print(f"{name}: no space", flush=True)
                continue
            known = [Config.from_json(rows[name]["config"])] if name in rows else []
            if options.trials == 0 and known:
                row = redrawn(workload, rows[name], options.drawn)
            else:
                row = find(workload, database, options.trials, options.drawn, options.inside, known)
            rows[name] = row = {**rows.get(name, {}), **row}
            text = json.dumps(dict(sorted(rows.items())), indent=1) + "\n"
            write_atomically(TABLE, text)
            above = row["default_cycles"] / row["cycles"] - 1
            gap = row["cycles"] / row["limit"] - 1 if row["limit"] else float("inf")
            print(
                f"{name}: {row['cycles']} cycles, {row['programs']} programs, "
                f"default {above:.2%} above, optimum at most {gap:.2%} below, "
                f"{row['measured']} measured, {row['drawn_right']} of {row['drawn']} drawn right",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
