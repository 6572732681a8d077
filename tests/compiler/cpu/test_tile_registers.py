"""Products of matrices in tile registers: which are chosen, what they compute, their code."""

import ctypes
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.codegen.llvm.function import function_text, parallel_extent
from daedal.compiler.cpu import kernel as kernels
from daedal.compiler.cpu.kernel import Kernel, ScheduledKernel, kernel_function, kernel_space
from daedal.compiler.ops.cpu.products import ProductCandidate, joined_terms, product_candidates
from daedal.compiler.ops.cpu.reuse import NARROW, TILED, WIDEST, Candidate
from daedal.compiler.tir.expr import Expr, Reduce
from daedal.compiler.tir.interpreter import run
from daedal.native.bodies.tile_products import TILE_FEATURES
from daedal.native.codegen import assembly_text, compile_vectors, load_object
from daedal.native.cpu import host_cpu
from daedal.native.levels import AMX_LEVEL, level_cpu
from tests.support.machine_code import run_machine_code

EMULATED = host_cpu().without(TILE_FEATURES)
"""This processor, where tile registers are emulated."""


def matrices(rows: int, columns: int, quads: int) -> Kernel:
    """``y = x @ w + bias``: (rows, 4 quads) uint8 times (quads, columns, 4) int8."""
    x = te.placeholder((rows, 4 * quads), "uint8", "x")
    w = te.placeholder((quads, columns, 4), "int8", "w")
    bias = te.placeholder((columns,), "int32", "bias")
    k = te.reduce_axis(quads, "k")

    def total(i: Expr, j: Expr) -> Expr:
        return te.sum(
            te.dot_quads([x[i, 4 * k + n] for n in range(4)], [w[k, j, n] for n in range(4)]), [k]
        )

    acc = te.compute((rows, columns), total, "acc")
    y = te.compute((rows, columns), lambda i, j: te.maximum(acc[i, j] + bias[j], -99), "y")
    return Kernel((x, w, bias), y, acc, (x, w, bias))


def convolution(size: int, ins: int, outs: int, kernel: int, stride: int = 1) -> Kernel:
    """Of a padded map (H, W, C), to blocks of 16 channels; `ins` and `outs` are multiples of 16."""
    padded = (size - 1) * stride + kernel
    x = te.placeholder((padded, padded, ins), "uint8", "x")
    w = te.placeholder((outs // 16, kernel, kernel, ins // 4, 16, 4), "int8", "w")
    r, s, c = (
        te.reduce_axis(n, name) for n, name in ((kernel, "r"), (kernel, "s"), (ins // 4, "c"))
    )

    def total(h: Expr, v: Expr, block: Expr, lane: Expr) -> Expr:
        elements = [x[h * stride + r, v * stride + s, 4 * c + n] for n in range(4)]
        return te.sum(
            te.dot_quads(elements, [w[block, r, s, c, lane, n] for n in range(4)]), [r, s, c]
        )

    acc = te.compute((size, size, outs // 16, 16), total, "acc")
    y = te.compute(acc.shape, lambda *i: te.clip(acc[i] - 7, -128, 127).astype("int8"), "y")
    return Kernel((x, w), y, acc, (x, w))


def in_tiles(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> ScheduledKernel:
    """The kernel by products of matrices, even where vectors would be faster."""

    def best(found: Sequence[Candidate]) -> Candidate:
        own = [item for item in found if isinstance(item, ProductCandidate)]
        return min(own, key=lambda item: item.cycles)

    monkeypatch.setattr(kernels, "best_candidate", best)
    return kernel_function(kernel, (), TILED)


def inputs_of(kernel: Kernel) -> dict[str, np.ndarray]:
    """Random numbers, and rows of the largest."""
    rng = np.random.default_rng(1)
    made = {}
    for item in kernel.inputs:
        limits = np.iinfo(item.dtype)
        low, high = (-1000, 1000) if item.dtype == "int32" else (limits.min, limits.max)
        made[item.name] = rng.integers(low, high + 1, item.shape).astype(item.dtype)
    made["x"].reshape(-1)[: made["x"].size // 3] = 255
    made["w"].reshape(-1)[: made["w"].size // 4] = -128
    return made


KERNELS = {
    "16x16x16": matrices(16, 16, 16),
    "odd": matrices(37, 50, 15),
    "few rows": matrices(3, 40, 11),
    "few columns": matrices(20, 5, 6),
    "one term": matrices(18, 33, 1),
    "1x1": convolution(5, 48, 32, 1),
    "1x1, stride 2": convolution(4, 32, 48, 1, 2),
    "3x3": convolution(7, 32, 48, 3),
    "3x3, stride 2": convolution(5, 16, 16, 3, 2),
    "3x3, several terms": convolution(4, 80, 16, 3),
}


@pytest.mark.parametrize("name", KERNELS)
def test_emulated_tiles_compute_what_the_loops_do(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter of the scheduled loops, and of loops as they were, agree with both forms of
    machine code."""
    kernel = KERNELS[name]
    scheduled = in_tiles(kernel, monkeypatch)
    given = inputs_of(kernel)
    plain = te.create_prim_func(kernel.inputs, [kernel.result], "plain")
    (wanted,) = run(plain, given).values()
    if wanted.size < 3000:
        (loops,) = run(scheduled.func, given).values()
        np.testing.assert_array_equal(loops.reshape(wanted.shape), wanted)
    for options in ({"cpu": EMULATED}, {"checked": True}):
        (found,) = run_machine_code(scheduled.func, given, **options).values()
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_threads_have_tile_registers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four calls, each for a part of the iterations, at once: each loads its own shapes."""
    kernel = KERNELS["odd"]
    func = in_tiles(kernel, monkeypatch).func
    given = inputs_of(kernel)
    (wanted,) = run_machine_code(func, given, cpu=EMULATED).values()
    code = load_object(compile_vectors(function_text(func, "tested"), EMULATED), "tested")
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(
        code.address
    )
    found = np.zeros_like(wanted)
    arrays = [*(given[buffer.name] for buffer in func.inputs), found]
    addresses = (ctypes.c_void_p * len(arrays))(*(item.ctypes.data for item in arrays))
    count = parallel_extent(func)
    assert count >= 4
    with ThreadPoolExecutor(4) as threads:
        bounds = [number * count // 4 for number in range(5)]
        calls = [
            threads.submit(function, ctypes.addressof(addresses), *ends)
            for ends in pairwise(bounds)
        ]
        assert [call.result() for call in calls] == [0] * 4
    np.testing.assert_array_equal(found, wanted)


def instructions(scheduled: ScheduledKernel) -> tuple[list[str], list[str]]:
    """The operations on tiles, of the code for AMX in order; and the whole code by lines."""
    assembly = assembly_text(function_text(scheduled.func, "tested"), level_cpu(AMX_LEVEL))
    found = re.findall(r"\t(ldtilecfg|tile\w+|tdp\w+)\t?[%(\d]?", assembly)
    return [name for name in found if name != "tile_shapes"], assembly.splitlines()


@pytest.mark.parametrize(
    ("name", "products"), [("1x1", 6), ("3x3", 6), ("odd", 4), ("3x3, stride 2", 2)]
)
def test_sums_stay_in_tile_registers(
    name: str, products: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One configuration and one release a call; sums are set to 0 and stored once each."""
    scheduled = in_tiles(KERNELS[name], monkeypatch)
    found, _ = instructions(scheduled)
    assert found.count("ldtilecfg") == found.count("tilerelease") == 1
    assert found[0] == "ldtilecfg" and found[-1] == "tilerelease"
    assert found.count("tilezero") == found.count("tilestored")
    sums = found.count("tilezero")
    assert found.count("tdpbusd") % sums == 0
    first, last = found.index("tilezero"), found.index("tilestored")
    assert set(found[first : first + sums]) == {"tilezero"}
    assert set(found[first + sums : last]) == {"tileloadd", "tdpbusd"}
    assert set(found[last:-1]) == {"tilestored"}


def test_products_share_what_is_loaded() -> None:
    """32 rows and columns: four loads for four products, the least that two by two need."""
    scheduled = kernel_function(matrices(64, 64, 64), (), TILED)
    assert scheduled.tiles is not None and scheduled.tiles.product == (16, 16, 16)
    assert (scheduled.tiles.rows, scheduled.tiles.lanes) == (((0, 32),), 32)
    found, _ = instructions(scheduled)
    assert found.count("tileloadd") == found.count("tdpbusd") > 0
    assert found.count("tilezero") == 4


@pytest.mark.parametrize(
    ("kernel", "product"),
    [
        (matrices(196, 192, 192), (14, 16, 16)),  # fourteen products of rows, none half empty
        (convolution(14, 256, 256, 3), (14, 16, 16)),
        (convolution(7, 512, 512, 3), (7, 16, 16)),
        (convolution(28, 128, 128, 1), (16, 16, 16)),
        (matrices(1, 4096, 1024), None),  # a vector times a matrix: memory decides
        (matrices(64, 64, 1), None),  # four terms
        (matrices(2, 64, 200), None),
        (convolution(56, 16, 96, 1), None),  # 16 channels
    ],
)
def test_short_products_stay_in_vectors(
    kernel: Kernel, product: tuple[int, int, int] | None
) -> None:
    tiles = kernel_function(kernel, (), TILED).tiles
    assert tiles is not None and tiles.product == product
    for registers in (NARROW, WIDEST):
        tiles = kernel_function(kernel, (), registers).tiles
        assert tiles is not None and tiles.product is None


@pytest.mark.parametrize("name", ["odd", "3x3"])
def test_the_tuner_has_tiles_of_both_kinds(name: str) -> None:
    """The default is the rule's; any configuration computes the same."""
    kernel = KERNELS[name]
    space, vectors = (kernel_space(kernel, (), registers) for registers in (TILED, WIDEST))
    assert space is not None and vectors is not None
    assert {*space.knobs} - {*vectors.knobs} == {"row_axis3", "rows3", "product"}
    chosen = kernel_function(kernel, (), TILED)
    assert chosen.tiles == space.tiles(space.default)
    assert space.fits(space.all()).all() and "product" in space.features(space.all())
    given = inputs_of(kernel)
    (wanted,) = run(te.create_prim_func(kernel.inputs, [kernel.result], "plain"), given).values()
    other = next(item for item in space.configs(space.all()) if not item["product"])
    for config in (other, *space.sample(np.random.default_rng(3), 4)):
        func = kernel_function(kernel, (), TILED, config).func
        (found,) = run_machine_code(func, given, cpu=EMULATED).values()
        np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_weights_that_come_from_memory_are_fetched_ahead() -> None:
    """Each step fetches its part of the weights of the next columns, which lie in lines."""
    scheduled = kernel_function(convolution(7, 256, 512, 3), (), TILED)
    assert scheduled.tiles is not None and scheduled.tiles.product is not None
    _, code = instructions(scheduled)
    assert sum("prefetch" in line for line in code) > 0
    small = kernel_function(convolution(7, 64, 64, 3), (), TILED)
    assert not any("prefetch" in line for line in instructions(small)[1])


def test_only_quads_of_bytes_in_memory_suit() -> None:
    """No elements that are computed, are converted, lie apart or are padded."""
    kernel = matrices(32, 32, 16)
    x, w, _ = kernel.inputs
    k = te.reduce_axis(16, "k")

    def suits(element: Callable[[Expr], Expr]) -> bool:
        def total(i: Expr, j: Expr) -> Expr:
            elements = [element(i), *(x[i, 4 * k + n] for n in range(1, 4))]
            return te.sum(te.dot_quads(elements, [w[k, j, n] for n in range(4)]), [k])

        acc = te.compute((32, 32), total, "acc")
        assert isinstance(acc.value, Reduce)
        return bool(list(product_candidates(acc.value, acc.axes, 4, (), TILED)))

    assert suits(lambda i: x[i, 4 * k])
    assert not suits(lambda i: x[i, 4 * k] + 1)
    assert not suits(lambda i: x[i, 4 * k + 1])
    assert not suits(lambda i: x.padded(0)[i, 4 * k])
    assert not suits(lambda i: w[k, i, 0].astype("uint8"))


def test_terms_of_neighbouring_pixels_are_joined() -> None:
    """48 channels of 3 columns are 144 bytes side by side: three steps of 12 quads, not of 12 in
    each column; those of another row are apart."""
    kernel = convolution(8, 48, 16, 3)
    assert kernel.reduction is not None
    formula = kernel.reduction.value
    assert isinstance(formula, Reduce)
    joined = joined_terms(formula)
    assert [axis.extent for axis in joined.axes] == [3, 36]
    assert [axis.extent for axis in formula.axes] == [3, 3, 12]
