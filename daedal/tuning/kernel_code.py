"""`KernelCode`: machine code of one kernel and what it reads and writes, for another process."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from daedal.compiler.cpu.functions import Functions
from daedal.compiler.cpu.kernel import Moved
from daedal.compiler.cpu.workload import KernelUse
from daedal.compiler.ops.space import Config
from daedal.native.cache import NoCache

__all__ = ["KernelCode", "KernelInput", "build_kernel"]


@dataclass(frozen=True)
class KernelInput:
    """An operand; `moved` is the layout that the code reads it in, None for rows."""

    dtype: str
    shape: tuple[int, ...]
    moved: Moved | None


@dataclass(frozen=True)
class KernelCode:
    """``symbol(addresses of inputs and result, 0, iterations)`` of the object files."""

    objects: tuple[bytes, ...]
    symbol: str
    inputs: tuple[KernelInput, ...]
    dtype: str
    shape: tuple[int, ...]
    iterations: int


def build_kernel(
    use: KernelUse, level: str, configs: Mapping[str, Config] = MappingProxyType({})
) -> KernelCode:
    """The code of a kernel for a level of processors, with `configs` as `Functions` takes them.

    Raises ScheduleError where a configuration is none of the kernel's.
    """
    kernel = use.kernel
    functions = Functions((level,), NoCache(), checked=False, configs=configs)
    function = functions.of(kernel, use.constants)
    moved = dict(function.moved)
    inputs = tuple(
        KernelInput(item.dtype, item.shape, moved.get(position))
        for position, item in enumerate(kernel.inputs)
    )
    shape = kernel.result.shape if kernel.frame is None else kernel.frame.outer
    return KernelCode(
        functions.objects(level),
        function.symbol,
        inputs,
        kernel.result.dtype,
        shape,
        function.iterations,
    )
