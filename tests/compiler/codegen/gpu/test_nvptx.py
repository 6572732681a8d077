"""Kernels as PTX: what NVIDIA's assembler makes of them, and functions against numpy's."""

import ctypes
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from daedal.common.errors import UnsupportedError
from daedal.compiler.codegen.gpu.functions import function_definitions
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.codegen.gpu.nvptx import ARCHITECTURES, ptx_text
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.codegen.llvm.function import declarations
from daedal.native.codegen import compile_text, load_object
from tests.support.gpu_formulas import KERNELS
from tests.support.gpu_texts import text_of

pytestmark = pytest.mark.xdist_group("gpu-texts")  # which are made once in a process

Array = npt.NDArray[np.float32]

needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["product", "odd convolution", "row sums", "elementwise"])
def test_kernels_need_no_memory_for_registers(name: str, architecture: str) -> None:
    text = text_of(name)
    cubin = assembled(ptx_text(text, architecture), architecture)
    assert cubin.data[:4] == b"\x7fELF"
    assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ())
    assert 0 < cubin.registers <= 128


@needs_ptxas
@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_schedule_is_machine_code(architecture: str) -> None:
    """Attention on tensor cores keeps queries and sums in registers; three blocks of four warps
    with other products of matrices fit a multiprocessor (`CORE_THREADS`)."""
    for name in KERNELS:
        cubin = assembled(ptx_text(text_of(name), architecture), architecture)
        found = cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings
        assert found == (0, 0, ()), name
        most = 136 if "tensor cores" in name else 128
        assert 0 < cubin.registers <= (176 if "attention of 16 bits" in name else most), name


@pytest.mark.parametrize("name", KERNELS)
def test_every_schedule_is_ptx(name: str) -> None:
    text = text_of(name)
    ptx = ptx_text(text, "sm_80")
    assert ".version 7.0\n.target sm_80" in ptx
    assert ".visible .entry k(" in ptx
    barriers = text.text.count("call void @gpu.barrier")
    assert ptx.count("bar.sync") % max(barriers, 1) == 0, "loops are unrolled whole"
    assert (ptx.count("bar.sync") > 0) == (barriers > 0)
    assert ".local" not in ptx, "an array is in no registers"


def test_tiles_are_in_registers() -> None:
    """A thread multiplies each element that it reads with several others."""
    text = text_of("product")
    ptx = ptx_text(text, "sm_80")
    assert ptx.count("fma.rn.f32") >= 16
    assert ptx.count("ld.shared") < ptx.count("fma.rn.f32")


def test_what_the_back_end_cannot_select_is_refused() -> None:
    """It would end the process."""
    body = (
        "declare float @llvm.sin.f32(float)\ndefine internal void @body(ptr %gpu, ptr noalias %a0) "
        "{\n  %x = call float @llvm.sin.f32(float 1.0)\n  store float %x, ptr %a0\n  ret void\n}\n"
    )
    with pytest.raises(UnsupportedError, match=r"not 'llvm\.sin\.f32'; leave out"):
        ptx_text(KernelText("k", body, (1, 1, 1), (1, 1, 1), 0, 1), "sm_80")


def calling(declaration: str, result: str, call: str) -> KernelText:
    """A kernel that stores what a function gives for the number that is there."""
    kind = call.split("(")[1].split(" ")[0]
    body = (
        f"{declaration}\ndefine internal void @body(ptr %gpu, ptr noalias %a0) {{\n"
        f"  %x = load {kind}, ptr %a0\n  %r = call {result} {call}\n"
        f"  store {result} %r, ptr %a0\n  ret void\n}}\n"
    )
    return KernelText("k", body, (1, 1, 1), (1, 1, 1), 0, 1)


@pytest.mark.parametrize(("kind", "suffix"), [("float", "f32"), ("double", "f64")])
def test_numbers_are_rounded_to_the_nearest_integer(kind: str, suffix: str) -> None:
    """The back end does not select the function of LLVM's, and would end the process."""
    name = f"@llvm.lrint.i32.{suffix}"
    text = calling(f"declare i32 {name}({kind})", "i32", f"{name}({kind} %x)")
    assert f"cvt.rni.s32.{suffix}" in ptx_text(text, "sm_80")


def test_powers_of_two_in_float64_are_refused() -> None:
    name = "@llvm.exp2.f64"
    text = calling(f"declare double {name}(double)", "double", f"{name}(double %x)")
    with pytest.raises(UnsupportedError, match=r"not 'llvm\.exp2\.f64'; leave out"):
        ptx_text(text, "sm_80")


def compiled(name: str) -> Callable[[Array], Array]:
    """A function of GPUs as this processor's code."""
    (definition,) = function_definitions([f"gpu.{name}.f32"])
    loop = (
        "\ndefine void @run(ptr %x, ptr %y, i64 %n) {\nentry:\n  br label %head\nhead:\n"
        "  %i = phi i64 [ 0, %entry ], [ %next, %head ]\n"
        "  %p = getelementptr float, ptr %x, i64 %i\n  %v = load float, ptr %p\n"
        f"  %r = call float @gpu.{name}.f32(float %v)\n"
        "  %q = getelementptr float, ptr %y, i64 %i\n  store float %r, ptr %q\n"
        "  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, %n\n"
        "  br i1 %more, label %head, label %done\ndone:\n  ret void\n}\n"
    )
    calls = declarations(definition)
    code = load_object(compile_text(calls + definition + loop), "run")
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)

    def call(x: Array) -> Array:
        y = np.empty_like(x)
        kind(code.address)(x.ctypes.data, y.ctypes.data, len(x))
        return y

    return call


ALL = np.concatenate(
    [sign * np.geomspace(1e-38, 3e38, 20_001, dtype=np.float32) for sign in (1, -1)]
)
ANGLES = np.linspace(-10_000, 10_000, 40_001, dtype=np.float32)
UNIT = np.concatenate([np.linspace(-1, 1, 20_001, dtype=np.float32), ALL[np.abs(ALL) < 1]])
SMALL = np.linspace(-88, 88, 20_001, dtype=np.float32)
POSITIVE = np.abs(ALL)

RANGES: dict[str, Array] = {
    "acos": UNIT,
    "acosh": POSITIVE[POSITIVE >= 1],
    "asin": UNIT,
    "asinh": ALL,
    "atan": ALL,
    "atanh": UNIT[np.abs(UNIT) < 1],
    "cos": ANGLES,
    "cosh": SMALL,
    "log2": POSITIVE,
    "sin": ANGLES,
    "sinh": np.concatenate([SMALL, UNIT]),
    "tan": ANGLES,
}


def numpy_name(name: str) -> str:
    """numpy has arcsin for asin."""
    return f"arc{name[1:]}" if name.startswith("a") else name


@pytest.mark.parametrize("name", RANGES)
def test_functions_are_nearly_those_of_numpy(name: str) -> None:
    """Relative to the result, or to 1 where that is the distance of two arguments."""
    x = RANGES[name]
    found = compiled(name)(x)
    wanted = getattr(np, numpy_name(name))(x.astype(np.float64))
    least = 1.0 if name in ("sin", "cos", "log2") else 1e-37
    error = np.abs(found - wanted) / np.maximum(np.abs(wanted), least)
    worst = int(np.argmax(error))
    limit = 1e-4 if name == "tan" else 1e-6
    assert error[worst] <= limit, (x[worst], found[worst], wanted[worst])
