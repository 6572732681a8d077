"""The emulator's machine code: the scheduler and the kernels' operations."""

from functools import lru_cache

from daedal.native.cache import ObjectCache
from daedal.native.calls import kernel_symbol
from daedal.native.codegen import compile_text
from daedal.native.cpu import Cpu, host_cpu
from daedal.native.module_text import library_text
from daedal.native.scope import sources_text
from daedal.sim.gpu.fibers import fiber_text
from daedal.sim.gpu.operations import ROOTS, operations_text
from daedal.sim.gpu.scheduler import run_launch

__all__ = ["ENTRY", "emulator_object", "emulator_text"]

ENTRY = "daedal_gpu_launch"
"""Symbol of ``void (ptr launch)``: runs a launch."""

_ROOTS = (run_launch, *ROOTS)


def _own_text(cpu: Cpu) -> str:
    entry = f"  call void {kernel_symbol(run_launch)}(ptr %launch)\n  ret void\n"
    return (
        f"{fiber_text(cpu.triple)}{operations_text()}"
        f"define void @{ENTRY}(ptr %launch) {{\n{entry}}}\n"
    )


def emulator_text(cpu: Cpu) -> str:
    """The module in LLVM's text. Raises UserError for a processor that has no fibers."""
    return library_text(_ROOTS, _own_text(cpu), checked=False)


@lru_cache(maxsize=1)
def emulator_object() -> bytes:
    """Its object code for this processor, kept on disk. Raises UserError as `emulator_text`."""
    cpu = host_cpu()
    sources = [*(sources_text(root, checked=False) for root in _ROOTS), _own_text(cpu)]
    return ObjectCache().get("\n".join(sources), lambda: compile_text(emulator_text(cpu), cpu))
