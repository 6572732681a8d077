"""Layouts: reversible maps of indices, and schedules that compute the same in another layout."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.schedule import Schedule
from daedal.compiler.schedule.layout import IndexMap
from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Expr, Var
from tests.support.tensor_programs import assert_same, inputs_of, matmul, reference

MAPS = [
    ((4, 6), "i, j -> j, i", (6, 4)),
    ((4, 6), "i, j -> i // 2, j // 3, i % 2, j % 3", (2, 2, 2, 3)),
    ((4, 6), "i, j -> i * 6 + j", (24,)),
    ((4, 6), "i, j -> j * 2 + i // 2, i % 2", (12, 2)),
    ((8, 3), "i, j -> i // 2 % 2, j, i // 4, i % 2", (2, 3, 2, 2)),
    ((8, 3), "i, j -> i % 2 * 12 + i // 2 + j * 4", (24,)),
    ((1, 5), "i, j -> j, i // 4", (5, 1)),
]


def at(index: Expr, names: list[Var], point: tuple[int, ...]) -> int:
    def no_loads(*_: object) -> int:
        raise AssertionError("an index does not read memory")

    return int(evaluate(index, dict(zip(names, point, strict=True)), no_loads))


@pytest.mark.parametrize(("shape", "text", "new_shape"), MAPS, ids=[text for _, text, _ in MAPS])
def test_each_element_has_one_place(
    shape: tuple[int, ...], text: str, new_shape: tuple[int, ...]
) -> None:
    index_map = IndexMap.parse(text, shape)
    assert index_map.new_shape == new_shape
    old, new = [Var("i"), Var("j")], [Var(f"u{dim}") for dim in range(len(new_shape))]
    places = set()
    for point in itertools.product(*map(range, shape)):
        place = tuple(at(index, old, point) for index in index_map.forward(old))
        assert all(0 <= where < size for where, size in zip(place, new_shape, strict=True))
        places.add(place)
        assert point == tuple(at(index, new, place) for index in index_map.backward(new))
    assert len(places) == np.prod(shape)


@given(st.permutations([0, 1, 2, 3]), st.booleans())
def test_digits_in_any_order(order: list[int], joined: bool) -> None:
    """Four digits of two indices; joined to two new indices, or four of their own."""
    digits = [("i // 4", 2), ("i % 4", 4), ("j // 3", 3), ("j % 3", 3)]
    chosen = [digits[position] for position in order]
    parts = [name for name, _ in chosen]
    if joined:
        parts = [f"{parts[0]} * {chosen[1][1]} + {parts[1]}", *parts[2:]]
    index_map = IndexMap.parse(f"i, j -> {', '.join(parts)}", (8, 9))
    old = [Var("i"), Var("j")]
    points = itertools.product(range(8), range(9))
    forward = index_map.forward(old)
    places = {tuple(at(index, old, point) for index in forward) for point in points}
    assert len(places) == 72


@pytest.mark.parametrize(
    "text",
    [
        "i, j -> i",
        "i, j -> i, j, j",
        "i, j -> i // 4, i % 4, j",
        "i, j -> i // 2, i % 3, j",
        "i, j -> i // 2, j",
        "i, j -> i * 5 + j",
        "i, j -> i + j",
    ],
)
def test_maps_that_lose_or_repeat_are_refused(text: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        IndexMap.parse(text, (6, 6))
    assert str(caught.value) == (
        f"a layout must give each element one place and leave none empty (factors divide the "
        f"extents), which {text!r} does not"
    )


@pytest.mark.parametrize(
    ("text", "tiled"),
    [
        ("i, j -> j // 4, i, j % 4", True),
        ("i, j -> j, i", True),
        ("i, j -> i // 2, j, i % 2", True),
        ("i, j -> j * 6 + i", False),
    ],
)
@pytest.mark.parametrize("decomposed", [False, True])
def test_producer_and_consumer_follow(
    text: str, tiled: bool, decomposed: bool, rng: np.random.Generator
) -> None:
    program = matmul(columns=8)
    arrays = inputs_of(program, rng)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    c, d = schedule.get_block("c"), schedule.get_block("d")
    if tiled:
        _, j_0, _, _ = schedule.tile(schedule.get_loops(d), [4, 4])
        schedule.compute_at(c, j_0)
    if decomposed:
        schedule.decompose_reduction(c, schedule.get_loops(c)[-1])
    schedule.transform_layout(c, 0, text)
    assert_same(schedule, arrays, reference(program, arrays))


def test_a_tile_must_stay_a_box() -> None:
    schedule = Schedule(te.create_prim_func(*matmul(columns=8), "f"))
    _, j_0, _, _ = schedule.tile(schedule.get_loops(schedule.get_block("d")), [4, 4])
    schedule.compute_at(schedule.get_block("c"), j_0)
    with pytest.raises(ScheduleError) as caught:
        schedule.transform_layout(schedule.get_block("c"), 0, "i, j -> j * 6 + i")
    assert str(caught.value) == (
        "transform_layout would break the loop IR: bindings must cover a box: vj_vi = j_0 * 24 + "
        "j * 6 + i_0 * 4 + i leaves gaps (block 'c')"
    )


def test_what_is_padded_stays() -> None:
    x = te.placeholder((4,), "int32", "x")
    p = te.compute((4,), lambda i: x[i] + 1, "p")
    y = te.compute((4,), lambda i: p.padded(0)[i - 1], "y")
    schedule = Schedule(te.create_prim_func([x], [y], "f"))
    with pytest.raises(ScheduleError) as caught:
        schedule.transform_layout(schedule.get_block("p"), 0, "i -> i // 2, i % 2")
    assert str(caught.value) == (
        "transform_layout cannot move what is outside a buffer; 'p' is read through padded; use "
        "cache_read first"
    )
