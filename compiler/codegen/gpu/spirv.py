"""`spirv_module`: a kernel as a SPIR-V module for OpenCL, which GPUs of many vendors load.

Pointers of parameters point to global memory (address space 1), those of stack slots to memory of
the thread; OpenCL has no other pointers in every version. Shared memory is a variable of the
module, of the size that the kernel needs. OpenCL rounds quotients and square roots less exactly
than other targets, to 2.5 and 3 units in the last place. Sources: Khronos, SPIR-V Specification 1.2
and OpenCL SPIR-V Environment Specification; LLVM, "User Guide for SPIR-V Target".
"""

import re

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.gpu.bodies import BackEnd, with_bodies
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.native.child_codegen import compile_in_child

__all__ = ["spirv_module", "spirv_text"]

_LANES = (2, 3, 4, 8, 16)
"""Lengths of vectors in SPIR-V."""
_TRIPLE = "spirv64v1.2-unknown-unknown"
_SUFFIXES = {"half": "f16", "float": "f32", "double": "f64"}

_LOCAL_ID, _GROUP_ID, _BARRIER = "_Z12get_local_idj", "_Z12get_group_idj", "_Z7barrierj"
"""Functions of OpenCL C under their names in machine code."""
_BOTH_MEMORIES = 3
"""What its barrier orders: accesses of shared (1) and of global memory (2)."""

_COORDINATE = """
define internal i64 @gpu.{level}.{axis}(ptr %gpu) alwaysinline {{
  %number = call spir_func i64 @{function}(i32 {dimension})
  ret i64 %number
}}
"""

_EXTREME = """
define internal {kind} @gpu.{name}.{suffix}({kind} %x, {kind} %y) alwaysinline {{
  %beyond = fcmp {compare} {kind} %x, %y
  %no_number = fcmp uno {kind} %x, %x
  %is_x = or i1 %beyond, %no_number
  %result = select i1 %is_x, {kind} %x, {kind} %y
  ret {kind} %result
}}
"""
"""LLVM's back end would take a function that gives the other operand where one is no number."""

_NAMES = {
    f"llvm.{name}.{suffix}": f"gpu.{name}.{suffix}"
    for name in ("maximum", "minimum")
    for suffix in _SUFFIXES.values()
}
"""Intrinsics with a body here."""

_OPERATIONS = {
    "gpu.barrier": f"""
define internal void @gpu.barrier(ptr %gpu, i32 %site) alwaysinline convergent {{
  call spir_func void @{_BARRIER}(i32 {_BOTH_MEMORIES})
  ret void
}}
""",
    "gpu.shared": """
define internal ptr addrspace(3) @gpu.shared(ptr %gpu) alwaysinline {
  ret ptr addrspace(3) @shared_memory
}
""",
    **{
        f"gpu.{level}.{axis}": _COORDINATE.format(
            level=level, axis=axis, function=function, dimension=dimension
        )
        for level, function in (("thread", _LOCAL_ID), ("block", _GROUP_ID))
        for dimension, axis in enumerate("xyz")
    },
    **{
        f"gpu.{name}.{suffix}": _EXTREME.format(
            name=name, suffix=suffix, kind=kind, compare=compare
        )
        for name, compare in (("maximum", "ogt"), ("minimum", "olt"))
        for kind, suffix in _SUFFIXES.items()
    },
}

_BACK_END = BackEnd(
    _TRIPLE,
    _OPERATIONS,
    selected=(
        *("abs", "ceil", "copysign", "ctpop", "exp2", "fabs", "floor", "fma", "fmuladd"),
        *("fptosi.sat", "fptoui.sat", "roundeven", "smax", "smin", "sqrt", "trunc"),
        *("umax", "umin"),
    ),
    own=(_LOCAL_ID, _GROUP_ID, _BARRIER),
)

_POINTER = re.compile(r"\bptr ((?:noalias )?)(?:align \d+ )?((?:readonly )?)(%\w+)")
"""A runtime may give buffers that begin anywhere, so that alignment is left out."""
_ADDRESS = re.compile(r"^ *(%\w+) = getelementptr [^\n]*, ptr (%\w+),", re.MULTILINE)
_PRODUCT = re.compile(r"^ *(%\w+) = fmul contract \w+ (\S+), (\S+)$", re.MULTILINE)
_SUM = re.compile(r"= fadd contract (\w+) (\S+), (\S+)$", re.MULTILINE)
_VECTOR = re.compile(r"<(\d+) x ")


def spirv_module(kernel: KernelText) -> bytes:
    """The module.

    Raises UnsupportedError where the kernel has what OpenCL does not have, and ToolError where LLVM
    cannot translate it.
    """
    return compile_in_child(spirv_text(kernel), _TRIPLE)


def spirv_text(kernel: KernelText) -> str:
    """The same in LLVM's text, with the bodies of all operations and an entry."""
    for lanes in map(int, _VECTOR.findall(kernel.text)):
        if lanes not in _LANES:
            raise UnsupportedError(
                f"vectors in kernels for {_TRIPLE} must have one of the lengths "
                f"{', '.join(map(str, _LANES))}, not {lanes}; leave out this architecture"
            )
    body = _fused(_in_global_memory(kernel.text, kernel.parameters))
    for name, other in _NAMES.items():
        body = body.replace(f"@{name}(", f"@{other}(")
    return _shared_memory(kernel.shared_bytes) + with_bodies(body, _entry(kernel), _BACK_END)


def _in_global_memory(text: str, parameters: int) -> str:
    """Gives pointers that are computed from parameters their address space."""
    found = {f"%a{number}" for number in range(parameters)}
    addresses = _ADDRESS.findall(text)
    while added := {result for result, base in addresses if base in found} - found:
        found |= added

    def typed(pointer: re.Match[str]) -> str:
        alias, access, name = pointer.groups()
        return f"ptr addrspace(1) {alias}{access}{name}" if name in found else pointer[0]

    return _POINTER.sub(typed, text)


def _fused(text: str) -> str:
    """Sums of products that may be rounded once are: OpenCL's compilers are told not to fuse."""
    products = {name: (a, b) for name, a, b in _PRODUCT.findall(text)}

    def fused(found: re.Match[str]) -> str:
        kind, left, right = found.groups()
        if right not in products:
            left, right = right, left
        if right not in products:
            return found[0]
        a, b = products[right]
        return f"= call {kind} @llvm.fma.{_SUFFIXES[kind]}({kind} {a}, {kind} {b}, {kind} {left})"

    return _SUM.sub(fused, text)


def _shared_memory(size: int) -> str:
    if not size:
        return ""
    return f"@shared_memory = internal addrspace(3) global [{size} x i8] undef, align 128\n"


def _entry(kernel: KernelText) -> str:
    pointers = [f"ptr addrspace(1) %a{number}" for number in range(kernel.parameters)]
    parameters = ", ".join(item.replace("%", "noalias %") for item in pointers)
    given = "".join(f", {item}" for item in pointers)
    block = ", ".join(f"i32 {extent}" for extent in kernel.block)
    return (
        f"\ndefine spir_kernel void @{kernel.symbol}({parameters}) !reqd_work_group_size !0 {{\n"
        f"  call void @body(ptr null{given})\n  ret void\n}}\n\n!0 = !{{{block}}}\n"
    )
