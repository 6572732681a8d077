"""`GpuFunctions`: the kernels of a GPU; kernels of equal structure are one."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from daedal.artifact.gpu_code import SPIRV, GpuKernel, ProcessorKernel
from daedal.common.errors import ScheduleError, UnsupportedError, UserError, first_line
from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.cpu.frame import Frame
from daedal.compiler.cpu.functions import Functions
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.cpu.steps import Function
from daedal.compiler.cpu.workload import KernelUse, kernel_workload
from daedal.compiler.gpu.images import check_kernel
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.expr import Buffer

__all__ = ["GpuFunctions"]


class GpuFunctions:
    """Kernels, each scheduled and written once for all architectures.

    Parameters
    ----------
    architectures : that every kernel must have code for. Where one of them is OpenCL, kernels have
        no instructions of whole warps.
    processor : has the functions of kernels that one of the architectures has no code for; without
        it, such a kernel is an error.
    checked : whether accesses are announced to the emulator's detectors.
    configs : schedules, by the keys of their workloads.

    Attributes
    ----------
    uses : the kernels of the GPU, in the order in which they were first asked for.

    Raises UnsupportedError for a kernel that GPUs have no code for.
    """

    takes_copies = False
    converts_constants = False

    def __init__(
        self,
        architectures: Sequence[str] = (),
        processor: Functions | None = None,
        *,
        checked: bool,
        configs: Mapping[str, Config] = MappingProxyType({}),
    ) -> None:
        self._architectures = tuple(architectures)
        self._processor = processor
        self._configs = configs
        self.uses: dict[str, KernelUse] = {}
        self._checked = checked
        self._functions: dict[str, Function] = {}
        self._texts: dict[str, KernelText] = {}
        self._left: dict[str, ProcessorKernel] = {}

    @property
    def texts(self) -> tuple[KernelText, ...]:
        """Of all kernels, each once."""
        return tuple(self._texts.values())

    @property
    def kernels(self) -> tuple[GpuKernel, ...]:
        """How each of `texts` is launched."""
        return tuple(
            GpuKernel(item.symbol, item.grid, item.block, item.shared_bytes) for item in self.texts
        )

    @property
    def on_processor(self) -> tuple[ProcessorKernel, ...]:
        """The functions that the processor runs."""
        return tuple(self._left.values())

    def of(self, kernel: Kernel, _constants: Collection[Buffer] = ()) -> Function:
        """The function of a kernel. Constants keep their layout."""
        try:
            return self._on_gpu(kernel)
        except (UnsupportedError, ScheduleError) as error:
            if self._processor is None or self._config(kernel) is not None:
                raise
            return self._on_processor(kernel, self._processor, error)

    def border(self, frame: Frame, dtype: str) -> Function:
        """Never asked for: no kernel stores inside pads."""
        raise AssertionError(f"a border of {frame} of {dtype}")

    def placed(self, frame: Frame, dtype: str) -> Function | None:
        """The function that copies a tensor into `frame`; None where GPUs have no code for it: the
        processor joins tensors then."""
        source = te.placeholder(frame.inner, dtype, "x0")
        result = te.compute(frame.inner, lambda *i: source[i], "y")
        kernel = Kernel((source,), result, frame=frame)
        try:
            return self._on_gpu(kernel)
        except UnsupportedError:
            if self._processor is None:
                raise
            return None

    def _config(self, kernel: Kernel) -> Config | None:
        return self._configs.get(kernel_workload(kernel, ()).key) if self._configs else None

    def _on_gpu(self, kernel: Kernel) -> Function:
        if kernel.key not in self._functions:
            self._functions[kernel.key] = self._written(kernel)
            self.uses[kernel.key] = KernelUse(kernel, (), [])
        self.uses[kernel.key].names.append(kernel.name)
        return self._functions[kernel.key]

    def _on_processor(self, kernel: Kernel, processor: Functions, error: UserError) -> Function:
        """The processor's function of a kernel, whose operands lie as for the GPU."""
        function = processor.of(kernel, ())
        new = ProcessorKernel(function.symbol, (), first_line(error))
        left = self._left.get(function.symbol, new)
        self._left[function.symbol] = replace(left, names=(*left.names, kernel.name))
        return function

    def _written(self, kernel: Kernel) -> Function:
        has_warps = SPIRV not in self._architectures
        func = gpu_kernel_function(kernel, has_warps=has_warps, config=self._config(kernel))
        text = kernel_text(func, "", checked=self._checked)
        for architecture in self._architectures:
            check_kernel(text, architecture)
        launch = f"{text.grid} {text.block} {text.shared_bytes}\n{text.text}"
        symbol = f"k{hashlib.sha256(launch.encode()).hexdigest()[:16]}"
        self._texts[symbol] = replace(text, symbol=symbol)
        return Function(symbol)
