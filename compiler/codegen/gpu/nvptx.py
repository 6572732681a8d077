"""`ptx_text`: a kernel as PTX, the assembler text of NVIDIA's GPUs, which a driver compiles.

Operations of the GPU become intrinsics of LLVM's NVPTX back end. One that it cannot select ends the
process, so only functions on a list are called. Source: LLVM, "User Guide for NVPTX Back-end";
NVIDIA, PTX ISA 8.0.
"""

import re

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.codegen.gpu.nvptx_functions import function_definitions
from daedal.compiler.codegen.gpu.nvptx_operations import OPERATIONS
from daedal.compiler.codegen.llvm.function import declarations
from daedal.native.codegen import assembly_text
from daedal.native.cpu import Cpu

__all__ = ["ARCHITECTURES", "ptx_module", "ptx_text"]

ARCHITECTURES: dict[str, str] = {"sm_90a": "ptx80", "sm_90": "ptx78", "sm_80": "ptx70"}
"""The oldest version of PTX that has each; drivers refuse text of a newer one than theirs."""

_TRIPLE = "nvptx64-nvidia-cuda"

_SELECTED = frozenset(
    f"llvm.{name}"
    for name in (
        *("abs", "ceil", "copysign", "ctpop", "exp2", "fabs", "floor", "fma", "fmuladd"),
        *("fptosi.sat", "fptoui.sat", "maximum", "maxnum", "minimum", "minnum"),
        *("roundeven", "smax", "smin", "sqrt", "trunc", "umax", "umin", "is.fpclass"),
    )
)
"""Intrinsics that the back end selects, without the suffix of their type."""
_OTHER_TYPES = frozenset(("llvm.exp2.f64",))
"""Those of types that it does not select."""
_NAMES = {
    "llvm.lrint.i32.f32": "llvm.nvvm.f2i.rn",
    "llvm.lrint.i32.f64": "llvm.nvvm.d2i.rn",
}
"""What it calls functions that it does not select under their own name."""

_DEFINED = re.compile(r"define [^@]*@([\w.]+)\(")
_CALLED = re.compile(r"call [^@\n]*@([\w.]+)\(")

_SHARED = "@shared_memory = external addrspace(3) global [0 x i8], align 128\n"

_OWN = frozenset((*_NAMES.values(), *_CALLED.findall("".join(OPERATIONS.values()))))
"""Intrinsics of the back end alone."""


def ptx_text(kernel: KernelText, architecture: str) -> str:
    """The PTX of a kernel. Raises UnsupportedError where it calls what GPUs do not have."""
    return assembly_text(ptx_module(kernel, architecture), _cpu(architecture))


def ptx_module(kernel: KernelText, architecture: str) -> str:
    """The same in LLVM's text, with the bodies of all operations and an entry."""
    assert architecture in ARCHITECTURES, architecture
    body = re.sub(r"^declare [^\n]*\n(?: +[^\n]*\n)*", "", kernel.text, flags=re.MULTILINE)
    for name, other in _NAMES.items():
        body = body.replace(f"@{name}(", f"@{other}(")
    called = set(_CALLED.findall(body))
    parts = [OPERATIONS[name] for name in sorted(called & OPERATIONS.keys())]
    parts += function_definitions(sorted(called - OPERATIONS.keys()))
    text = "".join((_SHARED, *parts, body, _entry(kernel)))
    _check(text)
    known = _DEFINED.findall(text)
    missing = [
        line
        for line in declarations(text).splitlines(keepends=True)
        if not any(f"@{name}(" in line for name in known)
    ]
    return "".join(missing) + text


def _entry(kernel: KernelText) -> str:
    names = [f"ptr noalias %a{number}" for number in range(kernel.parameters)]
    given = "".join(f", ptr %a{number}" for number in range(kernel.parameters))
    threads = ",".join(map(str, kernel.block))
    return (
        f"\ndefine ptx_kernel void @{kernel.symbol}({', '.join(names)}) "
        f'"nvvm.maxntid"="{threads}" {{\n  call void @body(ptr null{given})\n  ret void\n}}\n'
    )


def _cpu(architecture: str) -> Cpu:
    return Cpu(_TRIPLE, architecture, frozenset((ARCHITECTURES[architecture],)))


def _check(text: str) -> None:
    defined = set(_DEFINED.findall(text))
    for name in dict.fromkeys(_CALLED.findall(text)):
        if name in defined or name in _OWN:
            continue
        plain = re.sub(r"(\.(v\d+)?[fi]\d+)+$", "", name)
        if plain not in _SELECTED or name in _OTHER_TYPES:
            raise UnsupportedError(
                f"kernels for {_TRIPLE} must call functions that its code generator has, not "
                f"{name!r}; leave out this architecture"
            )
