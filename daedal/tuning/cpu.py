"""`CpuTuning`: the kernels of a model on this processor, measured in nanoseconds."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import onnx

from daedal.artifact.host_code import HostCode
from daedal.compiler.artifact.whole_host import whole_part
from daedal.compiler.cpu.build import build_host_code, level_factors
from daedal.compiler.cpu.functions import Functions, KernelUse, level_registers
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.cpu.kernel import kernel_space
from daedal.compiler.cpu.steps import program_code
from daedal.compiler.cpu.workload import kernel_workload
from daedal.compiler.frontend.reader import read_model, source_of
from daedal.compiler.frontend.shapes import bind_shapes
from daedal.compiler.ops.cpu.reuse import Registers
from daedal.compiler.ops.space import Config
from daedal.compiler.targets.names import CPU
from daedal.compiler.tir.expr import Reduce
from daedal.compiler.tir.visit import loads
from daedal.compiler.tune.features import shared_columns
from daedal.native.cache import ObjectCache
from daedal.native.cpu import host_cpu, model_name
from daedal.native.levels import host_level
from daedal.runtime.host_code import HostProgram
from daedal.tuning.kernel_clock import ROUNDS
from daedal.tuning.kernel_runner import KernelRunner
from daedal.tuning.runner import Runner
from daedal.tuning.selection import all_selected, digest_of_model, selected_configs
from daedal.tuning.stopwatch import Stopwatch
from daedal.tuning.target import NANOSECONDS, Kind, NetworkCycles, Place, Setting, TuningTarget

__all__ = ["CpuTuning", "processor_place", "recorded_kernels", "time_networks"]

_ONE_THREAD = "one-thread"


def processor_place() -> Place:
    """Records of this processor. Raises UserError where LLVM has no level for it."""
    name = f"{host_level()} {model_name() or host_cpu().name}"
    return Place(CPU, name[:100], _ONE_THREAD, NANOSECONDS, machine="processor", title=name)


def time_networks(codes: Sequence[HostCode]) -> list[list[int]]:
    """(networks, rounds): nanoseconds of one thread for zeros as inputs, in turn."""
    programs = [HostProgram(code, threads=1) for code in codes]
    feeds = {
        name: np.zeros(program.array(code.names[name]).shape, code.buffers[code.names[name]].dtype)
        for code, program in zip(codes[:1], programs, strict=False)
        for name in code.inputs
    }
    found: list[list[int]] = [[] for _ in programs]
    for number in range(-1, ROUNDS):
        for program, taken in zip(programs, found, strict=True):
            begin = time.perf_counter_ns()
            program.run(feeds)
            if number >= 0:  # the first round reads code and constants into memory
                taken.append(max(time.perf_counter_ns() - begin, 1))
    return found


class CpuTuning(TuningTarget):
    """The kernels of `model`, which is compiled for the best level of this processor.

    Raises
    ------
    ModelError
        As `daedal.compile`.
    UserError
        LLVM has no level for this processor.
    """

    title = "this processor"

    def __init__(
        self,
        model: str | Path | bytes,
        stopwatch: Stopwatch,
        *,
        networks: Callable[[Sequence[HostCode]], list[list[int]]] = time_networks,
    ) -> None:
        self.place = processor_place()
        self.digest = digest_of_model(model)
        self._level = host_level()
        self._stopwatch = stopwatch
        self._networks = networks
        checked = bind_shapes(read_model(source_of(model), loops=True), {})
        self._model = onnx.ModelProto.FromString(whole_part(checked))
        self._default: tuple[HostCode, int] | None = None

    def kinds(self) -> list[Kind]:
        """See `TuningTarget`."""
        registers = level_registers(self._level)
        found = (self._kind(use, registers) for use in self._uses)
        return [kind for kind in found if kind is not None]

    def count(self, configs: Mapping[str, Config]) -> NetworkCycles:
        """See `TuningTarget`; in turn with the network without configurations."""
        code = self._code(configs)
        if self._default is None:
            default = code if not configs else self._code({})
            (times,) = self._networks([default])
            self._default = default, round(statistics.median(times))
        default, nanoseconds = self._default
        if not configs:
            return NetworkCycles(nanoseconds, {})
        before, after = self._networks([default, code])
        share = statistics.median(one / other for one, other in zip(after, before, strict=True))
        return NetworkCycles(max(round(nanoseconds * share), 1), {})

    def _code(self, configs: Mapping[str, Config]) -> HostCode:
        return build_host_code(self._model, levels=(self._level,), configs=configs)

    @cached_property
    def _uses(self) -> list[KernelUse]:
        """The kernels of the model, in their order."""
        functions = Functions((self._level,), ObjectCache(), checked=False)
        program = import_model(self._model, None, level_factors((self._level,)), None)
        program_code(program, functions)
        return list(functions.uses.values())

    def _kind(self, use: KernelUse, registers: Registers) -> Kind | None:
        """A kernel with several schedules; None for others, and where random operands are no
        indices."""
        space = None if _gathers(use) else kernel_space(use.kernel, use.free, registers)
        if space is None:
            return None
        workload = kernel_workload(use.kernel, use.free)
        machine = {
            "machine vector_bytes": float(np.log2(registers.vector_bytes)),
            "machine registers": float(np.log2(registers.count)),
        }

        def runner(nanoseconds: int | None) -> Runner:
            return KernelRunner(
                use, workload, self._level, space.default, self._stopwatch, nanoseconds
            )

        columns = partial(shared_columns, space, machine=machine)
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
