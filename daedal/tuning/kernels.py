"""`KernelTuning`: kernels of a model on a machine with a clock, such as a processor or a GPU."""

import abc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import onnx

from daedal.compiler.artifact.whole_host import whole_part
from daedal.compiler.cpu.workload import KernelUse, kernel_workload
from daedal.compiler.frontend.reader import read_model, source_of
from daedal.compiler.frontend.shapes import bind_shapes
from daedal.compiler.ops.space import Config, Space
from daedal.compiler.tir.expr import Reduce
from daedal.compiler.tir.visit import loads
from daedal.compiler.tune.features import shared_columns
from daedal.runtime.host import Arrays, HostModel
from daedal.tuning.kernel_clock import ROUNDS
from daedal.tuning.kernel_runner import KernelRunner
from daedal.tuning.runner import Runner
from daedal.tuning.selection import all_selected, digest_of_model, selected_configs
from daedal.tuning.stopwatch import Stopwatch
from daedal.tuning.target import Kind, NetworkCycles, Place, Setting, TuningTarget

__all__ = ["KernelTuning", "recorded_kernels", "time_runs"]

Run = Callable[[], object]


def time_runs(runs: Sequence[Run]) -> list[list[int]]:
    """(runs, rounds): nanoseconds, in turn."""
    found: list[list[int]] = [[] for _ in runs]
    for number in range(-1, ROUNDS):
        for run, taken in zip(runs, found, strict=True):
            begin = time.perf_counter_ns()
            run()
            if number >= 0:  # the first round reads code and constants into memory
                taken.append(max(time.perf_counter_ns() - begin, 1))
    return found


class KernelTuning(TuningTarget):
    """The kernels of `model`.

    Parameters
    ----------
    stopwatch : runs and times kernels.
    networks : times whole networks, as `time_runs`.
    machine : features of the machine, for models.

    Raises
    ------
    ModelError
        As `daedal.compile`.
    """

    def __init__(
        self,
        model: str | Path | bytes,
        place: Place,
        stopwatch: Stopwatch[Any],
        networks: Callable[[Sequence[Run]], list[list[int]]],
        machine: Mapping[str, float],
    ) -> None:
        self.place = place
        self.digest = digest_of_model(model)
        checked = bind_shapes(read_model(source_of(model), loops=True), {})
        self.model = onnx.ModelProto.FromString(whole_part(checked))
        self._stopwatch = stopwatch
        self._networks = networks
        self._machine = machine

    @abc.abstractmethod
    def uses(self) -> Sequence[KernelUse]:
        """The kernels of the model, in their order."""

    @abc.abstractmethod
    def space(self, use: KernelUse) -> Space | None:
        """The schedules of a kernel; None where there is one only."""

    @abc.abstractmethod
    def build(self, use: KernelUse, configs: Mapping[str, Config]) -> Any:
        """The code of a kernel, for the stopwatch. Raises ScheduleError for another one's
        configuration."""

    @abc.abstractmethod
    def network(self, configs: Mapping[str, Config]) -> Run:
        """Runs the whole network with these schedules."""

    def zeros(self) -> Arrays:
        """Inputs of the network."""
        return HostModel(self.model.SerializeToString(), "the model that is tuned").zeros()

    def kinds(self) -> list[Kind]:
        """See `TuningTarget`."""
        found = (self._kind(use) for use in self.uses())
        return [kind for kind in found if kind is not None]

    def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
        """See `TuningTarget`; in turn with the network without configurations."""
        default, nanoseconds = self._default
        if not configs:
            return NetworkCycles(nanoseconds, {})
        before, after = self._networks([default, self.network(configs)])
        share = statistics.median(one / other for one, other in zip(after, before, strict=True))
        return NetworkCycles(max(round(nanoseconds * share), 1), {})

    @cached_property
    def _default(self) -> tuple[Run, int]:
        """The network without configurations, and its time."""
        run = self.network({})
        (times,) = self._networks([run])
        return run, round(statistics.median(times))

    def _kind(self, use: KernelUse) -> Kind | None:
        """A kernel with several schedules; None for others, and where random operands are no
        indices."""
        space = None if _gathers(use) else self.space(use)
        if space is None:
            return None
        workload = kernel_workload(use.kernel, use.free)
        default = space.default

        def runner(nanoseconds: int | None) -> Runner:
            build = partial(self.build, use)
            return KernelRunner(workload, build, default, self._stopwatch, nanoseconds)

        columns = partial(shared_columns, space, machine=self._machine)
        return Kind(workload, _titles(use), space, columns, runner)


def recorded_kernels(setting: Setting, model: str | Path | bytes) -> dict[str, Config]:
    """Configurations for `daedal.compile`, by the keys of their workloads.

    They are those that the tuner chose for `model`; if it was not tuned, those that it chose for
    equal kernels of others.
    """
    return selected_configs(setting, digest_of_model(model)) or all_selected(setting)


def _titles(use: KernelUse) -> tuple[str, ...]:
    """A name for each call: the model's, or the shape of the result."""
    tensors = [item for item in (use.kernel.result, use.kernel.reduction) if item is not None]
    shape = "x".join(map(str, tensors[0].shape))
    formula = tensors[-1].value
    assert isinstance(formula, Reduce), "other kernels have one schedule"
    terms = math.prod(axis.extent for axis in formula.axes)
    return tuple(name or f"{shape}, each of {terms} terms" for name in use.names)


def _gathers(use: KernelUse) -> bool:
    """Whether an index of the kernel depends on an element."""
    tensors = (use.kernel.result, use.kernel.reduction)
    return any(
        loads(index)
        for tensor in tensors
        if tensor is not None and tensor.value is not None
        for load in loads(tensor.value)
        for index in load.indices
    )
