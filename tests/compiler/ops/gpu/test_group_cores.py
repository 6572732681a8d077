"""Products by groups of four warps, which go on while their warps do something else."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from daedal.common.errors import DeviceError, UnsupportedError
from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.kernel_text import KernelText
from daedal.compiler.codegen.gpu.nvptx import ptx_text
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.core_choice import best_core_tiles
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function, gpu_kernel_space
from daedal.compiler.ops.gpu.space import GpuCoreSpace
from daedal.compiler.ops.gpu.tiles import SHARED_BYTES
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.expr import Reduce
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.lower import lower_kernel
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import PrimFunc
from tests.support.emulated import launched
from tests.support.gpu_formulas import batched, convolution, product
from tests.support.sass import operations
from tests.support.tensor_programs import inputs_of

pytestmark = pytest.mark.xdist_group("gpu-group-texts")  # which are made once in a process


def transposed(rows: int, columns: int, depth: int, *, both: bool) -> Kernel:
    """A product whose first operand, or both, have their terms in rows."""
    x = te.placeholder((depth, rows), "float16", "x0")
    w = te.placeholder((depth, columns) if both else (columns, depth), "float16", "x1")
    k = te.reduce_axis(depth, "k")
    r = te.compute(
        (rows, columns),
        lambda i, j: te.sum(
            x[k, i].astype("float32") * (w[k, j] if both else w[j, k]).astype("float32"), k
        ),
        "r",
    )
    y = te.compute((rows, columns), lambda i, j: te.maximum(r[i, j], 0) + 1.0, "y")
    return Kernel((x, w), y, r)


KERNELS = {
    "km": (product(128, 40, 200, "float16"), (2, 64, 4)),
    "km, two stages": (product(40, 72, 136, "float16"), (1, 128, 2)),
    "km, three stages": (product(65, 8, 328, "float16"), (1, 64, 3)),
    "km, copies": (product(40, 44, 204, "float16"), (2, 64, 4)),
    "km, copies, three stages": (product(40, 66, 268, "float16"), (1, 64, 3)),
    "km of bfloat16": (product(40, 72, 136, "bfloat16"), (1, 64, 2)),
    "kk": (batched(3, 33, 50, 136, "float16"), (1, 64, 3)),
    "kk of 256 columns": (batched(1, 33, 250, 136, "float16"), (1, 256, 2)),
    "kk of 8 bits": (batched(2, 40, 72, 400, "int8"), (1, 64, 3)),
    "mk": (transposed(72, 40, 136, both=False), (1, 64, 3)),
    "mm": (transposed(128, 40, 264, both=True), (2, 64, 4)),
    "mk, convolution": (convolution(136, 8, 40, kernel=1, dtype="float16"), (1, 64, 2)),
}
"""By how operands lie, with groups, columns and stages."""
COPIES = [name for name in KERNELS if "copies" in name]
"""Whose rows are no multiples of 16 bytes: all threads copy words. One thread copies boxes of the
others."""
DATA = ("read", "write", "copy", "wgmma")
SEEDS = (None, 0, 1, 2, 3)
ORDERING = re.compile(r"^ *call void @gpu\.([a-z]+(?:\.[a-z]+)*)\b.*\n", re.M)


@cache
def function_of(name: str) -> PrimFunc:
    kernel, (groups, columns, stages) = KERNELS[name]
    return gpu_kernel_function(
        kernel, has_groups=True, config=config(groups, columns, stages, kernel)
    )


def config(groups: int, columns: int, stages: int, kernel: Kernel) -> Config:
    depth = 128 // numpy_dtype(kernel.inputs[0].dtype).itemsize
    return Config.of(rows=64 * groups, columns=columns, depth=depth, stages=stages, groups=groups)


@cache
def text_of(name: str) -> KernelText:
    return kernel_text(function_of(name), "k", checked=True)


def _names() -> Iterator[object]:
    """As parameters: few of the kernels, and the others in slow tests."""
    for name in KERNELS:
        is_quick = name in ("km", "mk", "km, copies")
        yield pytest.param(name, marks=pytest.mark.heavy(3) if is_quick else pytest.mark.slow)


@pytest.mark.parametrize("name", list(_names()))
def test_a_schedule_computes_what_the_formulas_say(name: str) -> None:
    kernel, (groups, columns, _) = KERNELS[name]
    inputs = inputs_of((list(kernel.inputs), []), np.random.default_rng(3))
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    func, text = function_of(name), text_of(name)
    assert text.block == (32, 4 * groups, 1)
    (called,) = set(re.findall(r"@gpu\.wgmma\.m64(n\d+)k\d+\.\w+\.(\w+)\(ptr %gpu, i", text.text))
    assert called == (f"n{columns}", name[:2])
    assert bool(text.maps) == (name not in COPIES) == ("@gpu.copy(" not in text.text)
    for seed in SEEDS:
        (found,) = launched(text, func, inputs, seed).values()
        np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.heavy(3)
@pytest.mark.parametrize("name", ["km", "mk", "km, copies"])
def test_products_are_as_exact_as_float32(name: str) -> None:
    """Of numbers that are no integers."""
    kernel, _ = KERNELS[name]
    rng = np.random.default_rng(4)
    inputs = {x.name: rng.standard_normal(x.shape).astype(x.dtype) for x in kernel.inputs}
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    (found,) = launched(text_of(name), function_of(name), inputs, 0).values()
    error = np.abs(found.reshape(wanted.shape) - wanted).max()
    assert 0 < error <= 1e-5 * np.abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["km", "mk"])
def test_the_interpreter_computes_the_same(name: str) -> None:
    kernel, _ = KERNELS[name]
    inputs = inputs_of((list(kernel.inputs), []), np.random.default_rng(3))
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    (found,) = run(function_of(name), inputs).values()
    np.testing.assert_allclose(found.reshape(wanted.shape), wanted, rtol=1e-5, atol=1e-5)


MUTATED = ["km, three stages"]
SELDOM_MUTATED = ["km", "km, two stages", "kk of 8 bits", "km, copies", "km, copies, three stages"]


@pytest.mark.heavy(8)
@pytest.mark.parametrize(
    "name", [*MUTATED, *(pytest.param(x, marks=pytest.mark.slow) for x in SELDOM_MUTATED)]
)
def test_nothing_that_orders_accesses_is_superfluous(name: str) -> None:
    """Without any one barrier, fence, wait, commit or copy, the emulator finds it."""
    inputs = inputs_of((list(KERNELS[name][0].inputs), []), np.random.default_rng(3))
    func, text = function_of(name), text_of(name)
    found = [call for call in ORDERING.finditer(text.text) if call[1] not in DATA]
    kinds = {"barrier", "wgmma.fence", "wgmma.commit", "wgmma.finish"}
    if name in COPIES:
        kinds |= {"wait", "commit", "fence.copies"}
    else:
        kinds |= {"arrivals.begin", "arrivals.expect", "arrivals.wait", "box.copy"}
    if name not in ("km", "km, copies"):  # where no stage is used twice
        kinds |= {"wgmma.wait"}
    assert {call[1] for call in found} == kinds
    for call in found:
        less = text.text[: call.start()] + text.text[call.end() :]
        with pytest.raises(DeviceError, match="must"):
            launched(replace(text, text=less), func, inputs, 0)


@pytest.mark.parametrize(
    ("name", "wait", "copies"),
    [
        (
            "km, copies, three stages",
            "wait 0 for x0_shared[k_0 % 3, 0:+64, 0:+64], x1_shared[k_0 % 3, 0:+64, 0:+64] fenced",
            ["commit"],
        ),
        (
            "km, three stages",
            "wait boxes arrived[k_0 % 3, k_0 // 3] for x0_shared[k_0 % 3, 0:+64, 0:+64], "
            "x1_shared[k_0 % 3, 0:+64, 0:+64]",
            ["expect 16384 at arrived[(k_0 + 1) % 3]"],
        ),
    ],
)
def test_a_step_is_multiplied_while_the_next_one_begins(
    name: str, wait: str, copies: list[str]
) -> None:
    """Its stage is that which the copies of the next step but one replace."""
    lowered = func_text(lower_kernel(function_of(name)))
    assert func_text(parse_func(lowered)) == lowered
    lines = [line.strip() for line in lowered.splitlines()]
    begin = lines.index("wait products 1")
    rest = [line for line in lines[begin:] if not line.startswith(("for", "if", "x", "r["))]
    expected = ["wait products 1", wait, "barrier", *copies, "fence r", "commit products"]
    assert rest[: len(expected)] == expected
    assert "wait products 0 for r" in rest


def test_products_of_groups_need_staged_operands() -> None:
    plain = parse_func(
        func_text(function_of("km")).replace("boxes: True, ", "").replace("stages: 4, ", "")
    )
    with pytest.raises(UnsupportedError, match="by asynchronous copies, and there are none around"):
        kernel_text(plain, "k")


@pytest.mark.parametrize(
    ("old", "new"),
    [(", swizzle: 128", ""), ("swizzle: 128", "swizzle: 256"), ("panels: True, ", "")],
)
def test_operands_must_lie_in_swizzled_lines(old: str, new: str) -> None:
    text = func_text(function_of("km"))
    assert old in text
    with pytest.raises(UnsupportedError, match="must lie in swizzled lines of 128 bytes"):
        kernel_text(parse_func(text.replace(old, new)), "k")


def test_terms_in_panels_are_refused() -> None:
    text = func_text(function_of("km, copies")).replace(
        "{stages: 4, ", "{panels: True, stages: 4, "
    )
    with pytest.raises(UnsupportedError, match="must lie in swizzled lines of 128 bytes"):
        kernel_text(parse_func(text), "k")


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (product(4096, 4096, 4096, "float16"), "wgmma.m64n256k16.f16"),
        (product(1024, 1024, 1024, "float16"), "wgmma.m64n128k16.f16"),
        (batched(1, 2048, 2048, 2048, "int8"), "wgmma.m64n256k32.s8"),
        (product(2048, 2048, 2048, "int8"), "mma.m16n8k32.s8"),  # whose columns follow each other
        (product(64, 64, 64, "float16"), "mma.m16n8k16.f16"),  # in one step
        (product(8, 4096, 4096, "float16"), "mma.m16n8k16.f16"),
        (product(512, 511, 512, "float16"), "mma.m16n8k16.f16"),  # rows are no whole words
    ],
)
def test_the_estimate_chooses(kernel: Kernel, expected: str) -> None:
    reduction = kernel.reduction
    assert reduction is not None and isinstance(reduction.value, Reduce)
    given = reduction.value.value, reduction.axes, reduction.value.axes
    found = best_core_tiles(*given, has_groups=True)
    assert found is not None and found.product.name == expected
    without = best_core_tiles(*given)
    assert without is not None and without.product.name.startswith("mma")


def test_the_space_has_both_kinds() -> None:
    kernel = KERNELS["km"][0]
    space = gpu_kernel_space(kernel, has_groups=True)
    assert isinstance(space, GpuCoreSpace)
    assert space.knobs["groups"] == [0, 1, 2] and space.knobs["columns"] == [16, 32, 64, 128, 256]
    assert np.isfinite(space.cycles(space.all())).all()
    rule = gpu_kernel_function(kernel, has_groups=True)
    assert str(gpu_kernel_function(kernel, has_groups=True, config=space.default)) == str(rule)
    without = gpu_kernel_space(kernel)
    assert without is not None and "groups" not in without.knobs


needs_ptxas = pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)


def test_other_architectures_have_no_such_products() -> None:
    for architecture in ("sm_80", "sm_90"):
        with pytest.raises(UnsupportedError, match=r"not 'gpu\.\w+"):
            ptx_text(text_of("km"), architecture)


@needs_ptxas
@pytest.mark.parametrize("name", list(_names()))
def test_sums_stay_in_registers(name: str) -> None:
    """Of four products a step, each is one instruction."""
    text = kernel_text(function_of(name), "k")
    cubin = assembled(ptx_text(text, "sm_90a"), "sm_90a")
    assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ())
    columns = KERNELS[name][1][1]
    assert cubin.registers <= columns // 2 + 100
    found = operations(cubin.data)
    kind = "IGMMA" if "8 bits" in name else "HGMMA"
    assert (found[kind] % 4, found["HMMA"], found["IMMA"], found["LDSM"]) == (0, 0, 0, 0)
    assert found[kind] > 0  # ptxas may unroll all steps
    assert (found["UTMALDG"] > 0, found["LDGSTS"] > 0) == (name not in COPIES, name in COPIES)


@needs_ptxas
@pytest.mark.heavy(4)
def test_a_large_product_fills_a_multiprocessor() -> None:
    text = kernel_text(
        gpu_kernel_function(product(4096, 4096, 4096, "float16"), has_groups=True), "k"
    )
    assert (text.grid, text.block) == ((32 * 16, 1, 1), (32, 8, 1))
    assert SHARED_BYTES < text.shared_bytes == 4 * (128 + 256) * 64 * 2 + 4 * 8
    cubin = assembled(ptx_text(text, "sm_90a"), "sm_90a")
    assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ())
    found = operations(cubin.data)
    assert cubin.registers <= 255 and (found["HGMMA"], found["LDGSTS"]) == (4, 0)
    assert found["UTMALDG"] == 3 * (1 + 4)  # two steps before the loop, and one in it
