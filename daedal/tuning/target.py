"""`TuningTarget`: what a target gives the tuner.

A target names the kinds of layers of a network (`Kind`): for each, its schedules, what is known of
them before they run, and a `Runner` that measures them. It measures the whole network, too. The
tuner has the rest: searches, records, budgets and reports. `AcceleratorTuning`,
`CpuTuning` and `GpuTuning` are targets; docs/tuning.md says how to add one.
"""

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from daedal.common.errors import TuningError
from daedal.compiler.ops.space import Config, Space, Table
from daedal.compiler.tune.cost_model import Columns
from daedal.compiler.tune.database import Database
from daedal.compiler.tune.record import Record
from daedal.compiler.tune.workload import Workload
from daedal.tuning.runner import Failure, Result, Runner

if TYPE_CHECKING:
    from daedal.tuning.explanation import Explanation
    from daedal.tuning.task import Task

__all__ = [
    "CYCLES",
    "NANOSECONDS",
    "Kind",
    "NetworkCycles",
    "Place",
    "Setting",
    "TuningTarget",
    "Unit",
]


@dataclass(frozen=True)
class Unit:
    """What the numbers of results and records count; the tuner calls them cycles.

    Attributes
    ----------
    name : plural, for reports.
    noise : the share by which two measurements of one configuration may differ; 0: they are equal.
    """

    name: str
    noise: float = 0.0

    def is_less(self, found: int, other: int) -> bool:
        """Whether `found` is less than `other`, beyond the noise."""
        return found < other * (1 - self.noise)


CYCLES = Unit("cycles")
NANOSECONDS = Unit("ns", noise=0.03)


@dataclass(frozen=True)
class Place:
    """Where something is measured. Only records of the same place count.

    Attributes
    ----------
    target : one word.
    fingerprint : of the machine: a variant's, or the name of a processor.
    memory : key of the memory model (`isa.memory_file.memory_key`), or another condition.
    machine : what the machine is, such as ``variant``.
    title : of the machine with the condition, for sentences.
    """

    target: str
    fingerprint: str
    memory: str
    unit: Unit = CYCLES
    machine: str = "machine"
    title: str = ""


@dataclass(frozen=True)
class Setting:
    """Where configurations are measured, and where this is recorded."""

    place: Place
    database: Database

    def records(self, workload: Workload | None = None, target: str = "") -> list[Record]:
        """All records of the place, or those of a workload."""
        place = self.place
        return self.database.records(
            workload, place.fingerprint, place.memory, target or place.target
        )

    def record(
        self, workload: Workload, config: Config, result: Result, limit_seconds: float
    ) -> Record:
        """The record of one measurement, which could take `limit_seconds`."""
        place = self.place
        return Record(
            workload,
            place.fingerprint,
            place.memory,
            place.target,
            config,
            result.cycles,
            kit=self.database.kit,
            failure="" if result.failure is None else result.failure.value,
            limit_seconds=limit_seconds if result.failure is Failure.TIMEOUT else 0,
        )


@dataclass(frozen=True)
class Kind:
    """Layers that differ in nothing that their code depends on.

    Attributes
    ----------
    workload : the key of its records.
    layers : names in the network.
    space : its schedules; `space.default` is what the compiler chooses without records.
    columns : features for models, by `daedal.compiler.tune.features.shared_columns`.
    runner : makes what measures. It is told what the default took in an earlier run, if it is
        known: a clock's measurements are comparable as shares of that.
    bound : what no configuration can undercut, proved; None where nothing is.
    here : measures one configuration in this process, without a limit.
    """

    workload: Workload
    layers: tuple[str, ...]
    space: Space
    columns: Callable[[Table], Columns]
    runner: Callable[[int | None], Runner]
    bound: int | None = None
    here: Callable[[Config], Result] | None = None


@dataclass(frozen=True)
class NetworkCycles:
    """Cycles of all layers together, and of each kind of layer within the network, if known."""

    total: int
    kinds: Mapping[str, int]


class TuningTarget(abc.ABC):
    """A network on a target.

    Attributes
    ----------
    place : where it is measured.
    digest : SHA-256 of the model.
    title : what runs the layers, for sentences.
    """

    place: Place
    digest: str
    title: str

    @abc.abstractmethod
    def kinds(self) -> Sequence[Kind]:
        """Those with more than one schedule, in the order of the network.

        Raises
        ------
        DaedalError
            The network cannot be compiled.
        """

    @abc.abstractmethod
    def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
        """What the network takes with `configs`, by the keys of workloads."""

    def explain(self, tasks: Sequence["Task"], layer: str, setting: Setting) -> "Explanation":
        """Why the best schedule of a layer wins. Raises TuningError where nothing can tell."""
        del tasks, setting
        raise TuningError(
            f"only layers on the accelerator can be explained, and {layer!r} runs on {self.title}; "
            "leave out --explain"
        )
