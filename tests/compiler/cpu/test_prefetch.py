"""Weights are fetched while those before them are multiplied: which lines, and where that pays."""

import itertools
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from daedal.compiler.cpu.frame import Frame
from daedal.compiler.cpu.kernel import Kernel, kernel_function
from daedal.compiler.ops.cpu.reuse import LINE_BYTES, NARROW, WIDEST, Registers
from daedal.compiler.tir.errors import ExecutionError
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import FloatImm, Load, Var
from daedal.compiler.tir.interpreter import run
from daedal.compiler.tir.linear import element_number
from daedal.compiler.tir.lower import lower
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.stmt import Allocate, BufferStore, For, Prefetch, PrimFunc, Seq, Stmt
from daedal.compiler.tir.visit import free_vars, loads
from tests.compiler.cpu.test_tiles import blocked, product
from tests.support.machine_code import run_machine_code


def pieces(stmt: Stmt) -> list[Stmt]:
    """A statement and all in it."""
    match stmt:
        case Seq(body):
            return [item for part in body for item in pieces(part)]
        case For(_, _, body) | Allocate(_, body):
            return [stmt, *pieces(body)]
    return [stmt]


def fetched(func: PrimFunc) -> list[Prefetch]:
    return [item for item in pieces(func.body) if isinstance(item, Prefetch)]


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
def test_nothing_is_left_to_lower(registers: Registers) -> None:
    """Of tiles that overlap, with what is fetched, in a frame: each change keeps indices simple."""
    frame = Frame((31, 60 * 16), (33, 60 * 16), (1, 0), FloatImm(0.0))
    kernel = replace(blocked(31, 60, 80), frame=frame)
    func = kernel_function(kernel, (), registers).func
    assert fetched(func) and lower(func) is func
    assert func_text(lower(replace(func))) == func_text(func)  # a copy remembers nothing


@pytest.mark.parametrize("registers", [NARROW, WIDEST], ids=["AVX2", "AVX-512"])
@pytest.mark.parametrize(("rows", "blocks"), [(49, 64), (16, 64), (31, 60)])
def test_each_line_of_the_next_weights_is_fetched(
    rows: int, blocks: int, registers: Registers
) -> None:
    """During all tiles of pixels together that read the weights before."""
    func = lower(kernel_function(blocked(rows, blocks, 80), (), registers).func)
    parts = pieces(func.body)
    tiles = parts[0]
    assert isinstance(tiles, For)
    (sums,) = (part for part in parts if isinstance(part, BufferStore) and "x1" in read_by(part))
    weights = read_by(sums)["x1"]
    ranges = {part.var: np.arange(part.extent) for part in parts if isinstance(part, For)}

    def touched(load: Load, tile: int) -> set[int]:
        own = {var for index in load.indices for var in free_vars(index)} - {tiles.var}
        return lines(load, {tiles.var: np.array([tile]), **{var: ranges[var] for var in own}})

    used = [touched(weights, tile) for tile in range(min(tiles.extent, 60))]
    starts = [tile for tile in range(1, len(used)) if used[tile] != used[tile - 1]]
    assert len(starts) > 2
    for first, following in pairwise(starts):
        ahead = set[int]()
        for item, tile in itertools.product(fetched(func), range(first, following)):
            ahead |= touched(Load(item.buffer, item.indices), tile)
        assert ahead == used[following]


def read_by(store: BufferStore) -> dict[str, Load]:
    return {load.buffer.name: load for load in loads(store.value)}


def lines(load: Load, values: dict[Var, np.ndarray]) -> set[int]:
    """The lines of the cache that a load touches at all combinations of values."""
    form = element_number(load.indices, load.buffer.shape).expr()
    grids = np.meshgrid(*values.values(), indexing="ij")
    env = dict(zip(values, (grid.reshape(-1) for grid in grids), strict=True))
    found = np.asarray(evaluate(form, env, lambda load, _: load))
    return set((found * 4 // LINE_BYTES).tolist())


@pytest.mark.parametrize(
    "kernel",
    [blocked(49, 64, 16), blocked(5, 64, 80), blocked(2000, 64, 80)],
    ids=["few weights", "one tile of pixels", "many tiles of pixels"],
)
def test_nothing_is_fetched_where_it_does_not_pay(kernel: Kernel) -> None:
    assert not fetched(lower(kernel_function(kernel, (), WIDEST).func))


@pytest.mark.parametrize(
    "kernel",
    [blocked(31, 64, 80), product(23, 256, 260), product(37, 200, 400)],
    ids=["blocks", "columns", "columns that tiles do not divide"],
)
def test_results_are_the_same(kernel: Kernel) -> None:
    func = lower(kernel_function(kernel, (), WIDEST).func)
    assert fetched(func)
    assert str(parse_func(str(func))) == str(func)
    rng = np.random.default_rng(1)
    arrays = {
        item.name: rng.integers(-9, 9, item.shape).astype(np.float32) for item in kernel.inputs
    }
    found = run_machine_code(func, arrays)["y"]
    a, b, *c = arrays.values()
    wanted = a @ b + c[0] if c else np.maximum(np.einsum("nk,bko->nbo", a, b), 0)
    np.testing.assert_array_equal(found, wanted)


def test_the_interpreter_reads_what_is_fetched() -> None:
    """So an index outside the buffer is found."""
    text = """\
func f(x: float32[4], out y: float32[4]):
    for i in 4:
        prefetch x[i + OFFSET]
        y[i] = x[i]
"""
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(run(parse_func(text.replace("OFFSET", "0")), {"x": x})["y"], x)
    with pytest.raises(ExecutionError, match="x"):
        run(parse_func(text.replace("OFFSET", "1")), {"x": x})
