"""`CpuTuning`: the kernels of a model on this processor, measured in nanoseconds."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from daedal.compiler.cpu.build import build_host_code, level_factors
from daedal.compiler.cpu.functions import Functions, level_registers
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.cpu.kernel import kernel_space
from daedal.compiler.cpu.steps import program_code
from daedal.compiler.cpu.workload import KernelUse
from daedal.compiler.ops.cpu.space import TileSpace
from daedal.compiler.ops.space import Config
from daedal.compiler.targets.names import CPU
from daedal.native.cache import ObjectCache
from daedal.native.cpu import host_cpu, model_name
from daedal.native.levels import host_level
from daedal.runtime.host_code import HostProgram
from daedal.tuning.kernel_code import KernelCode, build_kernel
from daedal.tuning.kernels import KernelTuning, Run, time_runs
from daedal.tuning.stopwatch import Stopwatch
from daedal.tuning.target import NANOSECONDS, Place

__all__ = ["CpuTuning", "processor_place"]

_ONE_THREAD = "one-thread"


def processor_place() -> Place:
    """Records of this processor. Raises UserError where LLVM has no level for it."""
    name = f"{host_level()} {model_name() or host_cpu().name}"
    return Place(CPU, name[:100], _ONE_THREAD, NANOSECONDS, machine="processor", title=name)


class CpuTuning(KernelTuning):
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
        stopwatch: Stopwatch[KernelCode],
        *,
        networks: Callable[[Sequence[Run]], list[list[int]]] = time_runs,
    ) -> None:
        self._level = host_level()
        self._registers = level_registers(self._level)
        machine = {
            "machine vector_bytes": float(np.log2(self._registers.vector_bytes)),
            "machine registers": float(np.log2(self._registers.count)),
        }
        super().__init__(model, processor_place(), stopwatch, networks, machine)

    def uses(self) -> list[KernelUse]:
        """See `KernelTuning`."""
        functions = Functions((self._level,), ObjectCache(), checked=False)
        program = import_model(self.model, None, level_factors((self._level,)), None)
        program_code(program, functions)
        return list(functions.uses.values())

    def space(self, use: KernelUse) -> TileSpace | None:
        """See `KernelTuning`."""
        return kernel_space(use.kernel, use.free, self._registers)

    def build(self, use: KernelUse, configs: Mapping[str, Config]) -> KernelCode:
        """See `KernelTuning`."""
        return build_kernel(use, self._level, configs)

    def network(self, configs: Mapping[str, Config]) -> Run:
        """See `KernelTuning`: one thread, and zeros as inputs."""
        code = build_host_code(self.model, levels=(self._level,), configs=configs)
        program = HostProgram(code, threads=1)
        return partial(program.run, self.zeros())
