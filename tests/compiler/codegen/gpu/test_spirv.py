"""Kernels as SPIR-V: what the validator says of the modules, what is in them, what is refused."""

import ctypes
import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from daedal.artifact.spirv_file import entry_points
from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.codegen.gpu.spirv import spirv_module, spirv_text
from daedal.native.codegen import compile_text, load_object
from tests.support.gpu_formulas import KERNELS
from tests.support.gpu_texts import text_of
from tests.support.spirv import (
    CONSTANT,
    CONTROL_BARRIER,
    EXECUTION_MODE,
    find_validator,
    found,
    problem_of,
)

pytestmark = pytest.mark.xdist_group("gpu-texts")  # which are made once in a process

LOCAL_SIZE = 17
WORKGROUP, ALL_MEMORY = 2, 0x310
"""The scope of a barrier; it orders shared and global memory, sequentially consistent."""

needs_validator = pytest.mark.skipif(
    find_validator() is None, reason="spirv-val is not installed (pip install 'daedal[gpu]')"
)


QUICK_OF_TENSOR_CORES = (
    "product of 8 bits in tensor cores",
    "odd product of 16 bits in tensor cores",
    "batched of 16 bits in tensor cores",
    "convolution of 16 bits in tensor cores",
)
NAMES = [
    name
    if "tensor cores" not in name or name in QUICK_OF_TENSOR_CORES
    else pytest.param(name, marks=pytest.mark.slow)
    for name in KERNELS
    if "attention of 16 bits" not in name
]
"""A module takes a process: most kernels that have tensor cores elsewhere are slow tests."""


def plain_text(name: str) -> KernelText:
    return text_of(name, has_warps=False)


@cache
def module_of(name: str) -> bytes:
    return spirv_module(plain_text(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_is_a_module(name: str) -> None:
    text, module = plain_text(name), module_of(name)
    assert entry_points(module) == {"k"}
    modes = {words[1]: words[2:] for words in found(module, EXECUTION_MODE)}
    assert modes[LOCAL_SIZE] == text.block
    barriers = [
        tuple(constant(module, word) for word in words) for words in found(module, CONTROL_BARRIER)
    ]
    count = text.text.count("call void @gpu.barrier")
    assert barriers == [(WORKGROUP, WORKGROUP, ALL_MEMORY)] * count


def constant(module: bytes, number: int) -> int:
    """The value of an integer of 32 bits."""
    (value,) = (words[2] for words in found(module, CONSTANT) if words[1] == number)
    return value


@needs_validator
@pytest.mark.parametrize("name", NAMES)
def test_every_module_is_valid(name: str) -> None:
    assert problem_of(module_of(name)) == ""


def test_masks_keep_their_bits() -> None:
    """LLVM's back end takes an integer of 4 bits for one of 8, and its mask for 255."""
    values = {words[2:] for words in found(module_of("few rows"), CONSTANT)}
    assert (15, 0) in values and (255, 0) not in values


def test_products_are_fused_into_sums() -> None:
    """OpenCL's compilers are told not to do it."""
    text = spirv_text(plain_text("product"))
    assert text.count("call float @llvm.fma.f32") == text.count("fmul contract") == 16
    assert "fadd contract" not in text


def storing(line: str, kind: str, parameters: Sequence[str], shared_bytes: int = 0) -> KernelText:
    """A kernel that stores ``%r``, of type `kind`, which `line` makes of one number of each type,
    ``%x0`` and so on."""
    loads = "".join(
        f"  %x{number} = load {item}, ptr %a{number}\n" for number, item in enumerate(parameters)
    )
    last = len(parameters)
    given = "".join(f", ptr noalias %a{number}" for number in range(last + 1))
    body = (
        f"define internal void @body(ptr %gpu{given}) alwaysinline {{\n{loads}  {line}\n"
        f"  store {kind} %r, ptr %a{last}\n  ret void\n}}\n"
    )
    return KernelText("k0", body, (1, 1, 1), (1, 1, 1), shared_bytes, last + 1)


def called(name: str, kind: str, parameters: Sequence[str], more: str = "") -> KernelText:
    """A kernel that stores what a function gives."""
    given = ", ".join(f"{item} %x{number}" for number, item in enumerate(parameters))
    return storing(f"%r = call {kind} @{name}({given}{more})", kind, parameters)


FLOATS = {"half": "f16", "float": "f32", "double": "f64"}
INTEGERS = ("i8", "i16", "i32", "i64")
UNARY = ("ceil", "exp2", "fabs", "floor", "roundeven", "sqrt", "trunc")
BINARY = ("copysign", "maximum", "minimum")
FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "log2", "sin", "sinh"),
    "tan",
)


def all_calls() -> list[KernelText]:
    """A kernel for every function and type."""
    kernels = [called(f"gpu.{name}.f32", "float", ["float"]) for name in FUNCTIONS]
    kernels.append(called("gpu.pow.f32", "float", ["float"] * 2))
    for kind, end in FLOATS.items():
        kernels += [called(f"llvm.{name}.{end}", kind, [kind]) for name in UNARY]
        kernels += [called(f"llvm.{name}.{end}", kind, [kind] * 2) for name in BINARY]
        kernels += [called(f"llvm.{name}.{end}", kind, [kind] * 3) for name in ("fma", "fmuladd")]
        kernels += [
            called(f"llvm.fpto{sign}i.sat.{to}.{end}", to, [kind])
            for sign in "su"
            for to in INTEGERS
        ]
    for kind in INTEGERS:
        names = ("smax", "smin", "umax", "umin")
        kernels += [called(f"llvm.{name}.{kind}", kind, [kind] * 2) for name in names]
        kernels.append(called(f"llvm.ctpop.{kind}", kind, [kind]))
        kernels.append(called(f"llvm.abs.{kind}", kind, [kind], ", i1 false"))
    return kernels


def together(kernels: Sequence[KernelText]) -> KernelText:
    """One kernel that does what all do, each with parameters of its own."""
    lines, calls, count = [], [], 0
    for number, kernel in enumerate(kernels):
        lines.append(kernel.text.replace("@body(", f"@part{number}("))
        given = "".join(f", ptr %a{count + place}" for place in range(kernel.parameters))
        calls.append(f"  call void @part{number}(ptr %gpu{given})\n")
        count += kernel.parameters
    parameters = "".join(f", ptr noalias %a{number}" for number in range(count))
    body = (
        f"define internal void @body(ptr %gpu{parameters}) alwaysinline {{\n{''.join(calls)}"
        "  ret void\n}\n"
    )
    return KernelText("k0", "".join(lines) + body, (1, 1, 1), (1, 1, 1), 0, count)


@needs_validator
def test_every_function_is_selected() -> None:
    """One that is not would end the process that translates it."""
    module = spirv_module(together(all_calls()))
    assert entry_points(module) == {"k0"} and problem_of(module) == ""


@pytest.mark.parametrize("name", ["llvm.sin.f32", "llvm.maxnum.f32", "gpu.erfc.f32"])
def test_other_functions_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"not '{re.escape(name)}'; leave out"):
        spirv_text(called(name, "float", ["float"] * 2))


def test_accesses_are_announced_to_the_emulator_alone() -> None:
    text = text_of("row sums", checked=True)
    with pytest.raises(UnsupportedError, match=r"not 'gpu\.(read|write)'; leave out"):
        spirv_text(text)


@pytest.mark.parametrize("lanes", [2, 3, 4, 8, 16])
def test_vectors(lanes: int) -> None:
    kind = f"<{lanes} x float>"
    assert kind in spirv_text(storing(f"%r = fadd {kind} %x0, %x0", kind, [kind]))


def test_vectors_of_other_lengths_are_refused() -> None:
    kind = "<5 x float>"
    with pytest.raises(UnsupportedError, match=r"one of the lengths 2, 3, 4, 8, 16, not 5; leave"):
        spirv_text(storing(f"%r = fadd {kind} %x0, %x0", kind, [kind]))


@needs_validator
def test_shared_memory_is_in_the_module() -> None:
    line = (
        "%s = call ptr addrspace(3) @gpu.shared(ptr %gpu)\n"
        "  store float %x0, ptr addrspace(3) %s\n"
        "  call void @gpu.barrier(ptr %gpu, i32 0)\n"
        "  %r = load float, ptr addrspace(3) %s"
    )
    kernel = storing(line, "float", ["float"], 4096)
    assert "@shared_memory = internal addrspace(3) global [4096 x i8]" in spirv_text(kernel)
    module = spirv_module(kernel)
    assert problem_of(module) == ""
    assert 4096 in {words[2] for words in found(module, CONSTANT)}


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_extremes_of_what_is_no_number(name: str) -> None:
    """OpenCL's functions would give the other operand. The body runs on this processor."""
    text = spirv_text(called(f"llvm.{name}.f32", "float", ["float"] * 2))
    definition = re.search(rf"define internal float @gpu\.{name}\.f32\(.*?\n}}\n", text, re.DOTALL)
    assert definition is not None
    run = (
        "define void @run(ptr %x, ptr %y, ptr %r) {\n"
        "  %a = load float, ptr %x\n  %b = load float, ptr %y\n"
        f"  %c = call float @gpu.{name}.f32(float %a, float %b)\n"
        "  store float %c, ptr %r\n  ret void\n}\n"
    )
    code = load_object(compile_text(definition[0] + run), "run")
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(code.address)
    numbers = np.array([1, 2, -3, np.inf, -np.inf, np.nan], np.float32)
    for x in numbers:
        for y in numbers:
            a, b, result = np.array([x]), np.array([y]), np.zeros(1, np.float32)
            call(a.ctypes.data, b.ctypes.data, result.ctypes.data)
            np.testing.assert_array_equal(result[0], getattr(np, name)(x, y))
