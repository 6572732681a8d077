"""The bodies of the operations that kernels call, as LLVM's text.

Coordinates and addresses are read from the thread's row; what waits says so in it, and goes to the
scheduler; accesses are calls of `races.access`.
"""

from daedal.native.calls import kernel_symbol
from daedal.native.kernel import Kernel
from daedal.sim.gpu.races import access
from daedal.sim.gpu.thread import Slot, State

__all__ = ["ROOTS", "operations_text"]

ROOTS: tuple[Kernel, ...] = (access,)
"""Kernels that operations call."""

_COORDINATES = {
    "thread.x": Slot.THREAD_X,
    "thread.y": Slot.THREAD_Y,
    "thread.z": Slot.THREAD_Z,
    "block.x": Slot.BLOCK_X,
    "block.y": Slot.BLOCK_Y,
    "block.z": Slot.BLOCK_Z,
}

_FUNCTIONS = {
    1: "exp exp2 log log2 sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf",
    2: "pow",
}
"""Functions of the C library by their number of operands."""


def _field(slot: Slot, kind: str = "i64") -> str:
    """Reads a slot of the row."""
    name = f"%{slot.name.lower()}"
    return (
        f"  {name}.at = getelementptr i64, ptr %gpu, i64 {slot:d}\n"
        f"  {name} = load {kind}, ptr {name}.at, align 8\n"
    )


def _coordinates() -> str:
    return "".join(
        f"define i64 @gpu.{name}(ptr %gpu) {{\n{_field(slot)}  ret i64 %{slot.name.lower()}\n}}\n"
        for name, slot in _COORDINATES.items()
    )


def _shared() -> str:
    return (
        f"define ptr addrspace(3) @gpu.shared(ptr %gpu) {{\n{_field(Slot.SHARED)}"
        "  %base = inttoptr i64 %shared to ptr addrspace(3)\n"
        "  ret ptr addrspace(3) %base\n}\n"
    )


def _barrier() -> str:
    return (
        "define void @gpu.barrier(ptr %gpu, i32 %place) {\n"
        f"  %site.at = getelementptr i64, ptr %gpu, i64 {Slot.SITE:d}\n"
        "  %wide = sext i32 %place to i64\n"
        "  store i64 %wide, ptr %site.at, align 8\n"
        f"  call void @gpu.leave(ptr %gpu, i64 {State.BARRIER:d})\n"
        "  ret void\n}\n"
    )


def checked_call(kernel: Kernel, arguments: str) -> str:
    """Calls a kernel with the launch and the thread; leaves for good where it gives False."""
    return (
        f"{_field(Slot.LAUNCH, 'ptr')}{_field(Slot.NUMBER)}"
        f"  %fine = call i1 {kernel_symbol(kernel)}(ptr %launch, i64 %number{arguments})\n"
        "  br i1 %fine, label %done, label %stop\n"
        "stop:\n"
        f"  call void @gpu.leave(ptr %gpu, i64 {State.ENDED:d})\n"
        "  unreachable\n"
        "done:\n"
    )


def _access(name: str, is_write: bool) -> str:
    flag = "true" if is_write else "false"
    return (
        f"define void @gpu.{name}(ptr %gpu, ptr %address, i32 %bytes, i32 %place) {{\n"
        "  %from = ptrtoint ptr %address to i64\n"
        "  %count = zext i32 %bytes to i64\n"
        "  %wide = sext i32 %place to i64\n"
        f"{checked_call(access, f', i64 %from, i64 %count, i64 %wide, i1 {flag}')}"
        "  ret void\n}\n"
    )


def _functions() -> str:
    lines = []
    for count, names in _FUNCTIONS.items():
        for name in names.split():
            for kind, suffix, end in (("float", "f32", "f"), ("double", "f64", "")):
                given = ", ".join(f"{kind} %a{number}" for number in range(count))
                kinds = ", ".join([kind] * count)
                lines.append(
                    f"declare {kind} @{name}{end}({kinds})\n"
                    f"define {kind} @gpu.{name}.{suffix}({given}) {{\n"
                    f"  %r = call {kind} @{name}{end}({given})\n  ret {kind} %r\n}}\n"
                )
    return "".join(lines)


def operations_text() -> str:
    """Definitions of all operations; they call `ROOTS` and what `fibers.fiber_text` defines."""
    parts = [_coordinates(), _shared(), _barrier(), _access("read", False), _access("write", True)]
    return "".join([*parts, _functions()])
