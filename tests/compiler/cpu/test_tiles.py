"""Register tiles: those that do not divide their axes, axes that become one, packed constants."""

from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.codegen.llvm.function import function_text
from daedal.compiler.cpu.kernel import Kernel, kernel_function
from daedal.compiler.ops.cpu.merge import merged
from daedal.compiler.ops.cpu.reuse import (
    MOST_VECTORS,
    NARROW,
    WIDEST,
    Registers,
    Tiles,
    best_candidate,
    choose_tiles,
    tile_candidates,
)
from daedal.compiler.ops.cpu.turned import turned_tile
from daedal.compiler.tir.expr import Expr, Reduce
from daedal.native.codegen import simplify
from tests.support.machine_code import run_machine_code


def product(rows: int, columns: int, depth: int) -> Kernel:
    """A matrix product and a sum with a row of numbers."""
    a = te.placeholder((rows, depth), "float32", "x0")
    b = te.placeholder((depth, columns), "float32", "x1")
    c = te.placeholder((columns,), "float32", "x2")
    k = te.reduce_axis(depth, "k")
    sums = te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], k), "r")
    result = te.compute((rows, columns), lambda i, j: sums[i, j] + c[j], "y")
    return Kernel((a, b, c), result, sums, (a, b, c))


def tiles_of(kernel: Kernel, registers: Registers) -> Tiles | None:
    assert kernel.reduction is not None
    formula = kernel.reduction.value
    assert isinstance(formula, Reduce)
    return choose_tiles(formula.value, kernel.reduction.axes, 4, (), registers)


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize(
    ("rows", "columns"), [(7, 61), (13, 8), (1, 19), (197, 40), (2, 3), (5, 33), (12, 64)]
)
def test_all_shapes_have_the_right_sums(rows: int, columns: int, registers: Registers) -> None:
    kernel = product(rows, columns, 11)
    func = kernel_function(kernel, (), registers).func
    rng = np.random.default_rng(rows)
    arrays = {
        item.name: rng.integers(-9, 9, item.shape).astype(np.float32) for item in kernel.inputs
    }
    found = run_machine_code(func, arrays)["y"].reshape(rows, columns)
    np.testing.assert_array_equal(found, arrays["x0"] @ arrays["x1"] + arrays["x2"])


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize("columns", [64, 96, 128, 200])
def test_all_sums_of_a_tile_are_registers(columns: int, registers: Registers) -> None:
    """Also those of four vectors, 64 lanes with AVX-512: nothing stays on the stack."""
    kernel = product(48, columns, 11)
    scheduled = kernel_function(kernel, (), registers)
    assert scheduled.tiles is not None
    assert scheduled.tiles.lanes >= registers.vector_bytes // 2
    module = llvm.parse_assembly(function_text(scheduled.func, "f"))
    simplify(module, llvm.Target.from_default_triple().create_target_machine())
    assert "alloca" not in str(module)


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
def test_odd_shapes_keep_full_vectors(registers: Registers) -> None:
    """509 is prime: without tiles that overlap, it would have one lane, and one row."""
    tiles = tiles_of(product(509, 509, 509), registers)
    assert tiles is not None
    assert tiles.lanes % (registers.vector_bytes // 4) == 0
    (row,) = tiles.rows
    assert row[1] >= 4 and tiles.outer == (1, 0)


def test_accumulators_fit_the_registers() -> None:
    for registers in (NARROW, WIDEST):
        for rows in (1, 4, 7, 30, 56, 197):
            tiles = tiles_of(product(rows, 64, 16), registers)
            assert tiles is not None
            vectors = tiles.lanes * 4 // registers.vector_bytes
            count = np.prod([extent for _, extent in tiles.rows], dtype=int)
            assert count * vectors + vectors < registers.count


def blocked(rows: int, blocks: int, depth: int) -> Kernel:
    """Products of rows with matrices of 16 columns, as a 1x1 convolution of a map has them."""
    x = te.placeholder((rows, depth), "float32", "x0")
    w = te.placeholder((blocks, depth, 16), "float32", "x1")
    k = te.reduce_axis(depth, "k")
    shape = (rows, blocks, 16)
    sums = te.compute(shape, lambda n, b, o: te.sum(x[n, k] * w[b, k, o], k), "r")
    result = te.compute(shape, lambda n, b, o: te.maximum(sums[n, b, o], 0.0), "y")
    return Kernel((x, w), result, sums, (x, w))


@pytest.mark.parametrize(("rows", "blocks"), [(196, 16), (13, 6), (5, 2), (49, 3)])
def test_what_all_lanes_share_is_read_for_several_vectors(rows: int, blocks: int) -> None:
    """Where the lanes' axis is a single vector of AVX-512: vectors of two or more blocks."""
    kernel = blocked(rows, blocks, 11)
    scheduled = kernel_function(kernel, (), WIDEST)
    tiles = scheduled.tiles
    assert tiles is not None and tiles.lanes == 16
    (_, pixels), (_, vectors) = tiles.rows
    assert vectors > 1 and pixels * vectors + vectors + 1 <= WIDEST.count
    rng = np.random.default_rng(rows)
    x, w = (rng.integers(-9, 9, item.shape).astype(np.float32) for item in kernel.inputs)
    found = run_machine_code(scheduled.func, {"x0": x, "x1": w})["y"]
    wanted = np.maximum(np.einsum("nk,bko->nbo", x, w), 0)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def convolution(kernel: int) -> Kernel:
    """Of a map (1, 7, 9, 4) with its channels last, and a sum with a number for each channel."""
    x = te.placeholder((1, 6 + kernel, 8 + kernel, 4), "float32", "x0")
    w = te.placeholder((kernel, kernel, 4, 8), "float32", "x1")
    b = te.placeholder((8,), "float32", "x2")
    taps = [te.reduce_axis(extent, f"k{n}") for n, extent in enumerate((kernel, kernel, 4))]

    def formula(n: Expr, i: Expr, j: Expr, c: Expr) -> Expr:
        read = x[n, i + taps[0], j + taps[1], taps[2]]
        return te.sum(read * w[*taps, c], taps)

    sums = te.compute((1, 7, 9, 8), formula, "r")
    result = te.compute((1, 7, 9, 8), lambda *i: sums[i] + b[i[-1]], "y")
    return Kernel((x, w, b), result, sums, (x, w, b))


@pytest.mark.parametrize(("group", "dtype"), [(2, "int16"), (4, "uint8")])
def test_groups_of_products_are_one_load(group: int, dtype: str) -> None:
    """Of channels, and of their weights: if each is counted, seven pixels of a row, the whole of
    it, seem to take longer than two tiles of four with more vectors."""
    x = te.placeholder((7, 9, 4 * group), dtype, "x0")
    w = te.placeholder((8, 3, 4, 16, group), dtype if group == 2 else "int8", "x1")
    s, k = te.reduce_axis(3, "s"), te.reduce_axis(4, "k")
    dot = {2: te.dot_pairs, 4: te.dot_quads}[group]

    def total(i: Expr, j: Expr, block: Expr, lane: Expr) -> Expr:
        elements = [x[i, j + s, k * group + number] for number in range(group)]
        return te.sum(dot(elements, [w[block, s, k, lane, n] for n in range(group)]), [s, k])

    sums = te.compute((7, 7, 8, 16), total, "r")
    assert isinstance(sums.value, Reduce)
    tiles = choose_tiles(sums.value.value, sums.axes, 4, (), WIDEST)
    assert tiles is not None
    assert sorted(extent for _, extent in tiles.rows) == [2, 7]


@pytest.mark.parametrize(("kernel", "axes"), [(1, 2), (3, 3)])
def test_axes_that_follow_each_other_become_one(kernel: int, axes: int) -> None:
    """Of a 1x1 convolution rows and columns; of a larger one the single image and its rows."""
    made = convolution(kernel)
    result, reduction = merged(made.result, made.reduction)
    assert reduction is not None
    assert len(result.axes) == len(reduction.axes) == axes
    func = kernel_function(made, (), NARROW).func
    rng = np.random.default_rng(kernel)
    x, w, b = (rng.integers(-9, 9, item.shape).astype(np.float32) for item in made.inputs)
    found = run_machine_code(func, {"x0": x, "x1": w, "x2": b})["y"]
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(1, 2))
    wanted = np.einsum("nijcuv,uvcd->nijd", windows, w) + b
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_axes_with_pads_or_conditions_stay() -> None:
    x = te.placeholder((4, 6), "float32", "x0")
    padded = te.compute((4, 6), lambda i, j: x.padded(0.0)[i, j - 1], "y")
    chosen = te.compute((4, 6), lambda i, j: te.select(j < 3, x[i, j], 0.0), "y")
    turned = te.compute((6, 4), lambda i, j: x[j, i], "y")
    for tensor in (padded, chosen, turned):
        assert len(merged(tensor, None)[0].axes) == 2
    plain = te.compute((4, 6), lambda i, j: x[i, j] * 2.0, "y")
    assert len(merged(plain, None)[0].axes) == 1


def test_packed_constants_lie_in_blocks_of_lanes() -> None:
    kernel = product(5, 48, 7)
    scheduled = kernel_function(kernel, (kernel.inputs[1],), NARROW)
    ((tensor, how),) = scheduled.moved
    assert tensor is kernel.inputs[1] and how.lanes in (8, 16)
    rng = np.random.default_rng(1)
    x, w, b = (rng.integers(-9, 9, item.shape).astype(np.float32) for item in kernel.inputs)
    packed = how.packing(w.shape).applied(w)
    assert packed.shape == (48 // how.lanes, 7, how.lanes)
    found = run_machine_code(scheduled.func, {"x0": x, "x1": packed, "x2": b})["y"]
    np.testing.assert_array_equal(found, x @ w + b)


@pytest.mark.parametrize("registers", [NARROW, WIDEST])
@pytest.mark.parametrize(("rows", "columns"), [(5, 48), (30, 40), (7, 61), (1, 24)])
def test_constants_lie_as_the_registers_want(rows: int, columns: int, registers: Registers) -> None:
    kernel = product(rows, columns, 7)
    scheduled = kernel_function(kernel, (kernel.inputs[1],), registers)
    rng = np.random.default_rng(rows)
    x, w, b = (rng.integers(-9, 9, item.shape).astype(np.float32) for item in kernel.inputs)
    laid_out = scheduled.moved[0][1].packing(w.shape).applied(w) if scheduled.moved else w
    given = {"x0": x, "x1": np.ascontiguousarray(laid_out), "x2": b}
    found = run_machine_code(scheduled.func, given)["y"]
    np.testing.assert_array_equal(found.reshape(rows, columns), x @ w + b)


def test_an_axis_that_is_divided_becomes_two() -> None:
    """A grouped product: within a group, rows of a tile read the same elements."""
    x = te.placeholder((6, 40), "float32", "x0")
    w = te.placeholder((8, 3), "float32", "x1")
    k = te.reduce_axis(3, "k")
    formula = lambda c, p: te.sum(x[c // 4 * 3 + k, p] * w[c, k], k)  # noqa: E731
    sums = te.compute((8, 40), formula, "r")
    result = te.compute((8, 40), lambda c, p: sums[c, p] + 1.0, "y")
    kernel = Kernel((x, w), result, sums, (x, w))
    joined, reduction = merged(result, sums)
    assert reduction is not None and joined.shape == reduction.shape == (2, 4, 40)
    tiles = tiles_of(replace(kernel, result=joined, reduction=reduction), NARROW)
    assert tiles is not None and (1, 4) in tiles.rows
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-9, 9, item.shape).astype(np.float32) for item in kernel.inputs)
    found = run_machine_code(kernel_function(kernel, (), NARROW).func, {"x0": a, "x1": b})["y"]
    groups = b.reshape(2, 4, 3) @ a.reshape(2, 3, 40)
    np.testing.assert_array_equal(found.reshape(groups.shape), groups + 1)


def test_repeated_elements_keep_their_axis() -> None:
    """Vectors read an element for several lanes; what also needs its digit is two axes."""
    x = te.placeholder((4, 8), "float32", "x")
    repeated = te.compute((4, 16), lambda i, j: x[i, j // 2], "y")
    mixed = te.compute((2, 16), lambda i, j: x[i * 2 + j % 2, j // 2], "y")
    thirds = te.compute((4, 24), lambda i, j: x[i, j // 3], "y")
    assert [merged(item, None)[0].shape[-1] for item in (repeated, mixed, thirds)] == [16, 2, 3]


@pytest.mark.parametrize(
    ("queries", "keys", "in_rows"), [(300, 900, True), (40, 300, False), (300, 9000, False)]
)
def test_large_results_are_stored_row_by_row(queries: int, keys: int, *, in_rows: bool) -> None:
    """If the vectors of a row stay in the cache; those of another head are others."""
    q = te.placeholder((4, queries, 32), "float32", "x0")
    k = te.placeholder((4, 32, keys), "float32", "x1")
    d = te.reduce_axis(32, "d")
    scores = te.compute((4, queries, keys), lambda h, i, j: te.sum(q[h, i, d] * k[h, d, j], d), "r")
    assert isinstance(scores.value, Reduce)
    tiles = choose_tiles(scores.value.value, scores.axes, 4, ())
    assert tiles is not None and tiles.vector == 2
    assert tiles.outer == ((0, 1, 2) if in_rows else (0, 2, 1))
    assert {item.outer for item in tiles.orders} == {(0, 1, 2), (0, 2, 1)}


def window(columns: int, stride: int) -> te.Tensor:
    """The largest of 3x3 elements of each of 64 maps."""
    x = te.placeholder((64, 3 + 7 * stride, 3 + (columns - 1) * stride), "float32", "x")
    r, s = te.reduce_axis(3, "r"), te.reduce_axis(3, "s")

    def largest(c: Expr, h: Expr, w: Expr) -> Expr:
        return te.max(x[c, h * stride + r, w * stride + s], [r, s])

    return te.compute((64, 8, columns), largest, "r")


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize(("columns", "stride"), [(28, 1), (28, 2), (14, 1), (7, 2)])
def test_sums_that_share_nothing_do_not_wait(
    columns: int, stride: int, registers: Registers
) -> None:
    """A tile has several rows, and as many lanes as LLVM loads at once."""
    reduction = window(columns, stride)
    (x,) = reduction.inputs
    result = te.compute(reduction.shape, lambda *i: reduction[i], "y")
    scheduled = kernel_function(Kernel((x,), result, reduction, (x,)), (), registers)
    assert scheduled.tiles is not None
    ((_, rows),) = scheduled.tiles.rows
    assert rows >= 4
    assert scheduled.tiles.lanes.bit_count() == 1
    given = np.random.default_rng(columns).normal(size=x.shape).astype(np.float32)
    found = run_machine_code(scheduled.func, {x.name: given})["y"].reshape(result.shape)
    taps = np.lib.stride_tricks.sliding_window_view(given, (3, 3), axis=(1, 2))
    np.testing.assert_array_equal(found, taps[:, ::stride, ::stride].max(axis=(3, 4)))


@pytest.mark.parametrize(("rows", "size"), [(49, 16), (14, 8), (7, 4), (3, None)])
def test_small_maps_are_turned_in_small_tiles(rows: int, size: int | None) -> None:
    x = te.placeholder((64, rows), "float32", "x")
    y = te.compute((rows, 64), lambda i, j: x[j, i], "y")
    assert y.value is not None
    tiles = turned_tile(y.value, y.axes, y.dtype, WIDEST)
    assert (None if tiles is None else tiles.lanes) == size


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
def test_short_sums_are_stored_as_vectors(registers: Registers) -> None:
    """Lanes along the columns of an image would read fewer operands; but its results have their
    channels last, so each would be stored alone, after 27 products."""
    x = te.placeholder((3, 34, 34), "float32", "x")
    weights = te.placeholder((3, 3, 3, 16), "float32", "w")
    c, r, s = (te.reduce_axis(3, name) for name in "crs")

    def products(h: Expr, w: Expr, o: Expr) -> Expr:
        return te.sum(x[c, h + r, w + s] * weights[r, s, c, o], [r, s, c])

    sums = te.compute((32, 32, 16), products, "r")
    result = te.compute(sums.shape, lambda *i: sums[i], "y")
    kernel = Kernel((x, weights), result, sums, (x, weights))
    scheduled = kernel_function(kernel, (weights,), registers)
    assert scheduled.tiles is not None
    assert scheduled.tiles.lanes == 16
    assert scheduled.tiles.vector == 2


@pytest.mark.parametrize(("terms", "blocks"), [(64, 4), (1024, 2)])
def test_blocks_of_a_tile_are_few_where_the_first_cache_does_not_hold_them(
    terms: int, blocks: int
) -> None:
    rows, count, lanes = 112, 8, 16
    x = te.placeholder((rows, terms), "float32", "x")
    weights = te.placeholder((count, terms, lanes), "float32", "w")
    k = te.reduce_axis(terms, "k")
    sums = te.compute(
        (rows, count, lanes), lambda i, b, c: te.sum(x[i, k] * weights[b, k, c], k), "y"
    )
    assert isinstance(sums.value, Reduce)
    found = best_candidate(tile_candidates(sums.value.value, sums.axes, 4, (), terms=terms))
    assert found is not None
    assert dict(found.tiles.rows)[1] == blocks


def test_rows_of_depthwise_convolutions_lie_along_the_width() -> None:
    size, channels = 14, 64
    x = te.placeholder((size + 2, size + 2, channels), "float32", "x")
    weights = te.placeholder((3, 3, channels), "float32", "w")
    dy, dx = te.reduce_axis(3, "dy"), te.reduce_axis(3, "dx")
    sums = te.compute(
        (size, size, channels),
        lambda h, w, c: te.sum(x[h + dy, w + dx, c] * weights[dy, dx, c], (dy, dx)),
        "y",
    )
    assert isinstance(sums.value, Reduce)
    tiles = choose_tiles(sums.value.value, sums.axes, 4, ())
    assert tiles is not None
    assert [axis for axis, _ in tiles.rows] == [1]


def test_rows_of_several_vectors_lie_along_the_width() -> None:
    """Along the height they would be 4096 bytes apart here, in one set of the first cache."""
    size, terms, blocks = 14, 64, 8
    x = te.placeholder((size, size + 2, terms), "float32", "x")
    weights = te.placeholder((blocks, terms, 16), "float32", "w")
    k = te.reduce_axis(terms, "k")
    sums = te.compute(
        (size, size, blocks, 16),
        lambda h, w, b, c: te.sum(x[h, w + 1, k] * weights[b, k, c], k),
        "y",
    )
    assert isinstance(sums.value, Reduce)
    tiles = choose_tiles(sums.value.value, sums.axes, 4, (weights,))
    assert tiles is not None
    assert tiles.rows == ((1, 14), (2, 2))


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize("rows", [1024, 7])
def test_sums_of_columns_read_long_parts_of_rows(registers: Registers, rows: int) -> None:
    x = te.placeholder((rows, 1000), "float32", "x")
    k = te.reduce_axis(rows, "k")
    sums = te.compute((1000,), lambda c: te.sum(x[k, c], k), "y")
    assert isinstance(sums.value, Reduce)
    tiles = choose_tiles(sums.value.value, sums.axes, 4, (), registers)
    assert tiles is not None
    assert tiles.lanes * 4 == MOST_VECTORS * registers.vector_bytes
