"""A kernel for each operation of ``@gpu.*`` that takes more than a coordinate; as a script, all of
them as PTX: in a process of its own, which ends where LLVM cannot select an intrinsic."""

import json
import sys

from daedal.compiler.codegen.gpu.nvptx import ARCHITECTURES, ptx_text
from tests.support.gpu_kernels import Kernel

__all__ = ["OPERATION_KERNELS"]

_SHARED = "  %s = call ptr addrspace(3) @gpu.shared(ptr %gpu)\n"


def _load(kind: str, count: int, name: str, source: str) -> str:
    return "".join(
        f"  %{name}p{number} = getelementptr {kind}, ptr {source}, i64 {number}\n"
        f"  %{name}{number} = load {kind}, ptr %{name}p{number}\n"
        for number in range(count)
    )


def _store(kind: str, count: int = 4) -> str:
    """Of the results ``%r``."""
    return "".join(
        f"  %e{number} = extractvalue {_struct(kind, count)} %r, {number}\n"
        f"  %q{number} = getelementptr {kind}, ptr %a0, i64 {number}\n"
        f"  store {kind} %e{number}, ptr %q{number}\n"
        for number in range(count)
    )


def _struct(kind: str, count: int = 4) -> str:
    return "{" + ", ".join([kind] * count) + "}"


def _product(name: str, kind: str) -> Kernel:
    given = [f"i32 %x{number}" for number in range(6)] + [f"{kind} %c{n}" for n in range(4)]
    call = f"  %r = call {_struct(kind)} @gpu.mma.{name}(ptr %gpu, {', '.join(given)})\n"
    return Kernel(_load("i32", 6, "x", "%a1") + _load(kind, 4, "c", "%a0") + call + _store(kind), 2)


def _matrix_load(count: int, trans: str = "") -> Kernel:
    name = f"@gpu.ldmatrix.x{count}{trans}"
    call = f"  %r = call {_struct('i32', count)} {name}(ptr %gpu, ptr addrspace(3) %s)\n"
    return Kernel(_SHARED + call + _store("i32", count), 1, shared_bytes=512)


def _copy(size: int) -> Kernel:
    """Two groups, of which the first is waited for first."""
    copies = "".join(
        f"  %t{group} = getelementptr i8, ptr addrspace(3) %s, i64 {16 * group}\n"
        f"  call void @gpu.copy(ptr %gpu, ptr addrspace(3) %t{group}, ptr %a1, i32 {size}, "
        f"i32 {size})\n  call void @gpu.commit(ptr %gpu)\n"
        for group in range(2)
    )
    loads = "".join(
        f"  call void @gpu.wait(ptr %gpu, i32 {1 - group})\n"
        f"  call void @gpu.barrier(ptr %gpu, i32 {group})\n"
        f"  %v{group} = load float, ptr addrspace(3) %t{group}\n"
        for group in range(2)
    )
    total = "  %v = fadd float %v0, %v1\n  store float %v, ptr %a0\n"
    return Kernel(_SHARED + copies + loads + total, 2, shared_bytes=32)


_SHUFFLE = Kernel(
    "  %v = load float, ptr %a0\n"
    "  %r = call float @gpu.shuffle.xor.f32(ptr %gpu, float %v, i32 4)\n"
    "  store float %r, ptr %a0\n",
    1,
)

OPERATION_KERNELS: dict[str, Kernel] = {
    **{f"copy {size}": _copy(size) for size in (4, 8, 16)},
    "shuffle": _SHUFFLE,
    "ldmatrix": _matrix_load(4),
    "ldmatrix trans": _matrix_load(4, ".trans"),
    "ldmatrix of two": _matrix_load(2),
    "ldmatrix trans of two": _matrix_load(2, ".trans"),
    "f16": _product("m16n8k16.f16", "float"),
    "bf16": _product("m16n8k16.bf16", "float"),
    "s8": _product("m16n8k32.s8", "i32"),
}
"""By name."""


def main() -> None:
    """Print the PTX of all kernels, by architecture and name, as JSON."""
    texts = {
        architecture: {
            name: ptx_text(kernel.text(), architecture)
            for name, kernel in OPERATION_KERNELS.items()
        }
        for architecture in ARCHITECTURES
    }
    json.dump(texts, sys.stdout)


if __name__ == "__main__":
    main()
