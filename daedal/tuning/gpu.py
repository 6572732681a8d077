"""`GpuTuning`: the kernels of a model on a GPU of this machine, measured in nanoseconds."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from daedal.common.errors import UserError
from daedal.compiler.cpu.functions import Functions
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.cpu.steps import program_code
from daedal.compiler.cpu.workload import KernelUse
from daedal.compiler.gpu.architectures import best_architecture, have_group_products
from daedal.compiler.gpu.build import build_gpu_code
from daedal.compiler.gpu.functions import GpuFunctions
from daedal.compiler.gpu.images import gpu_images
from daedal.compiler.gpu.support import check_gpu_code
from daedal.compiler.ops.gpu.kernel import GpuSpace, gpu_kernel_space
from daedal.compiler.ops.graph.factors import SINGLES
from daedal.compiler.ops.space import Config
from daedal.compiler.targets.names import GPU
from daedal.devices import find_gpu
from daedal.native.cache import NoCache
from daedal.native.levels import host_level
from daedal.runtime.gpu_device import GpuDevice
from daedal.runtime.gpu_program import GpuProgram
from daedal.tuning.gpu_stopwatch import ClockedGpu, GpuKernelCode, GpuStopwatch
from daedal.tuning.kernel_code import KernelInput
from daedal.tuning.kernels import KernelTuning, Run, time_runs
from daedal.tuning.stopwatch import Stopwatch
from daedal.tuning.target import NANOSECONDS, Place

__all__ = ["GpuTuning", "gpu_place", "gpu_to_tune"]


def gpu_to_tune() -> ClockedGpu:
    """A GPU of this machine. Raises UserError where there is none."""
    found = find_gpu()
    if found is None or not hasattr(found, "seconds"):
        raise UserError(
            "schedules of GPUs are measured on a GPU, and this machine has none that is known; "
            "`daedal doctor` tells more"
        )
    return cast(ClockedGpu, found)


def gpu_place(gpu: GpuDevice) -> Place:
    """Records of a GPU. Raises UserError where no kernels can be compiled for it."""
    name = f"{_architecture(gpu)} {gpu.name}".encode("ascii", "replace").decode()
    return Place(GPU, name[:100], "graph", NANOSECONDS, machine="GPU", title=name)


class GpuTuning(KernelTuning):
    """The kernels of `model` on `gpu`. Raises as `gpu_place`, and ModelError as
    `daedal.compile`."""

    title = "this GPU"

    def __init__(
        self,
        model: str | Path | bytes,
        gpu: ClockedGpu,
        *,
        stopwatch: Stopwatch[GpuKernelCode] | None = None,
        networks: Callable[[Sequence[Run]], list[list[int]]] = time_runs,
    ) -> None:
        self._gpu = gpu
        self._architecture = _architecture(gpu)
        clock = GpuStopwatch(gpu) if stopwatch is None else stopwatch
        super().__init__(model, gpu_place(gpu), clock, networks, {})

    def uses(self) -> list[KernelUse]:
        """See `KernelTuning`."""
        processor = Functions((host_level(),), NoCache(), checked=False)
        functions = GpuFunctions((self._architecture,), processor, checked=False)
        program = import_model(self.model, factors=SINGLES, check=check_gpu_code, attentions=True)
        program_code(program, functions)
        return list(functions.uses.values())

    def space(self, use: KernelUse) -> GpuSpace | None:
        """See `KernelTuning`."""
        has_groups = have_group_products([self._architecture])
        return gpu_kernel_space(use.kernel, has_groups=has_groups)

    def build(self, use: KernelUse, configs: Mapping[str, Config]) -> GpuKernelCode:
        """See `KernelTuning`."""
        kernel = use.kernel
        functions = GpuFunctions((self._architecture,), checked=False, configs=configs)
        functions.of(kernel)
        (launch,), (image,) = (
            functions.kernels,
            gpu_images(functions.texts, self._architecture, NoCache()),
        )
        inputs = tuple(KernelInput(item.dtype, item.shape, None) for item in kernel.inputs)
        shape = kernel.result.shape if kernel.frame is None else kernel.frame.outer
        return GpuKernelCode(launch, image, inputs, kernel.result.dtype, shape)

    def network(self, configs: Mapping[str, Config]) -> Run:
        """See `KernelTuning`: zeros as inputs, which are copied to the GPU each time."""
        code = build_gpu_code(self.model, architectures=(self._architecture,), configs=configs)
        program = GpuProgram(code, self._gpu)
        return partial(program.run, self.zeros())


def _architecture(gpu: GpuDevice) -> str:
    found = best_architecture(gpu.architectures)
    if found is None:
        raise UserError(f"no kernels can be compiled for {gpu.name}; `daedal doctor` tells more")
    return found
