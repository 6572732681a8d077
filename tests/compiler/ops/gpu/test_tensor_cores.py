"""Products of float16 and int8 by instructions of warps: when, how exact, and in registers."""

from collections.abc import Iterator

import numpy as np
import pytest

from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.nvptx import ARCHITECTURES, ptx_text
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function
from tests.support.emulated import launched
from tests.support.gpu_formulas import KERNELS, product
from tests.support.gpu_texts import text_of
from tests.support.sass import operations

pytestmark = pytest.mark.xdist_group("gpu-texts")  # which are made once in a process

NAMES = [name for name in KERNELS if "tensor cores" in name]
INSTRUCTIONS = {"int8": "mma.m16n8k32.s8", "float16": "mma.m16n8k16.f16"}


@pytest.mark.parametrize("name", KERNELS)
def test_products_that_have_an_instruction_use_it(name: str) -> None:
    text = text_of(name)
    found = {kind for kind in INSTRUCTIONS.values() if f"@gpu.{kind}(" in text.text}
    uses = name in NAMES or name == "product of 8 bits"
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


def test_elements_that_follow_each_other_are_loaded_together() -> None:
    """Rows of the first operand follow the terms of the sums; of the second, only if transposed.

    What a convolution reads does not: terms are channels.
    """
    plain, transposed, strided = (
        text_of(f"{name} of 16 bits in tensor cores").text
        for name in ("product", "batched", "convolution")
    )
    words = [text.count("load i32, ptr addrspace(3)") for text in (plain, transposed, strided)]
    pairs = [text.count("bitcast <2 x half>") for text in (plain, transposed, strided)]
    rows = [
        text.count("call {i32, i32, i32, i32} @gpu.ldmatrix.x4") for text in (plain, transposed)
    ]
    products = [text.count("@gpu.mma.m16n8k16.f16(ptr %gpu") for text in (plain, transposed)]
    assert rows == products
    assert words[0] == 0 and pairs[0] > 0
    assert words[1] > 0 and pairs[1] == 0
    assert "@gpu.ldmatrix" not in strided and pairs[2] > 0


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
        ("float16", {"HMMA": 16, "LDSM": 4, "IMMA": 0, "FFMA": 0}),
        ("int8", {"IMMA": 8, "LDSM": 2, "HMMA": 0, "FFMA": 0}),
        ("float32", {"FFMA": 256, "HMMA": 0, "IMMA": 0, "LDSM": 0}),
    ],
)
def test_machine_code_has_each_product_once(
    dtype: str, expected: dict[str, int], architecture: str
) -> None:
    """Of a warp and 32 terms: two by four tiles, of 16 or 32 terms each, and rows of the first
    operand once for both; without tensor cores, 4x4 sums of a thread and 16 terms."""
    text = kernel_text(gpu_kernel_function(product(64, 64, 512, dtype)), "product")
    found = operations(assembled(ptx_text(text, architecture), architecture).data)
    assert {key: found[key] for key in expected} == expected


def test_matrices_are_loaded_once_for_several_products() -> None:
    """A warp has two by four tiles, and two steps of sixteen terms."""
    ptx = ptx_text(text_of("product of 16 bits in tensor cores"), "sm_80")
    assert (ptx.count("ldmatrix.sync"), ptx.count("mma.sync")) == (2 * 2, 2 * 4 * 2)
