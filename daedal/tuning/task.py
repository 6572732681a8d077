"""`Task`: one kind of layer of a network that is tuned: what was measured, and what it gained.

Input: the layers of a `WholeNetwork`, and the records of a database. Output: a task for each kind
of layer with more than one schedule.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.compiler.ops.accelerator.lowering import space_of
from daedal.compiler.space import Config, Space
from daedal.compiler.tune.cost_model import Columns
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.features import shared_columns
from daedal.compiler.tune.guided import Guided, SearchModel
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.search import Search
from daedal.compiler.tune.workload import Workload
from daedal.isa.errors import ScheduleError, TuningError
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant
from daedal.tuning.layer_runner import LayerRunner
from daedal.tuning.runner import MakeRunner
from daedal.tuning.whole_network import WholeNetwork

__all__ = ["BATCH", "TARGET", "Setting", "Task", "make_tasks"]

TARGET = "accelerator"
BATCH = 8
"""Trials of a task between two decisions."""
_FADING = 0.5
"""Weight of what a task gained before its last batch."""
_HOPE = 0.1
"""Share of its cycles that a task is expected to lose before its first batch."""


@dataclass(frozen=True)
class Setting:
    """What cycles depend on besides the layer, where they are recorded, and what measures them."""

    variant: Variant
    memory: str
    database: Database
    make_runner: MakeRunner = LayerRunner

    def record(self, workload: Workload, config: Config, cycles: int | None) -> Record:
        """The record of one measurement."""
        fingerprint = self.variant.fingerprint
        kit = self.database.kit
        return Record(workload, fingerprint, self.memory, TARGET, config, cycles, kit=kit)


class Task:
    """A kind of layer.

    Attributes
    ----------
    layers : names of its layers in the network.
    space : its schedules.
    bound : cycles that no configuration can beat (proved); None where no bound is known.
    measured : cycles by configuration in the order of the measurements, those of earlier runs
        first; None for one that failed.
    num_known : how many of them are from earlier runs.
    """

    def __init__(
        self,
        layers: Sequence[str],
        space: Space,
        runner: Callable[[Sequence[Config]], Sequence[int | None]],
        search: Search,
        workload: Workload,
        known: dict[Config, int | None],
        bound: int | None = None,
    ) -> None:
        self.layers = tuple(layers)
        self.space = space
        self.workload = workload
        self.bound = bound
        self.measured = dict(known)
        self.num_known = len(known)
        self.default = space.default
        self.ended = False
        self._runner = runner
        self._search = search
        self._gain: float | None = None
        if known:
            self._observe(known)

    @property
    def trials(self) -> int:
        """Measurements of this run."""
        return len(self.measured) - self.num_known

    @property
    def best(self) -> tuple[Config, int] | None:
        """The configuration with the fewest cycles so far, the earliest of equal ones."""
        found = [(cycles, config) for config, cycles in self.measured.items() if cycles is not None]
        if not found:
            return None
        cycles, config = min(found, key=lambda item: item[0])
        return config, cycles

    @property
    def cycles(self) -> int:
        """Of the best so far, in all its layers; 0 before the first."""
        return len(self.layers) * self.best[1] if self.best else 0

    @property
    def promise(self) -> float:
        """Cycles of the network that a trial will probably gain.

        What the last batches gained, or a share of all cycles before the first; never more than
        what remains above the bound.
        """
        gain = _HOPE * self.cycles / BATCH if self._gain is None else self._gain
        if self.bound is None or self.best is None:
            return gain
        return min(gain, len(self.layers) * (self.best[1] - self.bound) / BATCH)

    def propose(self, count: int) -> list[Config]:
        """Up to `count` configurations to measure, the default first; none ends the task.

        A task also ends when its best configuration takes as many cycles as the bound.
        """
        if self.best is not None and self.best[1] == self.bound:
            self.ended = True
            return []
        if self.default not in self.measured:
            return [self.default]
        configs = [item for item in self._search.propose(count) if item not in self.measured]
        self.ended = not configs
        return configs

    def measure(self, configs: Sequence[Config], setting: Setting) -> None:
        """Measure configurations, and record them.

        Raises TuningError if a result differs from the layer's.
        """
        before = self.cycles
        cycles = list(self._runner(configs))
        setting.database.add(
            setting.record(self.workload, config, found)
            for config, found in zip(configs, cycles, strict=True)
        )
        found = dict(zip(configs, cycles, strict=True))
        self.measured.update(found)
        self._observe(found)
        if before:
            gained = (before - self.cycles) / len(configs)
            old = gained if self._gain is None else self._gain
            self._gain = _FADING * old + (1 - _FADING) * gained

    def replay(self) -> None:
        """Measure the best configuration again, if it is from an earlier run.

        Raises
        ------
        TuningError
            It does not take the recorded cycles.
        """
        if self.best is None or list(self.measured).index(self.best[0]) >= self.num_known:
            return
        config, recorded = self.best
        (found,) = self._runner([config])
        if found != recorded:
            raise TuningError(
                f"a record must replay, and {config} of layer {self.layers[0]!r} takes {found} "
                f"cycles, not {recorded}; choose another database and tune again"
            )

    def _observe(self, found: dict[Config, int | None]) -> None:
        try:
            self._search.observe(list(found), list(found.values()))
        except ScheduleError as error:
            raise TuningError(
                f"records must be of this layer's schedules, and one of {self.layers[0]!r} is not: "
                f"{error}; choose another database and tune again"
            ) from error


def make_tasks(
    network: WholeNetwork, setting: Setting, seed: int, make_model: Callable[[Columns], SearchModel]
) -> list[Task]:
    """The kinds of layers that have more than one schedule, in the order of the network.

    `make_model` makes the model that guides one search, from the features that all configurations
    of its space have by `daedal.compiler.tune.features`.
    """
    variant = setting.variant
    names: dict[str, list[str]] = {}
    for (_, node), key in zip(network.layers, network.kinds, strict=True):
        names.setdefault(key, []).append(node.name or node.output)
    tasks: dict[str, Task] = {}
    for (graph, node), key in zip(network.layers, network.kinds, strict=True):
        if key in tasks:
            continue
        space = space_of(graph, node, variant)
        if space is None:
            continue
        runner = setting.make_runner(graph, node, variant, setting.memory)
        columns = shared_columns(space, space.all(), variant, PRESETS[setting.memory])
        search = Guided(space, make_model(columns), seed=seed)
        known = _known(runner.workload, space, setting)
        bound = _bound(space, setting.memory)
        tasks[key] = Task(names[key], space, runner, search, runner.workload, known, bound)
    return list(tasks.values())


def _known(workload: Workload, space: Space, setting: Setting) -> dict[Config, int | None]:
    """What earlier runs measured, completed, in their order as far as seconds tell it."""
    fingerprint = setting.variant.fingerprint
    found = setting.database.records(workload, fingerprint, setting.memory, TARGET)
    ordered = sorted(found, key=lambda item: item.when)
    return {space.complete(item.config): item.cycles for item in ordered}


def _bound(space: Space, memory: str) -> int | None:
    """The least lower bound over all configurations; None where nothing is proved."""
    least = float(np.min(space.bound(space.all(), PRESETS[memory])))
    return math.ceil(least) if least > 0 else None
