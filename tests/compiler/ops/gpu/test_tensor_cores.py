"""Products of float16 and int8 by instructions of warps: when, how exact, and in registers."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.nvptx import ARCHITECTURES, ptx_text
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.sim.gpu.reports import Site
from tests.support.emulated import bank_conflicts_of, launched
from tests.support.gpu_formulas import KERNELS, batched, convolution, product
from tests.support.gpu_texts import function_of, text_of
from tests.support.sass import operations

pytestmark = pytest.mark.xdist_group("gpu-texts")  # which are made once in a process

NAMES = [name for name in KERNELS if "tensor cores" in name]
INSTRUCTIONS = {
    "int8": "mma.m16n8k32.s8",
    "float16": "mma.m16n8k16.f16",
    "bfloat16": "mma.m16n8k16.bf16",
}


@pytest.mark.parametrize("name", KERNELS)
def test_products_that_have_an_instruction_use_it(name: str) -> None:
    text = text_of(name)
    found = {kind for kind in INSTRUCTIONS.values() if f"@gpu.{kind}(" in text.text}
    others = ("product of 8 bits", "blocked convolution")
    uses = name in NAMES or name in others or "attention of 16 bits" in name
    assert found == ({INSTRUCTIONS[KERNELS[name]().inputs[0].dtype]} if uses else set())
    if uses:
        assert text.block[0] == 32
        assert text.block[1] <= 4


def test_few_terms_are_multiplied_by_threads() -> None:
    text = kernel_text(gpu_kernel_function(product(64, 64, 15, "int8")), "k")
    assert "@gpu.mma" not in text.text


@pytest.mark.parametrize("shape", [(64, 64, 64), (51, 37, 100)])
def test_products_of_float16_are_as_exact_as_float32(shape: tuple[int, int, int]) -> None:
    rows, columns, depth = shape
    rng = np.random.default_rng(4)
    x, w = (rng.standard_normal(s).astype(np.float16) for s in ((rows, depth), (depth, columns)))
    bias = rng.standard_normal(columns).astype(np.float32)
    func = gpu_kernel_function(product(*shape, "float16"))
    text = kernel_text(func, "k", checked=True)
    (found,) = launched(text, func, {"x0": x, "x1": w, "x2": bias}, 0).values()
    expected = x.astype(np.float64) @ w.astype(np.float64) + bias
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_sums_of_int8_are_exact_at_their_ends() -> None:
    shape = (16, 8, 1024)
    x, w = np.full((16, 1024), -128, np.int8), np.full((1024, 8), -128, np.int8)
    func = gpu_kernel_function(product(*shape, "int8"))
    inputs = {"x0": x, "x1": w, "x2": np.full(8, 7, np.int32)}
    (found,) = launched(kernel_text(func, "k", checked=True), func, inputs, None).values()
    np.testing.assert_array_equal(found, np.full((16, 8), 1024 * 128 * 128 + 7))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("product of 16 bits", ["x4", "x4.trans"]),
        ("product of 8 bits", ["x4"]),
        ("narrow product of 16 bits", ["x4", "x2.trans"]),
        ("batched of 16 bits", ["x4", "x4"]),
        ("batched of 8 bits", ["x4", "x4"]),
        ("convolution of 16 bits", ["x4.trans", "x2"]),
        ("convolution of 8 bits", ["x2"]),
    ],
)
def test_rows_of_16_bytes_are_loaded_together(name: str, expected: list[str]) -> None:
    """Where the terms of a sum follow each other in memory; elements of 16 bits also where rows or
    columns of the result do: those of a matrix, or pixels. Terms of a convolution are channels.
    The second operand has two matrices a product, or four for two of neighbouring columns."""
    text = text_of(f"{name} in tensor cores").text
    product = INSTRUCTIONS["int8" if " 8 bits" in name else "float16"]
    products = text.count(f"@gpu.{product}(ptr %gpu")
    loads = re.findall(r"@gpu\.ldmatrix\.([\w.]+)\(ptr %gpu", text)
    assert Counter(loads) == Counter(expected * products)


def test_every_second_pixel_is_loaded_by_itself() -> None:
    kernel = convolution(32, 18, 32, stride=2, dtype="float16")
    text = kernel_text(gpu_kernel_function(kernel), "k").text
    products = text.count("@gpu.mma.m16n8k16.f16(ptr %gpu")
    assert re.findall(r"@gpu\.ldmatrix\.([\w.]+)\(ptr %gpu", text) == ["x2"] * products


@pytest.mark.parametrize("name", [name for name in KERNELS if "tensor cores" in name])
def test_no_access_of_shared_memory_has_bank_conflicts(name: str) -> None:
    found = bank_conflicts_of(function_of(name), text_of(name, checked=True))
    assert {is_write for _, is_write in found} == {False, True}
    assert set(found.values()) == {1}, found


@pytest.mark.heavy(10)
@pytest.mark.parametrize("dtype", ["int8", "float16"])
@pytest.mark.parametrize(
    "kernel",
    [
        partial(product, 128, 128, 128),
        partial(batched, 1, 64, 64, 128),
        partial(convolution, 64, 14, 64),
        partial(convolution, 32, 18, 32, stride=2),
        partial(convolution, 64, 14, 64, kernel=1),
        partial(convolution, 16, 20, 32, kernel=7, stride=2),
    ],
)
def test_large_tiles_have_no_bank_conflicts(kernel: Callable[..., Kernel], dtype: str) -> None:
    func = gpu_kernel_function(kernel(dtype=dtype))
    found = bank_conflicts_of(func, kernel_text(func, "k", checked=True))
    assert set(found.values()) == {1}, found


def test_bank_conflicts_without_a_swizzle() -> None:
    """Rows of the second operand are 128 bytes apart: all eight of a matrix in the same banks."""
    func = gpu_kernel_function(product(64, 64, 64, "float16"))
    plain = parse_func(func_text(func).replace(", swizzle: 128", ""))
    assert "swizzle" in func_text(func) and "swizzle" not in func_text(plain)
    found = bank_conflicts_of(plain, kernel_text(plain, "k", checked=True))
    assert found[Site.LDMATRIX, False] == 8 and found[Site.COPY, True] == 1


needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)


def _assembled() -> Iterator[object]:
    """As parameters: every kernel for one architecture, and the largest for the others, too."""
    for name in NAMES:
        for architecture in ARCHITECTURES:
            is_quick = architecture == "sm_80" or name.startswith("product")
            yield pytest.param(name, architecture, marks=[] if is_quick else [pytest.mark.slow])


@needs_ptxas
@pytest.mark.parametrize(("name", "architecture"), list(_assembled()))
def test_sums_stay_in_registers(name: str, architecture: str) -> None:
    ptx = ptx_text(text_of(name), architecture)
    assert "mma.sync.aligned." in ptx
    cubin = assembled(ptx, architecture)
    assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ())
    assert cubin.registers <= 168


@needs_ptxas
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float16", {"HMMA": 16, "LDSM": 4 + 4, "LDGSTS": 2 * (2 + 2), "IMMA": 0, "FFMA": 0}),
        ("int8", {"IMMA": 8, "LDSM": 2, "LDGSTS": 2 * (1 + 1), "HMMA": 0, "FFMA": 0}),
        ("float32", {"FFMA": 64, "HMMA": 0, "IMMA": 0, "LDSM": 0, "LDGSTS": 0}),
    ],
)
def test_machine_code_has_each_product_once(
    dtype: str, expected: dict[str, int], architecture: str
) -> None:
    """Of a warp and 32 terms: two by four tiles, of 16 or 32 terms each, and the rows of each
    operand once; without tensor cores, 4x4 sums of a thread and four of 16 terms, in a loop. A
    thread copies 16 bytes at a time, in the loop and before it."""
    text = kernel_text(gpu_kernel_function(product(64, 64, 512, dtype)), "product")
    found = operations(assembled(ptx_text(text, architecture), architecture).data)
    assert {key: found[key] for key in expected} == expected


def test_matrices_are_loaded_once_for_several_products() -> None:
    """A warp has two by four tiles, and two steps of sixteen terms."""
    ptx = ptx_text(text_of("product of 16 bits in tensor cores"), "sm_80")
    kinds = ("x4.shared", "x4.trans", "x2")
    loads = [ptx.count(f"ldmatrix.sync.aligned.m8n8.{kind}.") for kind in kinds]
    assert (loads, ptx.count("mma.sync")) == ([2 * 2, 2 * 4 // 2, 0], 2 * 4 * 2)
