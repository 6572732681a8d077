"""`tune_network`: the schedules of all layers of a network, searched by measuring.

Each kind of layer is a `Task`. The trials go to the task that probably gains most: where the last
batches saved the most cycles of the whole network. At the end the whole network is counted.

Source: L. Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning",
OSDI 2020, section 6 (a scheduler of tasks by their expected gain).
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import daedal
from daedal.compiler.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import kit_version
from daedal.compiler.tune.workload import Workload
from daedal.isa.errors import TuningError
from daedal.isa.variant import Variant
from daedal.tuning.selection import Selection, remember, select, store
from daedal.tuning.task import BATCH, Setting, Task, make_tasks
from daedal.tuning.whole_network import WholeNetwork

__all__ = ["NetworkTuning", "TaskResult", "check_budget", "compiler_version", "tune_network"]


@dataclass(frozen=True)
class TaskResult:
    """A kind of layer before and after.

    Attributes
    ----------
    layers : names of its layers in the network.
    bound_cycles : that no configuration can beat; None where no bound is known.
    trials : measurements of this run.
    history : cycles of all measured configurations in order, those of earlier runs first; None for
        a configuration that failed.
    network_cycles : of its layers within the network, before and after; None if not counted.
    is_used : whether the network takes `config`; otherwise it keeps the default.
    """

    workload: Workload
    layers: tuple[str, ...]
    default_cycles: int
    best_cycles: int
    bound_cycles: int | None
    default: Config
    config: Config
    trials: int
    history: tuple[int | None, ...]
    network_cycles: tuple[int, int] | None = None
    is_used: bool = True

    @property
    def count(self) -> int:
        """How often the network has it."""
        return len(self.layers)

    @property
    def changes(self) -> dict[str, tuple[int, int]]:
        """The knobs whose values differ from the default's: before and after."""
        values = zip(self.default.values, self.config.values, strict=True)
        return {knob: (old, new) for (knob, old), (_, new) in values if old != new}

    @property
    def excess(self) -> float | None:
        """Share of the bound by which the best configuration is above it."""
        return self.best_cycles / self.bound_cycles - 1 if self.bound_cycles else None


@dataclass(frozen=True)
class NetworkTuning:
    """What tuning found; `selection` is None for a run that was interrupted."""

    results: tuple[TaskResult, ...]
    selection: Selection | None
    trials: int


def tune_network(
    model: str | Path | bytes,
    variant: Variant,
    database: Database,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    memory: str = "ddr",
    seed: int = 0,
    report: Callable[[str], None] | None = None,
) -> NetworkTuning:
    """Measure up to `trials` configurations of the network's layers, for up to about `seconds`.

    Every batch is written to `database` as soon as it is measured, so an interrupted run loses at
    most one; what the database knows is not measured again. An interrupt (KeyboardInterrupt) ends
    the measurements, and what there is is returned. Without `trials` and `seconds`, the run ends
    when all schedules are measured.

    Raises
    ------
    TuningError
        `trials` is below 1, `seconds` is not above 0, the network has nothing to tune, a record
        does not replay, or a configuration gives wrong bytes.
    ModelError, ScheduleError
        As `daedal.compile`.
    """
    check_budget(trials, seconds)
    say = report or (lambda _sentence: None)
    say("compiling")
    setting = Setting(variant, memory, database)
    network = WholeNetwork(model, variant, memory)
    tasks = make_tasks(network, setting, seed)
    if not tasks:
        raise TuningError(
            "a network to tune must have layers with more than one schedule on the accelerator, "
            "and this one has none; compile it without records"
        )
    try:
        spent = _measure(tasks, setting, _Budget(trials, seconds), say)
        say("counting the whole network")
        selection = select(network, _best(tasks), remember(model, setting))
    except KeyboardInterrupt:
        results = tuple(_result(task, None) for task in tasks if task.best is not None)
        return NetworkTuning(results, None, sum(task.trials for task in tasks))
    store(selection, model, {task.workload.key: task.default for task in tasks}, setting)
    results = tuple(_result(task, selection) for task in tasks if task.best is not None)
    return NetworkTuning(results, selection, spent)


def check_budget(trials: int | None, seconds: float | None) -> None:
    """Raise TuningError for a budget in which nothing can be measured."""
    if trials is not None and trials < 1:
        raise TuningError(f"trials must be at least 1, not {trials}; leave the option out")
    if seconds is not None and not seconds > 0:
        raise TuningError(f"seconds must be more than 0, not {seconds:g}; leave the option out")


class _Budget:
    """Trials and seconds; None for no limit."""

    def __init__(self, trials: int | None, seconds: float | None) -> None:
        self._trials = trials
        self._seconds = seconds
        self._begin = time.monotonic()

    def left(self, spent: int) -> int:
        """Trials that may still be made, after `spent` of them."""
        if self._seconds is not None and time.monotonic() - self._begin > self._seconds:
            return 0
        return BATCH if self._trials is None else self._trials - spent

    def text(self, spent: int) -> str:
        """``12 of 64 trials, 3 of 60 s``"""
        trials = f"{spent} trials" if self._trials is None else f"{spent} of {self._trials} trials"
        now = time.monotonic() - self._begin
        return f"{trials}, {now:.0f} s" + (
            "" if self._seconds is None else f" of {self._seconds:g}"
        )


def _measure(
    tasks: Sequence[Task], setting: Setting, budget: _Budget, say: Callable[[str], None]
) -> int:
    """Spend the budget; return the number of trials."""
    for task in tasks:
        task.replay()
    spent = 0
    while (left := budget.left(spent)) > 0:
        chosen = _next(tasks)
        if chosen is None:
            break
        total = sum(item.cycles for item in tasks)
        say(f"tuning: {budget.text(spent)}, {total:,} cycles, now {chosen.layers[0]}")
        configs = chosen.propose(min(BATCH, left))
        if configs:
            chosen.measure(configs, setting)
            spent += len(configs)
    return spent


def _next(tasks: Sequence[Task]) -> Task | None:
    """The task to spend a batch on: each default once, then the one that probably gains most.

    Where nothing was gained lately, the one with the most cycles per trial.
    """
    found = [task for task in tasks if not task.ended]
    unknown = [task for task in found if task.best is None and not task.measured]
    if unknown:
        return unknown[0]
    return max(
        found, key=lambda task: (task.promise, task.cycles / (task.trials + 1)), default=None
    )


def _best(tasks: Sequence[Task]) -> dict[str, Config]:
    """The best configuration of each task where it is faster than the default."""
    found = {}
    for task in tasks:
        default = task.measured.get(task.default)
        if task.best is not None and (default is None or task.best[1] < default):
            found[task.workload.key] = task.best[0]
    return found


def _result(task: Task, selection: Selection | None) -> TaskResult:
    assert task.best is not None
    config, cycles = task.best
    key, default = task.workload.key, task.measured.get(task.default)
    in_network = None
    if selection is not None and key in selection.before.kinds:
        in_network = (selection.before.kinds[key], selection.after.kinds[key])
    return TaskResult(
        task.workload,
        task.layers,
        default if default is not None else cycles,
        cycles,
        task.bound,
        task.default,
        config,
        task.trials,
        tuple(task.measured.values()),
        in_network,
        selection is None or selection.configs.get(key, task.default) == config,
    )


def compiler_version() -> str:
    """The kit's version and a hash of the compiler's sources: cycles of others do not compare."""
    root = Path(daedal.__file__).resolve().parent.parent
    folder = root / "compiler" if (root / "compiler").is_dir() else root / "daedal" / "compiler"
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return f"{kit_version()}+{digest.hexdigest()[:12]}"
