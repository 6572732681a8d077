"""`KernelUse`: a kernel of a model; `kernel_workload`: the key under which the tuner records it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tune.workload import Workload

__all__ = ["KernelUse", "kernel_workload"]


@dataclass(frozen=True)
class KernelUse:
    """A kernel of a model.

    Attributes
    ----------
    free : those of its inputs whose layout may be chosen.
    names : of what it computes, one for each call.
    """

    kernel: Kernel
    free: tuple[Buffer, ...]
    names: list[str]

    @property
    def constants(self) -> tuple[Buffer, ...]:
        """What the inputs in `free` stand for, as `Functions.of` takes it."""
        pairs = zip(self.kernel.inputs, self.kernel.sources, strict=True)
        return tuple(source for item, source in pairs if item in self.free)


def kernel_workload(kernel: Kernel, free: Sequence[Buffer]) -> Workload:
    """What the code of a kernel depends on: its formulas, and the inputs in `free`, whose layout
    may be chosen."""
    layouts = {item.name: "free" if item in free else "rows" for item in kernel.inputs}
    shapes = {item.name: item.shape for item in (*kernel.inputs, kernel.result)}
    digest = hashlib.sha256(kernel.key.encode()).hexdigest()
    return Workload.of("kernel", attributes={"formulas": digest}, shapes=shapes, layouts=layouts)
