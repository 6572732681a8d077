"""Attention as one kernel: its tiles, and what it needs of registers and shared memory."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from daedal.common.errors import ScheduleError, UnsupportedError
from daedal.compiler import te
from daedal.compiler.codegen.gpu.kernel import kernel_text
from daedal.compiler.codegen.gpu.nvptx import ptx_text
from daedal.compiler.codegen.gpu.ptxas import assembled, find_ptxas
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.attention import attention_function
from daedal.compiler.ops.gpu.attention_space import GpuAttentionSpace
from daedal.compiler.ops.gpu.attention_tiles import AttentionTiles, attention_tiles
from daedal.compiler.ops.gpu.kernel import gpu_kernel_function, gpu_kernel_space
from daedal.compiler.ops.space import Config
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.printer import func_text
from tests.support.emulated import bank_conflicts_of, emulated
from tests.support.gpu_formulas import attention, product
from tests.support.gpu_texts import function_of, text_of
from tests.support.sass import operations

pytestmark = pytest.mark.xdist_group("gpu-texts")  # which are made once in a process

HALF = "float16"
SEQUENCES = {
    "a long one": (attention(512, 512, 64, 64, batch=(8, 12), mask=1.0), AttentionTiles(64, 32)),
    "a narrow one": (attention(512, 512, 32, 32, batch=(8, 12), mask=1.0), AttentionTiles(64, 64)),
    "a wide one": (attention(512, 512, 128, 128, batch=(8, 12)), AttentionTiles(32, 16)),
    "a very wide one": (
        attention(512, 512, 256, 256, batch=(8, 12), mask=1.0),
        AttentionTiles(16, 16),
    ),
    "long queries": (attention(512, 512, 256, 64, batch=(8, 12)), AttentionTiles(16, 16)),
    "an image": (attention(197, 197, 64, 64, batch=(1, 12)), AttentionTiles(16, 64)),
    "a few images": (attention(197, 197, 64, 64, batch=(3, 12)), AttentionTiles(64, 32)),
    "uneven": (attention(1000, 300, 40, 24, batch=(64, 12), mask=1.0), AttentionTiles(64, 32)),
    "a short one": (attention(9, 20, 4, 4), AttentionTiles(16, 32)),
    "a step": (attention(1, 500, 64, 64, batch=(1, 12)), AttentionTiles(1, 128)),
    "a wide step of 16 bits": (
        attention(2, 90, 256, 256, batch=(1, 4), dtype=HALF),
        AttentionTiles(1, 128),
    ),
    "a long one of 16 bits": (
        attention(512, 512, 64, 64, batch=(8, 12), mask=1.0, dtype=HALF),
        AttentionTiles(64, 32, 2, on_cores=True),
    ),
    "a wide one of 16 bits": (
        attention(512, 512, 128, 128, batch=(8, 12), dtype=HALF),
        AttentionTiles(64, 16, 2, on_cores=True),
    ),
    "a very wide one of 16 bits": (
        attention(512, 512, 256, 256, batch=(8, 12), mask=1.0, dtype=HALF),
        AttentionTiles(32, 16, 1, on_cores=True),
    ),
    "long values of 16 bits": (
        attention(512, 512, 64, 256, batch=(8, 12), dtype=HALF),
        AttentionTiles(64, 16, 2, on_cores=True),
    ),
    "an image of 16 bits": (
        attention(197, 197, 64, 64, batch=(1, 12), dtype=HALF),
        AttentionTiles(16, 64, 2, on_cores=True),
    ),
    "uneven of 16 bits": (
        attention(1000, 300, 80, 40, batch=(64, 12), mask=1.0, dtype=HALF),
        AttentionTiles(64, 32, 2, on_cores=True),
    ),
    "a short one of 16 bits": (
        attention(9, 15, 4, 4, dtype=HALF),
        AttentionTiles(16, 16, 1, on_cores=True),
    ),
}
"""With the tiles that the rule chooses."""
ONLY = ("a short one of 16 bits", "a very wide one", "long queries")
"""One step of 16 keys has no smaller tile, and larger tiles of long rows fit no shared memory."""

Arrays = dict[str, npt.NDArray[np.floating]]


def given(kernel: Kernel) -> Arrays:
    rng = np.random.default_rng(5)
    return {x.name: rng.standard_normal(x.shape).astype(x.dtype) for x in kernel.inputs}


@pytest.mark.parametrize("name", SEQUENCES)
def test_small_problems_have_small_tiles(name: str) -> None:
    kernel, expected = SEQUENCES[name]
    assert attention_tiles(kernel) == expected


@pytest.mark.parametrize("name", SEQUENCES)
def test_tiles_are_knobs(name: str) -> None:
    """The rule's are the default; all of them fit."""
    kernel, rule = SEQUENCES[name]
    space = gpu_kernel_space(kernel)
    if name in ONLY:
        assert space is None
        return
    assert isinstance(space, GpuAttentionSpace)
    assert space.default == Config.of(rows=rule.rows, columns=rule.columns, stages=rule.stages)
    assert space.chosen(space.default) == rule
    assert space.fits(space.all()).all()
    cycles = space.cycles(space.all())
    assert len(cycles) == len(space) > 1
    assert (cycles > 0).all()
    assert all(len(column) == len(space) for column in space.features(space.all()).values())


def test_a_configuration_is_a_schedule() -> None:
    kernel = attention(33, 18, 8, 24)
    config = Config.of(rows=32, columns=16, stages=1)
    found = gpu_kernel_function(kernel, config=config)
    assert func_text(found) == func_text(attention_function(kernel, AttentionTiles(32, 16)))
    with pytest.raises(ScheduleError, match="must be one of"):
        gpu_kernel_function(kernel, config=Config.of(rows=128, columns=16, stages=1))


@pytest.mark.parametrize(
    "kernel",
    [
        product(64, 64, 64),
        attention(64, 64, 64, 257),
        attention(64, 64, 264, 64),
        attention(1, 3000, 64, 64),
        attention(64, 64, 64, 257, dtype=HALF),
        replace(attention(64, 64, 64, 64), scores=None),
    ],
)
def test_what_is_no_attention_of_this_form_has_no_tiles(kernel: Kernel) -> None:
    """Sums of longer rows are in no registers, and a block of one query has few keys."""
    assert attention_tiles(kernel) is None
    if kernel.scores is not None:
        with pytest.raises(UnsupportedError, match="attention must have"):
            gpu_kernel_function(kernel)


def test_without_products_of_warps_float16_has_no_tiles() -> None:
    kernel = attention(64, 64, 64, 64, dtype=HALF)
    assert attention_tiles(kernel) is not None
    assert attention_tiles(kernel, has_warps=False) is None
    single = attention(1, 64, 64, 64, dtype=HALF)
    assert attention_tiles(single, has_warps=False) == AttentionTiles(1, 128)


@pytest.mark.parametrize(
    "shape",
    [(5, 3, 2, 3), pytest.param((4, 18, 9, 2), marks=pytest.mark.heavy(2)), (1, 7, 3, 2)],
)
def test_the_interpreter_computes_what_the_formulas_say(shape: tuple[int, int, int, int]) -> None:
    kernel = attention(*shape)
    inputs = given(kernel)
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    found = run(gpu_kernel_function(kernel), inputs)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("depth", "width"),
    [(132, 8), (8, 130), pytest.param(256, 256, marks=pytest.mark.heavy(4))],
)
@pytest.mark.parametrize("dtype", ["float32", HALF])
def test_longer_queries_and_values(dtype: str, depth: int, width: int) -> None:
    """Of more than 128 elements, with threads in random orders; a second step of keys."""
    kernel = attention(5, 18, depth, width, scale=1 / 16, dtype=dtype)
    inputs = given(kernel)
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    func = gpu_kernel_function(kernel)
    error = 2e-3 if dtype == HALF else 1e-5
    for seed in (None, 0):
        (found,) = emulated(func, inputs, seed).values()
        np.testing.assert_allclose(found, wanted, rtol=error, atol=error)


@pytest.mark.parametrize("threads", [64, 256])
def test_all_blocks_of_one_query_compute_the_same(threads: int) -> None:
    kernel = attention(2, 300, 8, 24)
    inputs = given(kernel)
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    config = Config.of(rows=1, columns=threads, stages=1)
    (found,) = emulated(gpu_kernel_function(kernel, config=config), inputs, 1).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("on_cores", [False, True])
@pytest.mark.parametrize("sizes", [(32, 16), (64, 64), (64, 16, 2)])
def test_all_tiles_compute_the_same(sizes: tuple[int, ...], on_cores: bool) -> None:
    """Of scores that are products as they are, or rounded."""
    kernel = attention(33, 18, 8, 24, scale=1.0, dtype=HALF if on_cores else "float32")
    assert (kernel.scores is kernel.stages[0]) != on_cores
    inputs = given(kernel)
    (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    func = attention_function(kernel, AttentionTiles(*sizes, on_cores=on_cores))
    (found,) = emulated(func, inputs, 1).values()
    error = 1e-3 if on_cores else 1e-6
    np.testing.assert_allclose(found, wanted, rtol=error, atol=error)


@pytest.mark.parametrize("rows", [4, 1])
@pytest.mark.parametrize("dtype", ["float32", HALF])
def test_keys_that_are_masked(dtype: str, rows: int) -> None:
    """Of the first item, the first step's keys all are, of the second one the last ones, and of the
    third one all of them: a mean of nothing is no number. In the fourth one, a score is none."""
    kernel = attention(rows, 96, 4, 5, batch=(4,), mask=1.0, dtype=dtype)
    inputs = given(kernel)
    hidden = np.zeros((4, 96), dtype)
    hidden[0, :80] = hidden[1, 3:] = hidden[2] = -np.inf
    hidden[3, 5] = np.nan
    inputs["x3"] = hidden
    (found,) = emulated(gpu_kernel_function(kernel), inputs, 0).values()
    with np.errstate(invalid="ignore"):
        (wanted,) = te.evaluate_tensors([kernel.result], inputs)
    assert np.isfinite(wanted[:2]).all() and np.isnan(wanted[2:]).all()
    error = 1e-3 if dtype == HALF else 1e-5
    np.testing.assert_allclose(found, wanted, rtol=error, atol=error)


@pytest.mark.parametrize(
    "name",
    [
        "attention",
        "odd attention",
        "attention of long values",
        "attention of 16 bits",
        "attention of 16 bits with long values",
    ],
)
def test_no_read_of_shared_memory_has_bank_conflicts(name: str) -> None:
    found = bank_conflicts_of(function_of(name), text_of(name, checked=True))
    assert {ways for (_, is_write), ways in found.items() if not is_write} == {1}


@pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_sums_are_in_registers(name: str, architecture: str) -> None:
    ptx = ptx_text(kernel_text(gpu_kernel_function(SEQUENCES[name][0]), "k"), architecture)
    assert ".minnctapersm" in ptx
    cubin = assembled(ptx, architecture)
    assert (cubin.spilled_bytes, cubin.stack_bytes, cubin.warnings) == (0, 0, ())
    assert cubin.registers <= (255 if "wide" in name or "long values" in name else 168)


@pytest.mark.skipif(
    find_ptxas() is None, reason="ptxas is not installed (pip install 'daedal[gpu]')"
)
def test_machine_code_of_tensor_cores_has_each_product_once() -> None:
    """Of a warp and 32 keys: four tiles of scores, of four chunks each, and eight of values, of two
    chunks; queries and weights by one load of matrices for each chunk, keys and values by one for
    two tiles. A thread copies 16 bytes at a time, in the loop and before it."""
    text = kernel_text(gpu_kernel_function(SEQUENCES["a long one of 16 bits"][0]), "k")
    found = operations(assembled(ptx_text(text, "sm_80"), "sm_80").data)
    names = ("HMMA", "LDSM", "LDGSTS")
    assert [found[name] for name in names] == [16 + 16, 4 + 8 + 2 + 8, 2 * (2 + 2)]
