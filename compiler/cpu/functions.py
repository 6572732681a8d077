"""`Functions`: the machine code of kernels; kernels of equal structure have one function."""

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from daedal.compiler import te
from daedal.compiler.codegen.llvm.function import function_text, parallel_extent
from daedal.compiler.cpu.frame import Frame
from daedal.compiler.cpu.kernel import Kernel, kernel_function
from daedal.compiler.cpu.steps import Function
from daedal.compiler.cpu.work import kernel_nanoseconds
from daedal.compiler.cpu.workload import KernelUse, kernel_workload
from daedal.compiler.ops.cpu.reuse import NARROW, TILED, WIDEST, Registers
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.expr import Buffer
from daedal.native.cache import ObjectCache
from daedal.native.levels import AMX
from daedal.native.object_compiler import ObjectCompiler, PendingObject

__all__ = ["Functions", "level_registers"]


class Functions:
    """Functions of kernels, each scheduled once, for the narrowest registers of the levels.

    Parameters
    ----------
    levels : what object code is made for.
    checked : whether indices are checked at run time.
    configs : schedules, by the keys of their workloads.
    compiler : of object code; None: of this process alone, where it is asked for.
    registers : that schedules are for; None: the narrowest of `levels`.

    Attributes
    ----------
    uses : the kernels, in the order in which they were first asked for.
    uses_tiles : whether one of them computes products in tile registers.
    """

    takes_copies = True
    half = ""
    converts_constants = True

    def __init__(
        self,
        levels: Sequence[str],
        cache: ObjectCache,
        *,
        checked: bool,
        configs: Mapping[str, Config] = MappingProxyType({}),
        compiler: ObjectCompiler | None = None,
        registers: Registers | None = None,
    ) -> None:
        self._compiler = compiler or ObjectCompiler(cache, children=0)
        self._checked = checked
        self._configs = configs
        self.uses: dict[str, KernelUse] = {}
        self.uses_tiles = False
        self._registers = registers or min(
            map(level_registers, levels), key=lambda item: (item.vector_bytes, item.tiles)
        )
        self._functions: dict[str, Function] = {}
        self._objects: dict[str, list[PendingObject]] = {level: [] for level in levels}
        self._symbols: set[str] = set()

    def takes(self, _kernel: Kernel) -> bool:
        """No kernel of attention."""
        return False

    def narrows(self, _sums: te.Tensor) -> bool:
        """No product."""
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
        symbol = self._add(text, tiled=False)
        elements = math.prod(frame.outer) - math.prod(frame.inner)
        return Function(symbol, (), parallel_extent(func), elements // 2)

    def placed(self, frame: Frame, dtype: str) -> None:
        """None: processors copy rows (`native.row_copies`)."""

    def objects(self, level: str) -> tuple[bytes, ...]:
        """Object files with all functions."""
        return tuple(item.result() for item in self._objects[level])

    def _add(self, text: str, *, tiled: bool) -> str:
        """Have a text compiled, each once; the symbol that its function gets instead of SYMBOL."""
        symbol = f"k{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        if symbol not in self._symbols:
            self._symbols.add(symbol)
            named = text.replace("@SYMBOL", f"@{symbol}")
            for level, objects in self._objects.items():
                objects.append(self._compiler.submit(named, level, tiled=tiled))
        return symbol

    def _compiled(self, kernel: Kernel, free: Sequence[Buffer]) -> Function:
        config = self._configs.get(kernel_workload(kernel, free).key) if self._configs else None
        scheduled = kernel_function(kernel, free, self._registers, config=config)
        text = function_text(scheduled.func, "SYMBOL", checked=self._checked)
        symbol = self._add(text, tiled=scheduled.tiled)
        in_tiles = scheduled.tiles is not None and scheduled.tiles.product is not None
        self.uses_tiles = self.uses_tiles or in_tiles
        moved = tuple((kernel.inputs.index(tensor), how) for tensor, how in scheduled.moved)
        time = kernel_nanoseconds(kernel, self._registers, tiled=scheduled.tiled, in_tiles=in_tiles)
        iterations = parallel_extent(scheduled.func)
        return Function(
            symbol, moved, iterations, time, scheduled.held, scheduled.rounds, scheduled.common
        )


def level_registers(level: str) -> Registers:
    """The registers that code of a level uses."""
    if level.endswith(AMX):
        return TILED
    return WIDEST if level.startswith("x86-64-v4") else NARROW
