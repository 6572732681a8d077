"""`kernel_workload`: the key under which the tuner records a kernel of a processor."""

import hashlib
from collections.abc import Sequence

from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tune.workload import Workload

__all__ = ["kernel_workload"]


def kernel_workload(kernel: Kernel, free: Sequence[Buffer]) -> Workload:
    """What the code of a kernel depends on: its formulas, and the inputs in `free`, whose layout
    may be chosen."""
    layouts = {item.name: "free" if item in free else "rows" for item in kernel.inputs}
    shapes = {item.name: item.shape for item in (*kernel.inputs, kernel.result)}
    digest = hashlib.sha256(kernel.key.encode()).hexdigest()
    return Workload.of("kernel", attributes={"formulas": digest}, shapes=shapes, layouts=layouts)
