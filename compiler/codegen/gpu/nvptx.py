"""`ptx_text`: a kernel as PTX, the assembler text of NVIDIA's GPUs, which a driver compiles.

Operations of the GPU become intrinsics of LLVM's NVPTX back end. One that it cannot select ends the
process, so only functions on a list are called. Source: LLVM, "User Guide for NVPTX Back-end";
NVIDIA, PTX ISA 8.0.
"""

from dataclasses import replace

from daedal.artifact.gpu_code import MAP_ALIGN, MAP_BYTES
from daedal.compiler.codegen.gpu.bodies import BackEnd, called_names, with_bodies
from daedal.compiler.codegen.gpu.kernel_text import (
    GROUP_ALIGN,
    PARAMETER_ALIGN,
    SHARED_ALIGN,
    KernelText,
)
from daedal.compiler.codegen.gpu.nvptx_groups import GROUP_OPERATIONS
from daedal.compiler.codegen.gpu.nvptx_operations import OPERATIONS
from daedal.native.codegen import assembly_text
from daedal.native.cpu import Cpu

__all__ = ["ARCHITECTURES", "GROUP_ARCHITECTURES", "ptx_module", "ptx_text"]

ARCHITECTURES: dict[str, str] = {"sm_90a": "ptx80", "sm_90": "ptx78", "sm_80": "ptx70"}
"""The oldest version of PTX that has each; drivers refuse text of a newer one than theirs."""

TRIPLE = "nvptx64-nvidia-cuda"
_NAMES = {
    "llvm.lrint.i32.f32": "llvm.nvvm.f2i.rn",
    "llvm.lrint.i32.f64": "llvm.nvvm.d2i.rn",
}
"""What it calls functions that it does not select under their own name."""

_BACK_END = BackEnd(
    TRIPLE,
    OPERATIONS,
    selected=(
        *("abs", "ceil", "copysign", "ctpop", "exp2", "fabs", "floor", "fma", "fmuladd"),
        *("fptosi.sat", "fptoui.sat", "maximum", "maxnum", "minimum", "minnum"),
        *("roundeven", "smax", "smin", "sqrt", "trunc", "umax", "umin", "is.fpclass"),
    ),
    own=frozenset((*_NAMES.values(), *called_names("".join(OPERATIONS.values())))),
    lacking=("llvm.exp2.f64",),
)

_WITH_GROUPS = replace(_BACK_END, operations={**OPERATIONS, **GROUP_OPERATIONS})
GROUP_ARCHITECTURES = ("sm_90a",)
"""Those that have products of groups of warps."""

_SHARED = "@shared_memory = external addrspace(3) global [0 x i8], align {align}\n"


_MAP = f'ptr byval([{MAP_BYTES} x i8]) align {MAP_ALIGN} "nvvm.grid_constant"'


def ptx_text(kernel: KernelText, architecture: str) -> str:
    """The PTX of a kernel. Raises UnsupportedError where it calls what GPUs do not have."""
    return assembly_text(ptx_module(kernel, architecture), _cpu(architecture))


def ptx_module(kernel: KernelText, architecture: str) -> str:
    """The same in LLVM's text, with the bodies of all operations and an entry."""
    assert architecture in ARCHITECTURES, architecture
    body = kernel.text
    for name, other in _NAMES.items():
        body = body.replace(f"@{name}(", f"@{other}(")
    back_end = _WITH_GROUPS if architecture in GROUP_ARCHITECTURES else _BACK_END
    align = GROUP_ALIGN if "@gpu.wgmma." in body else SHARED_ALIGN
    return _SHARED.format(align=align) + with_bodies(body, _entry(kernel), back_end)


def _entry(kernel: KernelText) -> str:
    kind = f"ptr noalias align {PARAMETER_ALIGN}"
    names = [f"{kind} %a{number}" for number in range(kernel.parameters)]
    given = "".join(f", ptr %a{number}" for number in range(kernel.parameters))
    for number in range(len(kernel.maps)):
        names.append(f"{_MAP} %m{number}")
        given += f", ptr %m{number}"
    threads = ",".join(map(str, kernel.block))
    resident = f' "nvvm.minctasm"="{kernel.resident}"' if kernel.resident else ""
    return (
        f"\ndefine ptx_kernel void @{kernel.symbol}({', '.join(names)}) "
        f'"nvvm.maxntid"="{threads}"{resident} {{\n'
        f"  call void @body(ptr null{given})\n  ret void\n}}\n"
    )


def _cpu(architecture: str) -> Cpu:
    return Cpu(TRIPLE, architecture, frozenset((ARCHITECTURES[architecture],)))
