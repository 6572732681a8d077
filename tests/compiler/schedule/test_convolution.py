"""A convolution, from te to instructions: the same bytes after every primitive."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daedal.compiler import te
from daedal.compiler.schedule import Schedule, Trace, replay
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import For, Stmt
from tests.support.conv_schedule import schedule_conv2d
from tests.support.tensor_programs import (
    Program,
    assert_same,
    conv2d,
    inputs_of,
    intrinsics,
    reference,
)


def scheduled(program: Program, rng: np.random.Generator, block: int, **tiles: int) -> Schedule:
    """Schedule with a check after every primitive."""
    arrays = inputs_of(program, rng)
    expected = reference(program, arrays)
    schedule = Schedule(te.create_prim_func(*program, "conv2d"), intrinsics(block))
    schedule_conv2d(schedule, lambda: assert_same(schedule, arrays, expected), **tiles)
    return schedule


def test_partial_tiles_printed(
    golden: Callable[[str, str], None], rng: np.random.Generator
) -> None:
    schedule = scheduled(conv2d(), rng, 4)
    golden("schedule/conv2d_7x7_tile_4x4.txt", str(schedule))
    golden("schedule/conv2d_7x7_tile_4x4_trace.txt", str(schedule.trace))


def test_before_any_primitive_printed(golden: Callable[[str, str], None]) -> None:
    golden("schedule/conv2d_7x7.txt", str(Schedule(te.create_prim_func(*conv2d(), "conv2d"))))


def test_trace_replays_to_the_same_text(rng: np.random.Generator) -> None:
    program = conv2d(height=5, width=6)
    schedule = scheduled(program, rng, 4, tile_rows=2, tile_columns=3)
    text = schedule.trace.to_json()
    again = replay(Trace.from_json(text), te.create_prim_func(*program, "conv2d"), intrinsics(4))
    assert str(again) == str(schedule)
    assert again.trace.to_json() == text


def test_trace_of_one_shape_applies_to_another(rng: np.random.Generator) -> None:
    schedule = scheduled(conv2d(), rng, 4)
    other = conv2d(height=9, width=5, blocks_in=3, blocks_out=1)
    arrays = inputs_of(other, rng)
    again = replay(schedule.trace, te.create_prim_func(*other, "conv2d"), intrinsics(4))
    assert_same(again, arrays, reference(other, arrays))


@settings(max_examples=8)
@given(
    size=st.tuples(st.integers(3, 9), st.integers(3, 9)),
    blocks=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    pad=st.integers(0, 2),
    batch=st.integers(1, 2),
    tiles=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 2), st.integers(1, 2)),
    threads=st.integers(1, 2),
    seed=st.integers(0, 1 << 30),
)
def test_any_shape_and_tile(
    size: tuple[int, int],
    blocks: tuple[int, int],
    kernel: int,
    stride: int,
    pad: int,
    batch: int,
    tiles: tuple[int, int, int, int],
    threads: int,
    seed: int,
) -> None:
    program = conv2d(
        height=size[0],
        width=size[1],
        blocks_in=blocks[0],
        blocks_out=blocks[1],
        kernel=kernel,
        stride=stride,
        pad=pad,
        batch=batch,
        block=2,
    )
    scheduled(
        program,
        np.random.default_rng(seed),
        2,
        tile_rows=tiles[0],
        tile_columns=tiles[1],
        tile_out=tiles[2],
        tile_in=tiles[3],
        threads=threads,
    )


@pytest.mark.parametrize(("stride", "rows"), [(1, 6), (2, 9)])
def test_loads_shrink_to_the_halo_of_a_tile(
    stride: int, rows: int, rng: np.random.Generator
) -> None:
    program = conv2d(height=16, width=16, stride=stride)
    schedule = scheduled(program, rng, 4)
    _, scopes = collect(schedule.func.body)
    shapes = {buffer.name: scope.allocation.shape for buffer, scope in scopes.items()}
    assert shapes == {
        "acc": (1, 1, 4, 4, 1, 4),
        "par_par": (1, 4, 3),
        "y_out": (1, 1, 4, 4, 1, 4),
        "x_inp": (1, 1, rows, rows, 1, 4),
        "w_wgt": (1, 1, 3, 3, 4, 4),
    }
    depths = {buffer.name: len(scope.loops) for buffer, scope in scopes.items()}
    assert depths == {"acc": 4, "par_par": 4, "y_out": 4, "x_inp": 5, "w_wgt": 5}


def test_virtual_threads_inside_a_reduction_share_operands(rng: np.random.Generator) -> None:
    """Loads outside the thread loop are shared, what is allocated inside is per thread."""
    program = conv2d(height=4, width=4, blocks_out=4)
    arrays = inputs_of(program, rng)
    expected = reference(program, arrays)
    schedule = Schedule(te.create_prim_func(*program, "conv2d"), intrinsics(4))
    acc = schedule.get_block("acc")
    x_inp = schedule.cache_read(acc, "x", "inp")
    w_wgt = schedule.cache_read(acc, "w", "wgt")
    n, oc, oh, ow, b, co, ic, kh, kw, ci = schedule.get_loops(acc)
    thread, oc_1 = schedule.split(oc, [2, None])
    schedule.reorder(n, ic, thread, oc_1, kh, kw, oh, ow, b, co, ci)
    schedule.virtual_thread(thread)
    schedule.compute_at(w_wgt, thread)
    schedule.compute_at(x_inp, ic)
    assert_same(schedule, arrays, expected)
    _, scopes = collect(schedule.func.body)
    around = {buffer.name: [loop.var.name for loop in s.loops] for buffer, s in scopes.items()}
    assert around == {"x_inp": ["n", "ic"], "w_wgt": ["n", "ic", "oc_0"], "acc": []}
    kinds = {loop.var.name: loop.kind for s in scopes.values() for loop in s.loops}
    assert kinds["oc_0"] == "virtual_thread"
    assert isinstance(schedule.func.body, Stmt) and not isinstance(schedule.func.body, For)
