"""`GpuFunctions`: the kernels of a GPU; kernels of equal structure are one."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from daedal.artifact.gpu_code import GpuKernel
from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.cpu.frame import Frame
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.cpu.steps import Function
from daedal.compiler.cpu.workload import KernelUse, kernel_workload
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.expr import Buffer

__all__ = ["GpuFunctions"]


class GpuFunctions:
    """Kernels, each scheduled and written once for all architectures.

    Parameters
    ----------
    checked : whether accesses are announced to the emulator's detectors.
    has_warps : whether all architectures have instructions of whole warps.
    configs : schedules, by the keys of their workloads.

    Attributes
    ----------
    uses : the kernels, in the order in which they were first asked for.

    Raises UnsupportedError for a kernel that GPUs have no code for.
    """

    takes_copies = False
    converts_constants = False

    def __init__(
        self,
        *,
        checked: bool,
        has_warps: bool = True,
        configs: Mapping[str, Config] = MappingProxyType({}),
    ) -> None:
        self._configs = configs
        self.uses: dict[str, KernelUse] = {}
        self._checked = checked
        self._has_warps = has_warps
        self._functions: dict[str, Function] = {}
        self._texts: dict[str, KernelText] = {}

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

    def of(self, kernel: Kernel, _constants: Collection[Buffer] = ()) -> Function:
        """The function of a kernel. Constants keep their layout."""
        if kernel.key not in self._functions:
            self._functions[kernel.key] = self._written(kernel)
            self.uses[kernel.key] = KernelUse(kernel, (), [])
        self.uses[kernel.key].names.append(kernel.name)
        return self._functions[kernel.key]

    def border(self, frame: Frame, dtype: str) -> Function:
        """Never asked for: no kernel stores inside pads."""
        raise AssertionError(f"a border of {frame} of {dtype}")

    def placed(self, frame: Frame, dtype: str) -> Function:
        """The function that copies a tensor into `frame`."""
        source = te.placeholder(frame.inner, dtype, "x0")
        result = te.compute(frame.inner, lambda *i: source[i], "y")
        return self.of(Kernel((source,), result, frame=frame))

    def _written(self, kernel: Kernel) -> Function:
        config = self._configs.get(kernel_workload(kernel, ()).key) if self._configs else None
        func = gpu_kernel_function(kernel, has_warps=self._has_warps, config=config)
        text = kernel_text(func, "", checked=self._checked)
        launch = f"{text.grid} {text.block} {text.shared_bytes}\n{text.text}"
        symbol = f"k{hashlib.sha256(launch.encode()).hexdigest()[:16]}"
        self._texts[symbol] = replace(text, symbol=symbol)
        return Function(symbol)
