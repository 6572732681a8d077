"""`Task`: one kind of layer of a network that is tuned: what was measured, and what it gained.

Input: the kinds of layers of a `TuningTarget`, and the records of a database. Output: a task for
each of them.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from daedal.common.errors import ScheduleError, TuningError
from daedal.compiler.ops.space import Config, Space, Table
from daedal.compiler.tune.cost_model import Columns
from daedal.compiler.tune.features import shared_columns
from daedal.compiler.tune.guided import Guided, SearchModel
from daedal.compiler.tune.record import UNVERIFIED, Record
from daedal.compiler.tune.search import Search
from daedal.compiler.tune.workload import Workload
from daedal.tuning.runner import Failure, Result, cycles_of
from daedal.tuning.target import CYCLES, Kind, Setting, TuningTarget, Unit

__all__ = ["BATCH", "Known", "Task", "known_of", "make_tasks"]

BATCH = 8
"""Trials of a task between two decisions."""
_FADING = 0.5
"""Weight of what a task gained before its last batch."""
_SETTLED = 2
"""Further measurements of what seems best."""
_HOPE = 0.1
"""Share of its cycles that a task is expected to lose before its first batch."""


@dataclass(frozen=True)
class Known:
    """What earlier runs measured of a layer.

    Attributes
    ----------
    measured : cycles by configuration; None for one that failed for good.
    again : configurations to measure again, first: those of another version of the kit, and those
        that may take longer now than when they timed out.
    """

    measured: dict[Config, int | None] = field(default_factory=dict)
    again: tuple[Config, ...] = ()


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

    Parameters
    ----------
    results : measures configurations.
    columns : features of configurations, for what is learned from this task.
    here : measures one in this process, without a limit; the default that timed out is measured
        so, since all others are compared with it.
    limit_seconds : what a configuration may take where `results` measures.
    """

    def __init__(
        self,
        layers: Sequence[str],
        space: Space,
        results: Callable[[Sequence[Config]], Sequence[Result]],
        search: Search,
        workload: Workload,
        known: Known,
        bound: int | None = None,
        *,
        columns: Callable[[Table], Columns] | None = None,
        here: Callable[[Config], Result] | None = None,
        limit_seconds: float = math.inf,
    ) -> None:
        self.layers = tuple(layers)
        self.space = space
        self.workload = workload
        self.bound = bound
        self.measured = dict(known.measured)
        self.num_known = len(known.measured)
        self.limit_seconds = limit_seconds
        self.default = space.default
        self.ended = False
        self.columns = columns or partial(shared_columns, space)
        self._results = results
        self._here = here
        self._search = search
        self._again = list(known.again)
        self._gain: float | None = None
        if known.measured:
            self._observe(known.measured)

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
        """Up to `count` configurations to measure, the default first, then those that earlier runs
        leave to be measured again; none ends the task.

        A task also ends when its best configuration takes as many cycles as the bound.
        """
        if self.best is not None and self.best[1] == self.bound:
            self.ended = True
            return []
        if self.default not in self.measured:
            return [self.default]
        again = [item for item in self._again if item not in self.measured]
        self._again = again[count:]
        if again:
            return again[:count]
        configs = [item for item in self._search.propose(count) if item not in self.measured]
        self.ended = not configs
        return configs

    def measure(self, configs: Sequence[Config], setting: Setting) -> None:
        """Measure configurations, and record them.

        Raises TuningError if a result differs from the layer's.
        """
        before = self.cycles
        results = [
            self._measured_here(config, result) if config == self.default else result
            for config, result in zip(configs, self._results(configs), strict=True)
        ]
        cycles = cycles_of(configs, results)
        setting.database.add(
            setting.record(self.workload, config, result, self.limit_seconds)
            for config, result in zip(configs, results, strict=True)
        )
        found = dict(zip(configs, cycles, strict=True))
        self.measured.update(found)
        self._observe(found)
        if before:
            gained = (before - self.cycles) / len(configs)
            old = gained if self._gain is None else self._gain
            self._gain = _FADING * old + (1 - _FADING) * gained

    def settle(self, setting: Setting) -> None:
        """Measure again what seems best, where measurements have noise: the least of many is often
        luck. The largest of several measurements counts, and then another one may be the best."""
        settled = Counter({self.default: _SETTLED})
        while setting.place.unit.noise and self.best is not None:
            config, cycles = self.best
            if settled[config] >= _SETTLED:
                return
            settled[config] += 1
            del self.measured[config]
            self.measure([config], setting)
            again = self.measured[config]
            self.measured[config] = None if again is None else max(again, cycles)

    def replay(self, unit: Unit = CYCLES) -> None:
        """Measure the best configuration again, if it is from an earlier run and exact.

        Raises
        ------
        TuningError
            It does not take the recorded cycles.
        """
        if (
            unit.noise
            or self.best is None
            or list(self.measured).index(self.best[0]) >= self.num_known
        ):
            return
        config, recorded = self.best
        (result,) = self._results([config])
        (found,) = cycles_of([config], [self._measured_here(config, result)])
        if found != recorded:
            raise TuningError(
                f"a record must replay, and {config} of layer {self.layers[0]!r} takes {found} "
                f"{unit.name}, not {recorded}; choose another database and tune again"
            )

    def _measured_here(self, config: Config, result: Result) -> Result:
        """The result of a configuration that is known to end, though its process was ended."""
        if self._here is not None and result.failure in (Failure.TIMEOUT, Failure.CRASH):
            return self._here(config)
        return result

    def _observe(self, found: dict[Config, int | None]) -> None:
        try:
            self._search.observe(list(found), list(found.values()))
        except ScheduleError as error:
            raise TuningError(
                f"records must be of this layer's schedules, and one of {self.layers[0]!r} is not: "
                f"{error}; choose another database and tune again"
            ) from error


def make_tasks(
    target: TuningTarget,
    setting: Setting,
    seed: int,
    make_model: Callable[[Columns], SearchModel],
) -> list[Task]:
    """The kinds of layers that have more than one schedule, in the order of the network.

    `make_model` makes the model that guides one search, from the features that all configurations
    of its space have.
    """
    return [_make_task(kind, setting, seed, make_model) for kind in target.kinds()]


def _make_task(
    kind: Kind, setting: Setting, seed: int, make_model: Callable[[Columns], SearchModel]
) -> Task:
    space = kind.space
    records = setting.records(kind.workload)
    runner = kind.runner(_default_of(records, space))
    return Task(
        kind.layers,
        space,
        runner.results,
        Guided(space, make_model(kind.columns(space.all())), seed=seed),
        kind.workload,
        known_of(records, space, runner.limit_seconds),
        kind.bound,
        columns=kind.columns,
        here=kind.here,
        limit_seconds=runner.limit_seconds,
    )


def _default_of(records: Sequence[Record], space: Space) -> int | None:
    """What an earlier run measured of the default, if one did."""
    default = space.default
    found = [item.cycles for item in records if space.complete(item.config) == default]
    return found[0] if found else None


def known_of(records: Sequence[Record], space: Space, limit_seconds: float) -> Known:
    """What earlier runs measured, completed, in their order as far as seconds tell it.

    A failure of the default does not count, unless it does not build: it is measured again.
    """
    measured: dict[Config, int | None] = {}
    again = []
    for item in sorted(records, key=lambda item: item.when):
        if item.failure == UNVERIFIED and not _fits(space, item.config):
            continue  # the other version had other schedules
        config = space.complete(item.config)
        is_slow = item.failure == Failure.TIMEOUT and limit_seconds > item.limit_seconds
        is_default = config == space.default and item.failure != Failure.BUILD
        if item.cycles is None and (item.failure == UNVERIFIED or is_slow or is_default):
            again.append(config)
        else:
            measured[config] = item.cycles
    return Known(measured, tuple(again))


def _fits(space: Space, config: Config) -> bool:
    """Whether a configuration is one of the space, and can be built."""
    try:
        return bool(space.fits(space.table([config]))[0])
    except ScheduleError:
        return False
