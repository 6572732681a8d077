"""`Functions`: the machine code of kernels; kernels of equal structure have one function."""

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from daedal.compiler.codegen.llvm.function import function_text, parallel_extent
from daedal.compiler.cpu.frame import Frame
from daedal.compiler.cpu.kernel import Kernel, kernel_function
from daedal.compiler.cpu.steps import Function
from daedal.compiler.cpu.work import kernel_nanoseconds
from daedal.compiler.cpu.workload import KernelUse, kernel_workload
from daedal.compiler.ops.cpu.reuse import NARROW, WIDEST, Registers
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.expr import Buffer
from daedal.native.cache import ObjectCache
from daedal.native.codegen import compile_text, compile_vectors
from daedal.native.levels import level_cpu

__all__ = ["Functions", "level_registers"]


class Functions:
    """Functions of kernels, each scheduled once for the registers of each level.

    All levels read the same layouts of constants: those of the narrowest registers.

    Parameters
    ----------
    levels : what object code is made for.
    checked : whether indices are checked at run time.
    configs : schedules for the best of the levels, by the keys of their workloads.

    Attributes
    ----------
    uses : the kernels, in the order in which they were first asked for.
    """

    takes_copies = True
    converts_constants = True

    def __init__(
        self,
        levels: Sequence[str],
        cache: ObjectCache,
        *,
        checked: bool,
        configs: Mapping[str, Config] = MappingProxyType({}),
    ) -> None:
        self._levels = tuple(levels)
        self._cache = cache
        self._checked = checked
        self._configs = configs
        self.uses: dict[str, KernelUse] = {}
        self._registers = sorted(
            {level_registers(level) for level in self._levels}, key=lambda item: item.vector_bytes
        )
        self._functions: dict[str, Function] = {}
        self._texts: dict[str, dict[Registers, tuple[str, bool]]] = {}

    def takes(self, _kernel: Kernel) -> bool:
        """No kernel of attention."""
        return False

    def of(self, kernel: Kernel, constants: Collection[Buffer]) -> Function:
        """The function of a kernel; the layout of those of its sources in `constants` is free."""
        pairs = zip(kernel.inputs, kernel.sources, strict=True)
        free = [item for item, source in pairs if source in constants]
        key = f"{kernel.key}; {[item.name for item in free]}"
        if key not in self._functions:
            self._functions[key] = self._compiled(kernel, free)
            self.uses[key] = KernelUse(kernel, tuple(free), [])
        self.uses[key].names.append(kernel.name)
        return self._functions[key]

    def border(self, frame: Frame, dtype: str) -> Function:
        """The function that stores what lies around a tensor in `frame`."""
        func = frame.border(dtype)
        text = function_text(func, "SYMBOL", checked=self._checked)
        symbol = f"k{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        plain = text.replace("@SYMBOL", f"@{symbol}"), False
        self._texts[symbol] = dict.fromkeys(self._registers, plain)
        elements = math.prod(frame.outer) - math.prod(frame.inner)
        return Function(symbol, (), parallel_extent(func), elements // 2)

    def placed(self, frame: Frame, dtype: str) -> None:
        """None: processors copy rows (`native.row_copies`)."""

    def objects(self, level: str) -> tuple[bytes, ...]:
        """Object files with all functions."""
        cpu = level_cpu(level)
        return tuple(
            self._cache.get(
                f"{level}\n{text}", partial(compile_vectors if tiled else compile_text, text, cpu)
            )
            for text, tiled in (item[level_registers(level)] for item in self._texts.values())
        )

    def _compiled(self, kernel: Kernel, free: Sequence[Buffer]) -> Function:
        config = self._configs.get(kernel_workload(kernel, free).key) if self._configs else None
        # What was tuned decides on layouts; otherwise the narrowest registers do.
        first, *others = self._registers if config is None else reversed(self._registers)
        scheduled = kernel_function(kernel, free, first, config=config)
        iterations = parallel_extent(scheduled.func)
        kernels = {first: scheduled}
        kernels |= {other: kernel_function(kernel, free, other, scheduled) for other in others}
        texts = {
            registers: function_text(
                item.func, "SYMBOL", checked=self._checked, iterations=iterations
            )
            for registers, item in kernels.items()
        }
        digest = hashlib.sha256("\n".join(texts.values()).encode()).hexdigest()
        symbol = f"k{digest[:16]}"
        self._texts[symbol] = {
            registers: (text.replace("@SYMBOL", f"@{symbol}"), kernels[registers].tiled)
            for registers, text in texts.items()
        }
        moved = tuple((kernel.inputs.index(tensor), how) for tensor, how in scheduled.moved)
        time = kernel_nanoseconds(kernel, self._registers[-1], tiled=scheduled.tiled)
        return Function(symbol, moved, iterations, time, scheduled.held, scheduled.rounds)


def level_registers(level: str) -> Registers:
    """The vector registers that code of a level uses."""
    return WIDEST if level.startswith("x86-64-v4") else NARROW
