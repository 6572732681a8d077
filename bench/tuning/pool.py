"""A pool whose workers are killed, and a database whose writers are.

    python bench/tuning/pool.py [--candidates N] [--kills N] [--json F]

- Pool: 2 workers measure the candidates (500 by default) of small layers, and every few seconds one
  of the two is killed with SIGKILL. Every candidate must get a result that the coordinator accepts,
  each once, with the cycles that a run without killing finds for a sample, and no measurement may
  finish twice. Workers write marks: when a measurement starts, when it has run, and when it has
  finished, which is when the scheduler has acknowledged its result. Those cut short by a kill start
  again; `ran_twice` counts those that had run, but were killed before the acknowledgement came.
- Rates: candidates a second of 1 and of 2 workers, and of one process without a pool.
- Database: a process that writes batches of records is killed 50 times. Every batch that `add`
  acknowledged must be there, and every batch that is there must be whole.

Exit status 1 when a candidate or a record is lost, or one is measured twice. Rates are shown, and
judged by nobody: they depend on the machine.
"""

import argparse
import functools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.qdq_model import QdqModel
from daedal.compiler.frontend import load_onnx
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.ops.space import Config
from daedal.compiler.pipeline import compile_graph
from daedal.compiler.tune.database import Database
from daedal.isa.variant import load_variant
from daedal.tuning import pool_worker
from daedal.tuning.layer_runner import LayerRunner
from daedal.tuning.layer_task import LayerTask
from daedal.tuning.pool import Pool
from daedal.tuning.runner import Result
from daedal.tuning.sandbox import Sandbox

__all__ = ["DatabaseRow", "PoolRow", "kill_workers", "kill_writers", "main"]

CANDIDATES = 500
KILLS = 50
KILL_SECONDS = 4.0
SAMPLE = 20
RATED = 40
"""Candidates of each rate."""
SIZES = (6, 8, 10, 12)
"""Side of the map of each small layer, 8 -> 16 channels."""
MARKS = "DAEDAL_BENCH_MARKS"
PIDS = "DAEDAL_BENCH_PIDS"
"""Environment variables with the files into which workers write their marks, and their process when
they start the first measurement."""


@dataclass(frozen=True)
class PoolRow:
    """Candidates of a pool whose workers are killed."""

    candidates: int
    measured: int
    accepted_twice: int
    started: int
    finished: int
    finished_twice: int
    ran_twice: int
    wrong_cycles: int
    kills: int
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether all were measured, each once and right, with a worker killed now and then."""
        whole = self.measured == self.candidates and self.kills > 1
        twice = self.accepted_twice + self.finished_twice
        return whole and not twice and not self.wrong_cycles


@dataclass(frozen=True)
class DatabaseRow:
    """Records of writers that were killed."""

    kills: int
    acknowledged: int
    lost: int
    broken_batches: int

    @property
    def passed(self) -> bool:
        """Whether nothing acknowledged was lost, and no batch is there in part."""
        return not self.lost and not self.broken_batches


def layers(variant_name: str = "tiny") -> list[LayerTask]:
    """A task for each small layer."""
    variant = load_variant(variant_name)
    rng = np.random.default_rng(3)
    found = []
    for size in SIZES:
        model = QdqModel()
        x = model.requantized(model.input("x", (1, 8, size, size)), 0.05, 3)
        values = rng.integers(-127, 128, (16, 8, 3, 3)).astype(np.int8)
        y = model.op("Conv", x, model.weights(values, 0.01), pads=[1] * 4)
        text = model.model(model.requantized(y, 0.05, 3)).SerializeToString()
        graph = compile_graph(load_onnx(text), variant, host=None).launch.graph
        node = next(node for node in graph.nodes if node.op.startswith("q_conv2d"))
        found.append(LayerTask.of(graph, node, variant))
    return found


def candidates(task: LayerTask, count: int, seed: int = 0) -> list[Config]:
    """So many drawn configurations, fewer if the space has no more."""
    space = space_of(task.graph, task.graph.nodes[0], task.variant)
    assert space is not None
    return space.sample(np.random.default_rng(seed), count)


def kill_workers(count: int, seconds: float = KILL_SECONDS) -> PoolRow:
    """Measure `count` candidates on 2 workers, of which one is killed every `seconds`."""
    tasks = layers()
    share = -(-count // len(tasks))
    batches = [(task, candidates(task, share)) for task in tasks]
    total = sum(len(configs) for _, configs in batches)
    accepted: Counter[tuple[str, Config]] = Counter()
    found: dict[tuple[str, Config], Result] = {}
    preload = pool_worker.PRELOAD
    with tempfile.TemporaryDirectory() as folder:
        pids = Path(folder) / "pids"
        os.environ.update({MARKS: str(Path(folder) / "marks"), PIDS: str(pids)})
        pool_worker.PRELOAD = "bench.tuning.pool"
        with Pool(workers=2) as pool:
            accept = pool._accepted

            def accept_and_count(task: LayerTask, config: Config, future: Any) -> Result:
                accepted[task.key, config] += 1
                return accept(task, config, future)

            pool._accepted = accept_and_count  # type: ignore[method-assign]
            killer = _Killer(pids, seconds)
            begin = time.monotonic()
            with killer:
                for task, configs in batches:
                    results = pool.measure(task, configs)
                    found.update(
                        zip([(task.key, config) for config in configs], results, strict=True)
                    )
            elapsed = time.monotonic() - begin
        pool_worker.PRELOAD = preload
        marks = Counter(Path(os.environ.pop(MARKS)).read_text().splitlines())
    started, ran, finished = (
        {mark: count for mark, count in marks.items() if mark.startswith(name)}
        for name in ("started ", "ran ", "finished ")
    )
    return PoolRow(
        total,
        sum(result.cycles is not None for result in found.values()),
        sum(times > 1 for times in accepted.values()) + abs(len(accepted) - total),
        sum(started.values()),
        len(finished),
        sum(times > 1 for times in finished.values()),
        sum(times > 1 for times in ran.values()),
        _wrong(batches, found),
        killer.kills,
        elapsed,
    )


def _wrong(
    batches: Sequence[tuple[LayerTask, Sequence[Config]]],
    found: dict[tuple[str, Config], Result],
) -> int:
    """How many of a sample have other cycles than in this process."""
    wrong = 0
    for task, configs in batches:
        runner = LayerRunner(task.graph, task.graph.nodes[0], task.variant)
        sample = list(configs[: SAMPLE // len(batches)])
        cycles = [found[task.key, config].cycles for config in sample]
        wrong += sum(a != b for a, b in zip(runner(sample), cycles, strict=True))
    return wrong


class _Killer:
    """Kills one of the workers every so many seconds, within a block.

    It waits until the one before is back: a worker takes seconds to start, and more frequent kills
    would leave none. `kills` counts.
    """

    def __init__(self, pids: Path, seconds: float) -> None:
        self._pids = pids
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._rng = np.random.default_rng(0)
        self.kills = 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            if not self._pids.exists():
                continue
            running = [pid for pid in map(int, self._pids.read_text().split()) if _runs(pid)]
            if len(running) >= 2:
                os.kill(int(self._rng.choice(running)), signal.SIGKILL)
                self.kills += 1


def _runs(pid: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


_measure = Sandbox.measure
_hand_in = pool_worker.hand_in
_current = ""


def dask_setup(worker: object) -> None:
    """Have this worker write marks (a preload of Dask, also in restarted workers)."""
    pool_worker.dask_setup(worker)
    Sandbox.measure = _marked_measure  # type: ignore[method-assign]
    pool_worker.hand_in = _marked_hand_in


@functools.cache
def _announce() -> None:
    """Let this worker be killed from now on: it works."""
    with open(os.environ[PIDS], "a") as file:
        file.write(f"{os.getpid()}\n")


def _marked_measure(self: Sandbox, key: str, task: bytes, config: Config) -> Result:
    global _current
    _announce()
    _current = f"{key} {config}"
    _mark("started")
    result = _measure(self, key, task, config)
    _mark("ran")
    return result


def _marked_hand_in(result: Result) -> None:
    _hand_in(result)
    _mark("finished")


def _mark(name: str) -> None:
    with open(os.environ[MARKS], "a") as file:
        file.write(f"{name} {_current}\n")


def rates() -> dict[str, float]:
    """Candidates a second of this process, and of pools, each with candidates of its own."""
    task = layers()[-1]
    drawn = candidates(task, 3 * (RATED + 4))
    parts = [drawn[at::3] for at in range(3)]
    runner = LayerRunner(task.graph, task.graph.nodes[0], task.variant)
    found = {"this process": _rate(runner.results, parts[0])}
    for workers in (1, 2):
        with Pool(workers=workers) as pool:
            measure = functools.partial(pool.measure, task)
            found[f"{workers} worker" + "s" * (workers > 1)] = _rate(measure, parts[workers])
    return found


def _rate(measure: Callable[[Sequence[Config]], list[Result]], configs: Sequence[Config]) -> float:
    measure(configs[:4])  # starts the processes
    begin = time.monotonic()
    measure(configs[4:])
    return len(configs[4:]) / (time.monotonic() - begin)


BATCH = 5
WRITER = """
import sys
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.workload import Workload

path, first, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
workload = Workload.of("matmul", attributes={}, shapes={}, layouts={})
with Database(path) as database:
    while True:
        database.add(
            Record(workload, "f", "ddr", "accelerator", Config.of(height=height), height + 1)
            for height in range(first, first + batch)
        )
        print(first, flush=True)  # acknowledges the batch
        first += batch
"""
"""Writes batches of records until it is killed."""


def kill_writers(kills: int) -> DatabaseRow:
    """Kill a writer so many times, and count what is missing."""
    rng = np.random.default_rng(0)
    acknowledged: set[int] = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.db"
        for number in range(kills):
            first = str(number * 1_000_000)
            command = [sys.executable, "-c", WRITER, str(path), first, str(BATCH)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
                assert writer.stdout is not None
                lines = [writer.stdout.readline()]
                time.sleep(float(rng.uniform(0, 0.2)))
                writer.kill()
                lines += writer.stdout.readlines()
            # The last line may be cut by the kill.
            acknowledged |= {int(line) for line in lines if line.endswith("\n")}
        with Database(path) as database:
            heights = {record.config["height"] for record in database.records()}
    expected = {start + offset for start in acknowledged for offset in range(BATCH)}
    starts = Counter(height // BATCH for height in heights)
    broken = sum(count != BATCH for count in starts.values())
    return DatabaseRow(kills, len(expected), len(expected - heights), broken)


def main() -> int:
    """Measure, print the tables, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--candidates", type=int, default=CANDIDATES)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    database = kill_writers(arguments.kills)
    pool = kill_workers(arguments.candidates)
    speeds = rates()
    console = Console()
    for title, row in (("pool", pool), ("database", database)):
        table = Table("what", "count", title=f"{title}: {'passed' if row.passed else 'MISSED'}")
        for name, value in asdict(row).items():
            table.add_row(name.replace("_", " "), f"{value:,.0f}")
        console.print(table)
    for name, rate in speeds.items():
        console.print(f"{name}: {rate:.2f} candidates/s")
    data = {"pool": asdict(pool), "database": asdict(database), "rates": speeds}
    write_json(arguments.json, data)
    return 0 if pool.passed and database.passed else 1


if __name__ == "__main__":
    sys.exit(main())
