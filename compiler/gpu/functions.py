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
from daedal.compiler.gpu.architectures import have_group_products
from daedal.compiler.gpu.images import check_kernel
from daedal.compiler.gpu.kept_texts import KeptTexts
from daedal.compiler.ops.cpu.merge import merged
from daedal.compiler.ops.gpu.attention_tiles import attention_tiles
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.ops.gpu.rows import row_tiles
from daedal.compiler.ops.gpu.tensor_cores import choose_core_tiles
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.expr import Buffer, Cast, Expr, Load, Reduce
from daedal.compiler.tir.visit import rewrite
from daedal.compiler.tir.warp_products import GROUP_PRODUCTS, WARP_PRODUCTS
from daedal.native.cache import ObjectCache

__all__ = ["GpuFunctions"]

_CORES = {
    f"@gpu.{item.name}{end}": item.dtype
    for products, end in ((WARP_PRODUCTS, "("), (GROUP_PRODUCTS, "."))
    for item in products.values()
}
"""Calls of tensor cores, and the dtype of their products."""


class GpuFunctions:
    """Kernels, each scheduled and written once for all architectures.

    Parameters
    ----------
    architectures : that every kernel must have code for. Where one of them is OpenCL, kernels have
        no instructions of whole warps, and where all of NVIDIA's have products of matrices of
        groups of warps, kernels may have these.
    processor : has the functions of kernels that one of the architectures has no code for; without
        it, such a kernel is an error.
    checked : whether accesses are announced to the emulator's detectors.
    configs : schedules, by the keys of their workloads.
    cache : keeps the texts of kernels; None: nothing does.
    half : dtype of 16 bits; products of float32 that tensor cores can compute of it are. Empty for
        none.

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
        cache: ObjectCache | None = None,
        half: str = "",
    ) -> None:
        self._has_warps = SPIRV not in architectures
        self._has_groups = have_group_products(architectures)
        self.half = half if self._has_warps else ""
        self._architectures = tuple(architectures)
        self._processor = processor
        self._configs = configs
        self.uses: dict[str, KernelUse] = {}
        self._checked = checked
        self._kept = KeptTexts(cache, f"{self._architectures} {checked}")
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
        return tuple(map(_launched, self.texts))

    @property
    def on_processor(self) -> tuple[ProcessorKernel, ...]:
        """The functions that the processor runs."""
        return tuple(self._left.values())

    def takes(self, kernel: Kernel) -> bool:
        """Whether one kernel computes an attention, or rows, on all architectures."""
        if kernel.scores is None:
            found = row_tiles(kernel, has_vectors=self._has_warps) is not None
        else:
            found = attention_tiles(kernel, has_warps=self._has_warps) is not None
        try:
            return found and bool(self._function(kernel))
        except (UnsupportedError, ScheduleError):
            return False

    def narrows(self, sums: te.Tensor) -> bool:
        """Whether tensor cores compute a sum of products, of operands of `half`."""
        sums, _ = merged(sums, None)
        formula = sums.value
        assert isinstance(formula, Reduce)
        halves = rewrite(formula.value, self._halved)
        return choose_core_tiles(halves, sums.axes, formula.axes) is not None

    def _halved(self, node: Expr) -> Expr | None:
        """An element as one of `half` would be read."""
        if not isinstance(node, Load):
            return None
        buffer = Buffer(node.buffer.name, node.buffer.shape, self.half)
        return Cast(node.dtype, Load(buffer, node.indices, node.pad_value))

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
        function = self._function(kernel)
        use = self.uses.setdefault(kernel.key, KernelUse(kernel, (), []))
        use.names.append(kernel.name)
        return function

    def _function(self, kernel: Kernel) -> Function:
        if kernel.key not in self._functions:
            self._functions[kernel.key] = self._written(kernel)
        return self._functions[kernel.key]

    def _on_processor(self, kernel: Kernel, processor: Functions, error: UserError) -> Function:
        """The processor's function of a kernel, whose operands lie as for the GPU."""
        function = processor.of(kernel, ())
        new = ProcessorKernel(function.symbol, first_line(error))
        self._left.setdefault(function.symbol, new)
        return function

    def _written(self, kernel: Kernel) -> Function:
        config = self._config(kernel)
        text = self._kept.get(kernel, config, lambda: self._text(kernel, config))
        launch = f"{text.grid} {text.block} {text.shared_bytes} {text.maps}\n{text.text}"
        symbol = f"k{hashlib.sha256(launch.encode()).hexdigest()[:16]}"
        self._texts[symbol] = replace(text, symbol=symbol)
        return Function(symbol)

    def _text(self, kernel: Kernel, config: Config | None) -> KernelText:
        """Scheduled and written, for all architectures."""
        func = gpu_kernel_function(
            kernel, has_warps=self._has_warps, has_groups=self._has_groups, config=config
        )
        text = kernel_text(func, "", checked=self._checked)
        for architecture in self._architectures:
            check_kernel(text, architecture)
        return text


def _launched(text: KernelText) -> GpuKernel:
    """How a kernel is launched, and what it does."""
    cores = (dtype for mark, dtype in _CORES.items() if mark in text.text)
    return GpuKernel(
        text.symbol,
        text.grid,
        text.block,
        text.shared_bytes,
        text.local_bytes,
        next(cores, ""),
        text.maps,
    )
