"""Products of matrices by warps: what is tensorized, and who has which element afterwards."""

import numpy as np
import pytest

from daedal.common.errors import ScheduleError, UnsupportedError
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.ops.gpu.schedule import SCOPES
from daedal.compiler.schedule import Schedule
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.lower import lower, lower_kernel
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import PrimFunc
from daedal.compiler.tir.warp_products import GROUP_PRODUCTS, WARP_PRODUCTS, product_named

PRODUCT = """
func kernel(x: int8[16, 32], w: int8[32, 8], out y: int32[16, 8]):
    alloc a: int8[16, 32] in shared
    alloc b: int8[32, 8] in shared
    alloc c: int32[16, 8] in fragment
    for i in 16, t in 32 thread.x:
        block a(vi:16 = i, vk:32 = t):
            a[vi, vk] = x[vi, vk]
    for t in 32 thread.x, j in 8:
        block b(vk:32 = t, vj:8 = j):
            b[vk, vj] = w[vk, vj]
    for t in 32 thread.x, i in 2, j in 2:
        block zero(vi:16 = i * 8 + t // 4, vj:8 = t % 4 * 2 + j):
            c[vi, vj] = 0
    for m in 16, n in 8, k in 32:
        block c(vi:16 = m, vj:8 = n, +vk:32 = k):
            c[vi, vj] = c[vi, vj] + int32(a[vi, vk]) * int32(b[vk, vj])
    for t in 32 thread.x, i in 2, j in 2:
        block y(vi:16 = i * 8 + t // 4, vj:8 = t % 4 * 2 + j):
            y[vi, vj] = c[vi, vj]
""".lstrip()

NEST = """
    barrier
    for lane in 32 thread.x, i in 2 {intrin: "mma.m16n8k32.s8"}, j in 2, k in 32:
        c[i, j] = c[i, j] + int32(a[i * 8 + lane // 4, k]) * int32(b[k, lane % 4 * 2 + j])
"""


def tensorized(text: str, intrin: str = "mma.m16n8k32.s8") -> PrimFunc:
    schedule = Schedule(parse_func(text), WARP_PRODUCTS, SCOPES)
    schedule.tensorize(schedule.get_loops(schedule.get_block("c"))[0], intrin)
    return schedule.func


def test_a_product_is_loops_of_lanes() -> None:
    """One barrier: the threads that copy operands are not those that multiply them."""
    text = func_text(lower_kernel(tensorized(PRODUCT)))
    assert NEST in text
    assert text.count("barrier") == 1
    assert "alloc c: int32[2, 2] in local" in text
    assert func_text(parse_func(text)) == text


def test_a_product_in_lanes_computes_what_the_block_does() -> None:
    rng = np.random.default_rng(2)
    inputs = [rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 32), (32, 8))]
    expected = inputs[0].astype(np.int32) @ inputs[1]
    func = tensorized(PRODUCT)
    for form in (func, lower(func)):
        (found,) = run(form, dict(zip("xw", inputs, strict=True))).values()
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("for m in 16, n in 8, k in 32", "for n in 8, m in 16, k in 32", "(16, 8, 32), not (8, "),
        ("+ int32(a[vi, vk]) *", "- int32(a[vi, vk]) *", "must add a product of two converted"),
        ("int32(b[vk, vj])\n", "int32(b[vk, 0])\n", "operand 'b' must be indexed by one"),
        ("a: int8[16, 32] in shared", "a: int8[16, 32] in global", "'a' is int8 in global"),
        ("c: int32[16, 8] in fragment", "c: int32[16, 8] in shared", "'c' is int32 in shared"),
    ],
)
def test_what_is_no_product_is_refused(old: str, new: str, reason: str) -> None:
    assert PRODUCT.count(old) == 1
    with pytest.raises(ScheduleError) as raised:
        tensorized(PRODUCT.replace(old, new))
    assert reason in str(raised.value)
    assert "c[m, n] = c[m, n] + int32(a[m, k]) * int32(b[k, n])" in str(raised.value)


def test_sums_are_initialized_elsewhere() -> None:
    start = "    for t in 32 thread.x, i in 2, j in 2:\n        block zero"
    end = PRODUCT.index("    for m in")
    text = PRODUCT[: PRODUCT.index(start)] + PRODUCT[end:].replace(
        "            c[vi, vj] = c",
        "            init:\n                c[vi, vj] = 0\n            c[vi, vj] = c",
    )
    with pytest.raises(ScheduleError, match="initialized elsewhere"):
        tensorized(text)


def test_the_other_intrinsic_has_other_loops() -> None:
    with pytest.raises(ScheduleError, match=r"must have extents \(16, 8, 16\)"):
        tensorized(PRODUCT, "mma.m16n8k16.f16")


def test_operands_have_the_intrinsic_s_dtype() -> None:
    text = PRODUCT.replace("w: int8", "w: uint8").replace("b: int8", "b: uint8")
    with pytest.raises(ScheduleError, match="'b' must be int8 in shared, and 'b' is uint8"):
        tensorized(text)


def test_sums_lie_as_the_instruction_has_them() -> None:
    text = PRODUCT.replace("vi:16 = i * 8 + t // 4", "vi:16 = t // 4 * 2 + i")
    with pytest.raises(UnsupportedError, match="each element of a fragment to one thread"):
        lower_kernel(tensorized(text))


def test_a_product_is_of_whole_warps() -> None:
    """Its loop of threads is not a part of those of a block."""
    text = PRODUCT.replace("for i in 16, t in 32 thread.x:", "for i in 8, t in 64 thread.x:")
    text = text.replace("(vi:16 = i, vk:32 = t)", "(vi:16 = i * 2 + t // 32, vk:32 = t % 32)")
    with pytest.raises(UnsupportedError, match=r"along thread\.x have 64 and 32; split them alike"):
        kernel_text(tensorized(text), "k")


def test_groups_have_shapes_of_the_instruction() -> None:
    """Source: PTX ISA, wgmma: 8 to 256 columns in steps of 8, and 32 bytes of terms."""
    sizes = {"float16": 2, "bfloat16": 2, "int8": 1}
    for name, product in GROUP_PRODUCTS.items():
        assert product_named(name) is product
        assert name.startswith(f"wgmma.m64n{product.columns}k{product.depth}.")
        assert product.columns % 8 == 0 and 8 <= product.columns <= 256
        assert product.depth * sizes[product.dtype] == 32
        assert product.rows * product.warps == 64
