"""Kernels of processors: what tuning can save, and how soon each search finds it.

    python bench/tuning/kernels.py [--only NAME ...] [--json F]

All schedules of the kernels of `bench.processors.cpu_operators` are timed on this machine, one
thread, as `daedal tune --target cpu` times them; the best eight of each kernel twice more, of which
the median counts. Then searches are replayed on these times. Each knows the default. What they know
of other kernels is from other operators alone: models, and sequences of primitives
(`bench.tuning.searches.sequences`). Counted is the share of what the best schedules save, by
logarithms.

Times are kept in a file for each compiler and processor, so that an interrupted run continues.
"""

import argparse
import hashlib
import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

# Run as a script, Python looks for modules in the script's folder, not in the repository's.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.processors.cpu_operators import operators
from bench.tuning.searches.random_search import Random
from bench.tuning.searches.sequences import Mixed, Sequenced, Timed, mined
from daedal.common.files import make_folder
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.cost_model import Columns, Reals
from daedal.compiler.tune.guided import Guided
from daedal.compiler.tune.samples import Samples
from daedal.compiler.tune.search import NumberedSearch
from daedal.compiler.tune.transfer import Transfer
from daedal.compiler.version import compiler_version
from daedal.tuning.cpu import CpuTuning, processor_place
from daedal.tuning.runner import Runner
from daedal.tuning.stopwatch import ChildStopwatch
from daedal.tuning.target import Kind

__all__ = ["main"]

KEPT = Path(__file__).resolve().parents[2] / ".daedal" / "kernel_times"
BATCH = 16
AGAIN = 8
"""Schedules that are timed again."""
LEAST = 8
"""Schedules of a kernel that is searched."""
COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""Measurements after the default's."""
SEEDS = 3


@dataclass(frozen=True)
class Kernel(Timed):
    """With the features of all its schedules."""

    columns: Columns = field(repr=False)

    def sample(self, samples: Samples) -> None:
        """Teach the times of all schedules."""
        times = np.array([self.times[item] for item in self.configs], np.float64)
        samples.add(f"{self.operator} {id(self)}", self.columns, times)

    @property
    def configs(self) -> list[Config]:
        """By rows."""
        return self.space.configs(self.space.all())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, replay and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    console = Console()
    kernels = measured(options.only, console)
    shares = replayed(kernels)
    gains = {
        kernel.operator: kernel.default / kernel.best
        for kernel in sorted(kernels, key=lambda item: item.default / item.best)
    }
    console.print(_table(shares))
    mean = statistics.geometric_mean(kernel.default / kernel.best for kernel in kernels)
    console.print(f"{len(kernels)} kernels: the best schedules are {mean:.3f} times as fast")
    found = {"shares": shares, "gains": gains, "sequences": [*map(dict, mined(kernels))]}
    write_json(options.json, found)
    return 0


def measured(only: Sequence[str] | None, console: Console) -> list[Kernel]:
    """The kernels with several schedules, and the times of all of these."""
    make_folder(KEPT)
    place = processor_place()
    key = hashlib.sha256(f"{compiler_version()} {place.fingerprint}".encode()).hexdigest()
    path = KEPT / f"{key[:16]}.json"
    known: dict[str, list[tuple[dict[str, int], int]]] = {}
    if path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
    found = []
    with ChildStopwatch() as stopwatch:
        for operator in operators():
            if only and operator.name not in only:
                continue
            for kind in CpuTuning(operator.model, stopwatch).kinds():
                if len(kind.space.configs(kind.space.all())) < LEAST:
                    continue
                if kind.workload.key not in known:
                    times = _timed(kind, f"{operator.name}, {kind.layers[0]}", console)
                    known[kind.workload.key] = [(item.to_json(), n) for item, n in times.items()]
                    path.write_text(json.dumps(known), encoding="utf-8")
                times = {Config.from_json(item): n for item, n in known[kind.workload.key]}
                columns = kind.columns(kind.space.all())
                found.append(Kernel(operator.name, kind.space, times, columns))
    return found


def _timed(kind: Kind, title: str, console: Console) -> dict[Config, int]:
    """Nanoseconds of all schedules of a kernel."""
    runner, default = kind.runner(None), kind.space.default
    configs = [item for item in kind.space.configs(kind.space.all()) if item != default]
    times: dict[Config, int] = {}
    batches = [configs[at : at + BATCH] for at in range(0, len(configs), BATCH)]
    for batch in track(batches, title, console=console):
        times.update(_times(runner, default, batch))
    best = sorted(times, key=lambda item: times[item])[:AGAIN]
    more = [_times(runner, default, best) for _ in range(2)]
    for config in best:
        times[config] = statistics.median_low([times[config], *(item[config] for item in more)])
    return times


def _times(runner: Runner, default: Config, configs: Sequence[Config]) -> dict[Config, int]:
    """Of these and the default; those that fail take ten times as long as that."""
    first, *others = runner([default, *configs])
    assert first is not None, "the default runs"
    slowest = 10 * first
    found = (slowest if taken is None else taken for taken in others)
    return {default: first, **dict(zip(configs, found, strict=True))}


def replayed(kernels: Sequence[Kernel]) -> dict[str, dict[int, float]]:
    """The share of what can be saved, by method and number of measurements."""
    curves: dict[str, list[Reals]] = {}
    for operator in dict.fromkeys(kernel.operator for kernel in kernels):
        others = [kernel for kernel in kernels if kernel.operator != operator]
        sequences = mined(others)
        samples = Samples()
        for kernel in others:
            kernel.sample(samples)
        methods = _methods(Transfer(samples), Transfer(), sequences)
        for kernel in kernels:
            if kernel.operator == operator:
                for name, make in methods.items():
                    found = [_curve(kernel, make(kernel, seed)) for seed in range(SEEDS)]
                    curves.setdefault(name, []).append(np.exp(np.mean(np.log(found), axis=0)))
    order = [
        kernel
        for name in dict.fromkeys(k.operator for k in kernels)
        for kernel in kernels
        if kernel.operator == name
    ]
    return {
        name: {count: _share(order, found, count) for count in COUNTS}
        for name, found in curves.items()
    }


def _methods(
    taught: Transfer, empty: Transfer, sequences: Sequence[Sequenced]
) -> Mapping[str, Callable[[Kernel, int], NumberedSearch]]:
    return {
        "uniform random": lambda kernel, seed: Random(kernel.space, seed=seed),
        "guided, no experience": lambda kernel, seed: Guided(
            kernel.space, empty.warm(kernel.columns), seed=seed
        ),
        "and sequences": lambda kernel, seed: Mixed(
            kernel.space, empty.warm(kernel.columns), sequences, seed=seed
        ),
        "guided": lambda kernel, seed: Guided(kernel.space, taught.warm(kernel.columns), seed=seed),
        "guided and sequences": lambda kernel, seed: Mixed(
            kernel.space, taught.warm(kernel.columns), sequences, seed=seed
        ),
    }


def _curve(kernel: Kernel, search: NumberedSearch) -> Reals:
    """(measurements,): the least nanoseconds after each."""
    best = kernel.default
    search.observe([kernel.space.default], [best])
    curve = []
    for _ in range(COUNTS[-1]):
        for config in search.propose(1):
            taken = kernel.times[config]
            search.observe([config], [taken])
            best = min(best, taken)
        curve.append(float(best))
    return np.array(curve)


def _share(kernels: Sequence[Kernel], curves: Sequence[Reals], count: int) -> float:
    """Of what the best schedules save, by logarithms, the share found by `count` measurements."""
    can = sum(np.log(kernel.default / kernel.best) for kernel in kernels)
    did = sum(
        np.log(kernel.default / curve[count - 1])
        for kernel, curve in zip(kernels, curves, strict=True)
    )
    return float(did / can) if can > 0 else 1.0


def _table(shares: Mapping[str, Mapping[int, float]]) -> Table:
    table = Table("measurements", *map(str, COUNTS), title="share of what tuning can save")
    for name, row in shares.items():
        table.add_row(name, *(f"{100 * share:.0f} %" for share in row.values()))
    return table


if __name__ == "__main__":
    sys.exit(main())
