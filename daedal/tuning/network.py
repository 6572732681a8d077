"""`tune_network`: the schedules of all layers of a network, searched by measuring.

Each kind of layer (`Workload`) is a task. After its default and one batch, the trials go to the
task that probably gains most: where the last batches saved the most cycles of the whole network.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import daedal
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.frontend.reader import read_model
from daedal.compiler.frontend.tensor_types import tensor_names
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import get_op
from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.pipeline import compile_graph
from daedal.compiler.space import Config, Space
from daedal.compiler.tune.annealing import Annealing
from daedal.compiler.tune.cost_model import Boosted
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import Record, kit_version
from daedal.compiler.tune.search import Search
from daedal.compiler.tune.workload import Workload
from daedal.compiler.workload import workload_of
from daedal.isa.errors import TuningError
from daedal.isa.variant import Variant
from daedal.tuning.layer_runner import LayerRunner

__all__ = ["TARGET", "TaskResult", "compiler_version", "recorded_configs", "tune_network"]

TARGET = "accelerator"
BATCH = 8
"""Trials of a task between two decisions."""
_FADING = 0.5
"""Weight of what a task gained before its last batch."""


@dataclass(frozen=True)
class TaskResult:
    """A kind of layer: how often the network has it, and its cycles before and after."""

    workload: Workload
    layer: str
    count: int
    default_cycles: int
    best_cycles: int
    config: Config
    trials: int


@dataclass
class _Task:
    layer: str
    count: int
    space: Space
    runner: LayerRunner
    search: Search
    known: dict[Config, int | None]
    trials: int = 0
    gain: float = 0.0
    ended: bool = False
    curve: list[int] = field(default_factory=list)

    @property
    def best(self) -> tuple[Config, int] | None:
        """The configuration with the fewest cycles so far."""
        measured = [(cycles, config) for config, cycles in self.known.items() if cycles is not None]
        if not measured:
            return None
        cycles, config = min(measured, key=lambda item: item[0])
        return config, cycles

    @property
    def cycles(self) -> int:
        """Of the best so far, in the whole network; 0 before the first."""
        return self.count * self.best[1] if self.best else 0


def tune_network(
    model: str | Path | bytes,
    variant: Variant,
    database: Database,
    *,
    trials: int,
    seconds: float = float("inf"),
    memory: str = "ddr",
    seed: int = 0,
    report: Callable[[str], None] | None = None,
) -> list[TaskResult]:
    """Measure up to `trials` configurations of the network's layers, for up to `seconds`.

    Every batch is written to `database` as soon as it is measured, so an interrupted run loses at
    most one; what the database knows is not measured again.

    Raises
    ------
    TuningError
        `trials` is below 1, the network has nothing to tune, or a configuration gives wrong bytes.
    ModelError, ScheduleError
        As `daedal.compile`.
    """
    if trials < 1:
        raise TuningError(f"trials must be at least 1, not {trials}")
    say = report or (lambda _sentence: None)
    tasks = _tasks(model, variant, database, memory, seed, say)
    if not tasks:
        raise TuningError(
            "a network to tune must have dense convolutions on the accelerator, and this one has "
            "none; compile it without records"
        )
    begin, left = time.monotonic(), trials
    for task in _order(tasks):
        if left < 1 or time.monotonic() - begin > seconds:
            break
        left -= _measure(task, min(BATCH, left), variant, database, memory)
        total = sum(item.cycles for item in tasks)
        say(f"{trials - left} of {trials} trials, {total:,} cycles in {len(tasks)} kinds of layers")
    return [_result(task) for task in tasks if task.best is not None]


def recorded_configs(
    database: Database, variant: Variant, memory: str = "ddr"
) -> dict[str, Config]:
    """The best configuration of every workload in `database`, for `daedal.compile`."""
    best: dict[str, Record] = {}
    for record in database.records(None, variant.fingerprint, memory, TARGET):
        key = record.workload.key
        if record.cycles is not None and (
            key not in best or record.cycles < (best[key].cycles or record.cycles + 1)
        ):
            best[key] = record
    return {key: record.config for key, record in best.items()}


def compiler_version() -> str:
    """The kit's version and a hash of the compiler's sources: cycles of others do not compare."""
    root = Path(daedal.__file__).resolve().parent.parent
    folder = root / "compiler" if (root / "compiler").is_dir() else root / "daedal" / "compiler"
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{kit_version()}+{digest.hexdigest()[:12]}"


def _tasks(
    model: str | Path | bytes,
    variant: Variant,
    database: Database,
    memory: str,
    seed: int,
    say: Callable[[str], None],
) -> list[_Task]:
    """The kinds of layers that have more than one schedule."""
    say("compiling")
    checked = read_model(model if isinstance(model, bytes) else Path(model))
    compiled = compile_graph(load_onnx(checked), variant, names=tensor_names(checked))
    found: dict[str, _Task] = {}
    for graph, node in _layers([launch.graph for launch in compiled.launches]):
        workload = workload_of(graph, node)
        if workload.key in found:
            found[workload.key].count += 1
            continue
        space = space_of(graph, node, variant)
        if space is None:
            continue
        known = database.measured(workload, variant.fingerprint, memory, TARGET)
        search = Annealing(space, seed=seed, model=Boosted(seed=seed))
        if known:
            search.observe(list(known), list(known.values()))
        runner = LayerRunner(graph, node, variant, memory)
        found[workload.key] = _Task(node.name or node.output, 1, space, runner, search, dict(known))
    return list(found.values())


def _layers(graphs: Sequence[Graph]) -> Iterator[tuple[Graph, Node]]:
    for graph in graphs:
        for node in graph.nodes:
            if not get_op(node.op).is_view:
                yield graph, node


def _order(tasks: Sequence[_Task]) -> Iterator[_Task]:
    """The next task to spend a batch on: each once, then the one that probably gains most."""
    yield from tasks
    while True:
        open_tasks = [task for task in tasks if not task.ended]
        if not open_tasks:
            return
        # Where nothing was gained lately, the task with the most cycles per trial.
        yield max(open_tasks, key=lambda task: (task.gain, task.cycles / max(task.trials, 1)))


def _measure(task: _Task, count: int, variant: Variant, database: Database, memory: str) -> int:
    """Measure a batch of `task`; return how many trials it took."""
    before = task.cycles
    default = task.space.default
    configs = [] if default in task.known else [default]
    if count > len(configs):
        configs += [
            config for config in task.search.propose(count - len(configs)) if config != default
        ]
    if not configs:
        task.ended = True
        return 0
    cycles = task.runner(configs)
    task.search.observe(configs, cycles)
    task.known.update(zip(configs, cycles, strict=True))
    task.trials += len(configs)
    database.add(
        Record(
            task.runner.workload,
            variant.fingerprint,
            memory,
            TARGET,
            config,
            found,
            kit=database.kit,
        )
        for config, found in zip(configs, cycles, strict=True)
    )
    gained = max(before - task.cycles, 0) if before else task.cycles * 1e-3
    task.gain = _FADING * task.gain + gained / len(configs)
    return len(configs)


def _result(task: _Task) -> TaskResult:
    assert task.best is not None
    config, cycles = task.best
    default = task.known.get(task.space.default)
    return TaskResult(
        task.runner.workload,
        task.layer,
        task.count,
        default if default is not None else cycles,
        cycles,
        config,
        task.trials,
    )
