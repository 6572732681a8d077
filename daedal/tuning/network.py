"""`tune_network`: the schedules of all layers of a network, searched by measuring.

Each kind of layer is a `Task`. The trials go to the task that probably gains most: where the last
batches saved the most cycles of the whole network. At the end the whole network is counted.

Source: L. Zheng et al., "Ansor: Generating High-Performance Tensor Programs for Deep Learning",
OSDI 2020, section 6 (a scheduler of tasks by their expected gain).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from daedal.common.errors import TuningError
from daedal.common.markdown import markdown_table
from daedal.common.reporting import log
from daedal.compiler.ops.space import Config
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.workload import Workload
from daedal.tuning.budget import Budget
from daedal.tuning.experience import Experience
from daedal.tuning.explanation import Explanation, task_of
from daedal.tuning.selection import Selection, remember, select, store
from daedal.tuning.target import CYCLES, Setting, TuningTarget, Unit
from daedal.tuning.task import Task, make_tasks

__all__ = ["NetworkTuning", "TaskResult", "tune_network"]


@dataclass(frozen=True)
class TaskResult:
    """A kind of layer before and after.

    Attributes
    ----------
    layers : names of its layers in the network.
    bound_cycles : cycles that no configuration can beat; None where no bound is known.
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


@dataclass(frozen=True, repr=False)
class NetworkTuning:
    """What tuning found; `selection` is None for a run that was interrupted.

    All numbers of cycles are in `unit`. `machine` says what was measured on, such as ``processor``;
    records of `other_machines` of this kind did not count.
    """

    results: tuple[TaskResult, ...]
    selection: Selection | None
    trials: int
    explanations: tuple[Explanation, ...] = ()
    unit: Unit = CYCLES
    machine: str = ""
    other_machines: tuple[str, ...] = ()

    def __repr__(self) -> str:
        before, after = (
            sum(item.count * getattr(item, f"{which}_cycles") for item in self.results)
            for which in ("default", "best")
        )
        ended = ", interrupted" if self.selection is None else ""
        return (
            f"<NetworkTuning of {len(self.results)} kinds of layers: {before:,} to {after:,} "
            f"{self.unit.name}, {self.trials} trials{ended}>"
        )

    def _repr_markdown_(self) -> str:
        """What notebooks show: a row for each kind of layer."""
        head = ["layers", self.unit.name, "tuned", "bound", "what changed"]
        rows = [
            (
                ", ".join(item.layers),
                f"{item.default_cycles:,}",
                f"{item.best_cycles:,}",
                "" if item.bound_cycles is None else f"{item.bound_cycles:,}",
                ", ".join(f"{knob} {old} to {new}" for knob, (old, new) in item.changes.items()),
            )
            for item in self.results
        ]
        return f"`{self!r}`\n\n{markdown_table(head, rows)}"


def tune_network(
    target: TuningTarget,
    database: Database,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    explain: Sequence[str] = (),
    samples: Path | None = None,
    report: Callable[[str], None] | None = None,
) -> NetworkTuning:
    """Measure up to `trials` configurations of the network's layers, for up to about `seconds`.

    Every batch is written to `database` as soon as it is measured, so an interrupted run loses at
    most one; what the database knows is not measured again. An interrupt (KeyboardInterrupt) ends
    the measurements, and the results so far are returned. Without `trials` and `seconds`, the run
    ends when all schedules are measured, or, with layers to `explain`, when the schedules of the
    explanations are. The searches
    start from what is in the file `samples`, and what they measure is added to it; see
    `Experience`.

    Raises
    ------
    TuningError
        `trials` is below 1, `seconds` is not above 0, the network has nothing to tune, a record
        does not replay, a configuration gives wrong bytes, or a layer cannot be explained.
    ModelError, ScheduleError
        As `daedal.compile`.
    """
    budget = Budget(trials, seconds)
    searches = not explain or trials is not None or seconds is not None
    say = report or log
    say("compiling")
    setting = Setting(target.place, database)
    unit = target.place.unit
    experience = Experience(samples, seed=seed)
    tasks = make_tasks(target, setting, seed, experience.model)
    if not tasks:
        raise TuningError(
            "a network to tune must have layers with more than one schedule on "
            f"{target.title}, and this one has none; compile it without records"
        )
    for name in explain:
        task_of(tasks, name)
    defaults = {task.workload.key: task.default for task in tasks}
    try:
        for task in tasks:
            task.replay(unit)
        if searches:
            _measure(tasks, setting, budget, say)
        for task in tasks:
            task.settle(setting)
        explained = tuple(target.explain(tasks, name, setting) for name in explain)
        say("counting the whole network")
        selection = select(
            target,
            _best(tasks, unit),
            remember(setting, target.digest, defaults),
            unit,
        )
    except KeyboardInterrupt:
        experience.learn(tasks, setting)
        results = tuple(_result(task, None, unit) for task in tasks if task.best is not None)
        return NetworkTuning(results, None, sum(task.trials for task in tasks), unit=unit)
    store(selection, target.digest, defaults, setting)
    experience.learn(tasks, setting)
    results = tuple(_result(task, selection, unit) for task in tasks if task.best is not None)
    return NetworkTuning(results, selection, sum(task.trials for task in tasks), explained, unit)


def _measure(
    tasks: Sequence[Task], setting: Setting, budget: Budget, say: Callable[[str], None]
) -> None:
    """Spend the budget."""
    spent = 0
    while (count := budget.batch(spent)) > 0:
        chosen = _next(tasks)
        if chosen is None:
            break
        total = sum(item.cycles for item in tasks)
        unit = setting.place.unit.name
        say(f"tuning: {budget.text(spent)}, {total:,} {unit}, now {chosen.layers[0]}")
        configs = chosen.propose(count)
        if configs:
            chosen.measure(configs, setting)
            spent += len(configs)


def _next(tasks: Sequence[Task]) -> Task | None:
    """The task to spend a batch on: each default once, then the one that probably gains most.

    Where nothing was gained lately, the one with the most cycles per trial.
    """
    found = [task for task in tasks if not task.ended]
    unknown = [task for task in found if task.default not in task.measured]
    if unknown:
        return unknown[0]
    return max(
        found, key=lambda task: (task.promise, task.cycles / (task.trials + 1)), default=None
    )


def _best(tasks: Sequence[Task], unit: Unit) -> dict[str, Config]:
    """The best configuration of each task where it is faster than the default."""
    found = {}
    for task in tasks:
        default = task.measured.get(task.default)
        if task.best is not None and (default is None or unit.is_less(task.best[1], default)):
            found[task.workload.key] = task.best[0]
    return found


def _result(task: Task, selection: Selection | None, unit: Unit) -> TaskResult:
    assert task.best is not None
    config, cycles = task.best
    key, default = task.workload.key, task.measured.get(task.default)
    if default is not None and unit.noise and not unit.is_less(cycles, default):
        config, cycles = task.default, default
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
