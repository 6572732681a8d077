"""Searches the optima in the table of `bench.tuning.truth` as far as can be afforded:

    python bench/tuning/optima.py [--only NAME ...] [--workers N]

A space of up to 3,000 programs is searched whole. In a larger one, 3,000 are drawn uniformly, and
the 500 with the lowest estimates are taken, too. What a proved lower bound excludes from being
better than the best one known is not measured. The row of a workload gets the best configuration,
and, in ``searched``, with which compiler and how far its space was searched: what was measured,
what the bounds exclude, and whether that is everything (``certified``).

What is measured here goes to a database of its own, from which an interrupted run continues: it
teaches nothing to the models of `bench.tuning.tuner`.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np
import numpy.typing as npt

from bench.tuning.searches.exhaustive import find_optimum
from bench.tuning.searches.tuner import Trial
from bench.tuning.truth import RECORDS, TABLE, Cache, bounds_of, load_truth
from bench.tuning.workloads import WORKLOADS
from daedal.common.files import make_folder, write_atomically
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.candidates import Candidates
from daedal.compiler.tune.database import Database
from daedal.compiler.version import compiler_version

__all__ = ["main"]

OPTIMA = RECORDS.with_name("tuning_optima.db")
WHOLE = 3000
"""Spaces of so many programs are searched whole."""
NUM_DRAWN, NUM_ESTIMATED = 3000, 500
SEED = 2
BATCH = 16
"""Configurations that are measured before the bounds exclude more."""


def wanted(candidates: Candidates) -> npt.NDArray[np.bool_]:
    """By rows: what is to be measured or excluded."""
    count = len(candidates)
    if count <= WHOLE:
        return np.ones(count, dtype=bool)
    chosen = np.zeros(count, dtype=bool)
    chosen[np.random.default_rng(SEED).permutation(count)[:NUM_DRAWN]] = True
    chosen[np.argsort(candidates.estimates, kind="stable")[:NUM_ESTIMATED]] = True
    return chosen


def measured(name: str, config: Config) -> int | None:
    """Cycles of a configuration of the workload `name`; in another process."""
    return WORKLOADS[name].runner.measure(config)


def search(
    name: str, row: dict[str, Any], database: Database, processes: ProcessPoolExecutor
) -> dict[str, Any]:
    """`row` of the workload `name` with the best one found, and how far its space was searched."""
    workload = WORKLOADS[name]
    space = workload.space
    assert space is not None
    cache = Cache(workload, database)
    cache.check()
    known = space.complete(Config.from_json(row["config"]))
    cache([space.default, *([known] if known in set(space.enumerate()) else [])])
    begin = time.monotonic()

    def measure(configs: Sequence[Config]) -> list[int | None]:
        new = [config for config in configs if config not in cache.known]
        cache.add(new, list(processes.map(measured, [name] * len(new), new)))
        return cache(configs)

    def say(done: list[Trial]) -> None:
        took = time.monotonic() - begin
        print(f"  {len(cache.known)} known, best {done[-1].best_cycles}, {took:.0f} s", flush=True)

    candidates, bounds = Candidates(space), bounds_of(space)
    chosen = wanted(candidates)
    find_optimum(
        space,
        measure,
        np.where(chosen, bounds, np.inf),
        trials=len(candidates),
        known=cache.known,
        report=say,
        batch=BATCH,
    )
    found = find_optimum(space, measure, bounds, trials=0, known=cache.known)
    searched = {
        "compiler": compiler_version(),
        "cycles": found.cycles,
        "programs": len(candidates),
        "chosen": int(np.count_nonzero(chosen)),
        "measured": found.measured,
        "excluded": found.excluded,
        "certified": found.certified,
        "limit": found.limit,
    }
    return {**row, "config": found.config.to_json(), "cycles": found.cycles, "searched": searched}


def main() -> int:
    """Search, and write the table after each workload."""
    rows = load_truth()
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=sorted(rows), metavar="NAME")
    parser.add_argument("--workers", type=int, default=2, metavar="N")
    options = parser.parse_args()
    make_folder(OPTIMA.parent)
    with Database(OPTIMA) as database, ProcessPoolExecutor(options.workers) as processes:
        for name in options.only or rows:
            before = rows[name]["cycles"]
            print(f"{name}: {before} cycles so far", flush=True)
            rows[name] = row = search(name, rows[name], database, processes)
            write_atomically(TABLE, json.dumps(dict(sorted(rows.items())), indent=1) + "\n")
            searched = row["searched"]
            print(
                f"{name}: {row['cycles']} cycles ({row['cycles'] / before - 1:+.2%}), "
                f"{searched['programs']} programs, {searched['chosen']} chosen, "
                f"{searched['measured']} measured, {searched['excluded']} excluded, "
                + ("certified" if searched["certified"] else f"limit {searched['limit']:.0f}"),
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
