"""Fibers: a thread's own stack, and the switch between it and the scheduler.

A switch saves what a function must preserve, and no more. Sources: System V Application Binary
Interface, AMD64 Architecture Processor Supplement, "Registers"; Arm, Procedure Call Standard for
the Arm 64-bit Architecture, "Register usage". The AArch64 text has been assembled, but never run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from daedal.common.errors import UserError
from daedal.native.intrinsic import intrinsic
from daedal.native.types import Array, i64
from daedal.sim.gpu.thread import ROW, Slot, State

__all__ = ["fiber_text", "resume_fiber", "start_fiber"]

_X86_SAVED = ("rbp", "rbx", "r12", "r13", "r14", "r15")
_X86_SAVE = (
    *(f"pushq %{name}" for name in _X86_SAVED),
    "subq $$8, %rsp",
    "stmxcsr (%rsp)",
    "fnstcw 4(%rsp)",
    "movq %rsp, (%rdi)",
)
_X86_LOAD = (
    "movq (%rsi), %rsp",
    "ldmxcsr (%rsp)",
    "fldcw 4(%rsp)",
    "addq $$8, %rsp",
    *(f"popq %{name}" for name in reversed(_X86_SAVED)),
    "retq",
)
_X86_START = ("movq %rsi, %rsp", "movq %rdx, %rdi", "xorl %ebp, %ebp", "callq *%rcx", "ud2")

_ARM_PAIRS = [
    *((f"x{number}", f"x{number + 1}") for number in range(19, 31, 2)),
    *((f"d{number}", f"d{number + 1}") for number in range(8, 16, 2)),
]
_ARM_BYTES = 16 * len(_ARM_PAIRS)
_ARM_SAVE = (
    f"sub sp, sp, #{_ARM_BYTES}",
    *(f"stp {a}, {b}, [sp, #{16 * at}]" for at, (a, b) in enumerate(_ARM_PAIRS)),
    "mov x9, sp",
    "str x9, [x0]",
)
_ARM_LOAD = (
    "ldr x9, [x1]",
    "mov sp, x9",
    *(f"ldp {a}, {b}, [sp, #{16 * at}]" for at, (a, b) in enumerate(_ARM_PAIRS)),
    f"add sp, sp, #{_ARM_BYTES}",
    "ret",
)
_ARM_START = ("mov sp, x1", "mov x0, x2", "mov x29, xzr", "blr x3", "brk #1")

_BY_MACHINE = {
    "x86_64": (_X86_SAVE, _X86_LOAD, _X86_START),
    "aarch64": (_ARM_SAVE, _ARM_LOAD, _ARM_START),
}


def _naked(name: str, parameters: str, lines: Sequence[str]) -> str:
    body = "\\0A".join(lines)
    return (
        f"define void @{name}({parameters}) naked noinline nounwind {{\n"
        f'  call void asm sideeffect "{body}", "~{{memory}}"()\n'
        "  unreachable\n}\n"
    )


def fiber_text(triple: str) -> str:
    """LLVM's text of the switch, and of the first function on a stack.

    ``@gpu.switch(ptr %save, ptr %load)`` goes on at the stack pointer at `load`; it returns when
    another switch loads what it saved. ``@gpu.start(ptr %save, ptr %top, ptr %gpu, ptr %main)``
    calls a function that never returns on a new stack. ``@gpu.main(ptr %gpu)`` is that function: it
    runs a thread's kernel, and leaves for good.

    Raises UserError for a processor that this has no text for.
    """
    machine = triple.split("-", 1)[0]
    if machine not in _BY_MACHINE:
        raise UserError(
            f"an emulated GPU needs an x86-64 or AArch64 processor, not {triple}; run the model on "
            "the processor itself"
        )
    save, load, start = _BY_MACHINE[machine]
    return (
        _naked("gpu.switch", "ptr %save, ptr %load", [*save, *load])
        + _naked("gpu.start", "ptr %save, ptr %top, ptr %gpu, ptr %main", [*save, *start])
        + f"""define internal void @gpu.leave(ptr %gpu, i64 %state) noinline {{
  %state.at = getelementptr i64, ptr %gpu, i64 {Slot.STATE:d}
  store i64 %state, ptr %state.at, align 8
  %stack.at = getelementptr i64, ptr %gpu, i64 {Slot.STACK:d}
  %home.at = getelementptr i64, ptr %gpu, i64 {Slot.HOME:d}
  %home = load ptr, ptr %home.at, align 8
  call void @gpu.switch(ptr %stack.at, ptr %home)
  ret void
}}
define internal void @gpu.main(ptr %gpu) noinline {{
  %entry.at = getelementptr i64, ptr %gpu, i64 {Slot.ENTRY:d}
  %entry = load ptr, ptr %entry.at, align 8
  %buffers.at = getelementptr i64, ptr %gpu, i64 {Slot.BUFFERS:d}
  %buffers = load ptr, ptr %buffers.at, align 8
  call void %entry(ptr %gpu, ptr %buffers)
  call void @gpu.leave(ptr %gpu, i64 {State.ENDED:d})
  unreachable
}}
"""
    )


def _start(_names: Mapping[str, Any]) -> str:
    return f"""define internal void @SELF(
    ptr %threads, i64 %size, ptr %home, i64 %home.size, i64 %thread, i64 %top) {{
  %first = mul i64 %thread, {ROW}
  %gpu = getelementptr i64, ptr %threads, i64 %first
  %stack = inttoptr i64 %top to ptr
  call void @gpu.start(ptr %home, ptr %stack, ptr %gpu, ptr @gpu.main)
  ret void
}}
"""


def _resume(_names: Mapping[str, Any]) -> str:
    return f"""define internal void @SELF(
    ptr %threads, i64 %size, ptr %home, i64 %home.size, i64 %thread) {{
  %first = mul i64 %thread, {ROW}
  %gpu = getelementptr i64, ptr %threads, i64 %first
  %stack.at = getelementptr i64, ptr %gpu, i64 {Slot.STACK:d}
  call void @gpu.switch(ptr %home, ptr %stack.at)
  ret void
}}
"""


@intrinsic(_start)
def start_fiber(threads: Array[i64], home: Array[i64], thread: i64, top: i64) -> None:
    """Run a thread on a new stack, from the first instruction until it waits or ends."""
    raise NotImplementedError("fibers exist in machine code only")


@intrinsic(_resume)
def resume_fiber(threads: Array[i64], home: Array[i64], thread: i64) -> None:
    """Run a thread that waited, until it waits or ends."""
    raise NotImplementedError("fibers exist in machine code only")
