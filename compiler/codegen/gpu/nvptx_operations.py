"""`OPERATIONS`: the bodies of ``@gpu.*`` for NVIDIA's GPUs, by intrinsics of LLVM's back end.

Source: NVIDIA, PTX ISA 8.0, "cp.async", "shfl.sync", "ldmatrix", "mma"; LLVM, "User Guide for NVPTX
Back-end".
"""

from collections.abc import Sequence

__all__ = ["OPERATIONS", "operation_body"]

_SHARED = "ptr addrspace(3)"
_WORDS = "{i32, i32, i32, i32}"
_PAIR = "{i32, i32}"
_FLOATS = "{float, float, float, float}"
_MAX_GROUPS = 8
"""Groups of copies that may be under way while a thread waits; for more, it waits for all."""


def operation_body(
    name: str, result: str, parameters: Sequence[str], lines: Sequence[str], more: str = ""
) -> str:
    """The definition of ``@gpu.NAME``; `more` are its attributes."""
    given = ", ".join(("ptr %gpu", *parameters))
    text = "\n".join(line if line.endswith(":") else f"  {line}" for line in lines)
    return f"\ndefine internal {result} @gpu.{name}({given}) alwaysinline {more}{{\n{text}\n}}\n"


def _coordinate(name: str, register: str) -> str:
    return operation_body(
        name,
        "i64",
        (),
        (
            f"%narrow = call i32 @llvm.nvvm.read.ptx.sreg.{register}()",
            "%wide = zext i32 %narrow to i64",
            "ret i64 %wide",
        ),
    )


def _copy() -> str:
    """16 bytes bypass the first level of caches: they are read once."""
    lines = [
        "%source = addrspacecast ptr %from to ptr addrspace(1)",
        "switch i32 %bytes, label %copy4 [ i32 8, label %copy8 i32 16, label %copy16 ]",
    ]
    for size, cache in ((4, "ca"), (8, "ca"), (16, "cg")):
        name = f"@llvm.nvvm.cp.async.{cache}.shared.global.{size}.s"
        call = f"call void {name}({_SHARED} %to, ptr addrspace(1) %source, i32 %valid)"
        lines += [f"copy{size}:", call, "ret void"]
    return operation_body(
        "copy", "void", (f"{_SHARED} %to", "ptr %from", "i32 %bytes", "i32 %valid"), lines
    )


def _wait() -> str:
    """The instruction has the number in it, so there is one for each."""
    numbers = range(_MAX_GROUPS)
    cases = " ".join(f"i32 {number}, label %wait{number}" for number in numbers)
    lines = [f"switch i32 %newest, label %wait0 [ {cases} ]"]
    for number in numbers:
        call = f"call void @llvm.nvvm.cp.async.wait.group(i32 {number})"
        lines += [f"wait{number}:", call, "ret void"]
    return operation_body("wait", "void", ("i32 %newest",), lines)


def _warp(name: str, result: str, parameters: Sequence[str], intrinsic: str) -> str:
    """An operation of a whole warp that is one instruction."""
    call = f"%result = call {result} @llvm.nvvm.{intrinsic}"
    return operation_body(name, result, parameters, (call, f"ret {result} %result"), "convergent ")


def _matrix_load(count: str, result: str) -> str:
    intrinsic = f"ldmatrix.sync.aligned.m8n8.{count}.b16.p3({_SHARED} %at)"
    return _warp(f"ldmatrix.{count}", result, (f"{_SHARED} %at",), intrinsic)


def _product(kind: str, intrinsic: str, result: str, element: str) -> str:
    factors = [f"i32 %x{number}" for number in range(6)]
    terms = [f"{element} %c{number}" for number in range(4)]
    given = ", ".join((*factors, *terms))
    return _warp(f"mma.{kind}", result, (*factors, *terms), f"mma.{intrinsic}({given})")


def _half_product() -> str:
    """Its operands are pairs of float16, not words."""
    factors = [f"i32 %x{number}" for number in range(6)]
    terms = [f"float %c{number}" for number in range(4)]
    casts = [f"%h{number} = bitcast i32 %x{number} to <2 x half>" for number in range(6)]
    given = ", ".join((*(f"<2 x half> %h{number}" for number in range(6)), *terms))
    call = f"%result = call {_FLOATS} @llvm.nvvm.mma.m16n8k16.row.col.f32.f32({given})"
    lines = (*casts, call, f"ret {_FLOATS} %result")
    return operation_body("mma.m16n8k16.f16", _FLOATS, (*factors, *terms), lines, "convergent ")


OPERATIONS: dict[str, str] = {
    **{
        f"gpu.{level}.{axis}": _coordinate(f"{level}.{axis}", f"{register}.{axis}")
        for level, register in (("thread", "tid"), ("block", "ctaid"))
        for axis in "xyz"
    },
    "gpu.barrier": operation_body(
        "barrier",
        "void",
        ("i32 %site",),
        ("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)", "ret void"),
        "convergent ",
    ),
    "gpu.shared": operation_body("shared", _SHARED, (), (f"ret {_SHARED} @shared_memory",)),
    **{
        f"gpu.{name}": operation_body(
            name, "void", ("ptr %address", "i32 %bytes", "i32 %site"), ("ret void",)
        )
        for name in ("read", "write")
    },
    "gpu.copy": _copy(),
    "gpu.commit": operation_body(
        "commit", "void", (), ("call void @llvm.nvvm.cp.async.commit.group()", "ret void")
    ),
    "gpu.wait": _wait(),
    "gpu.shuffle.xor.f32": _warp(
        "shuffle.xor.f32",
        "float",
        ("float %value", "i32 %mask"),
        "shfl.sync.bfly.f32(i32 -1, float %value, i32 %mask, i32 31)",
    ),
    **{
        f"gpu.ldmatrix.{count}{trans}": _matrix_load(f"{count}{trans}", result)
        for count, result in (("x2", _PAIR), ("x4", _WORDS))
        for trans in ("", ".trans")
    },
    "gpu.mma.m16n8k16.f16": _half_product(),
    "gpu.mma.m16n8k16.bf16": _product("m16n8k16.bf16", "m16n8k16.row.col.bf16", _FLOATS, "float"),
    "gpu.mma.m16n8k32.s8": _product("m16n8k32.s8", "m16n8k32.row.col.s8", _WORDS, "i32"),
}
"""By name."""
