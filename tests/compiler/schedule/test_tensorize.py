"""Matching nests against patterns: what matches, and what the refusal shows."""

from collections.abc import Callable

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.schedule import Schedule
from daedal.compiler.te import Tensor
from daedal.compiler.tir.intrin import CopyIntrin, TensorIntrin
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import Block
from tests.support.tensor_programs import Program, assert_same, inputs_of, reference

ROW = (1, 4)


def vector(name: str, fn: Callable[[Tensor, Tensor], Tensor]) -> TensorIntrin:
    a, b = te.placeholder(ROW, "int32", "a"), te.placeholder(ROW, "int32", "b")
    return TensorIntrin(name, te.pattern(fn(a, b)))


LIMIT = te.scalar("limit")

TOYS: dict[str, TensorIntrin | CopyIntrin] = {
    "add": vector("add", lambda a, b: te.compute(ROW, lambda i, c: a[i, c] + b[i, c], "o")),
    "clip": vector(
        "clip", lambda a, b: te.compute(ROW, lambda i, c: te.minimum(a[i, c], LIMIT), "o")
    ),
    "mac": vector(
        "mac", lambda a, b: te.compute(ROW, lambda i, c: a[i, c] * b[i, c] + a[i, c], "o")
    ),
    "move": CopyIntrin("move", ("global",), ("global", "acc")),
}


def elementwise(
    fn: Callable[[Tensor, Tensor], Callable[[object, object, object], object]],
) -> Program:
    x = te.placeholder((3, 1, 4), "int32", "x")
    z = te.placeholder((3, 1, 4), "int32", "z")
    return [x, z], [te.compute((3, 1, 4), fn(x, z), "y")]  # type: ignore[arg-type]


def tensorized(program: Program, intrin: str, depth: int = 1) -> Schedule:
    schedule = Schedule(te.create_prim_func(*program, "f"), TOYS)
    schedule.tensorize(schedule.get_loops(schedule.get_block("y"))[depth], intrin)
    return schedule


def annotated(schedule: Schedule) -> Block:
    return next(site.block for site in collect(schedule.func.body)[0] if site.block.name == "y")


def check(program: Program, schedule: Schedule) -> None:
    arrays = inputs_of(program, np.random.default_rng(3))
    assert_same(schedule, arrays, reference(program, arrays))


def test_elementwise_row() -> None:
    program = elementwise(lambda x, z: lambda n, b, c: z[n, b, c] + x[n, b, c])
    schedule = tensorized(program, "add")
    check(program, schedule)
    block = annotated(schedule)
    assert dict(block.annotations) == {"intrin": "add", "operands": "a,b"}
    assert [region.buffer.name for region in block.reads] == ["z", "x"]


def test_operands_commute() -> None:
    program = elementwise(lambda x, z: lambda n, b, c: x[n, b, c] + z[n, b, c] * x[n, b, c])
    schedule = tensorized(program, "mac")
    check(program, schedule)
    assert annotated(schedule).annotations["operands"] == "a,b"


def test_immediates_are_found() -> None:
    program = elementwise(lambda x, z: lambda n, b, c: te.minimum(x[n, b, c], 17))
    schedule = tensorized(program, "clip")
    check(program, schedule)
    assert annotated(schedule).annotations["limit"] == 17


def test_a_copy_takes_any_loops() -> None:
    x = te.placeholder((5, 6), "int32", "x")
    program: Program = ([x], [te.compute((4, 9), lambda i, j: x.padded(7)[i + 1, j - 2], "y")])
    schedule = tensorized(program, "move", depth=0)
    check(program, schedule)
    text = str(schedule)
    assert "reads x.padded(7)[1:+4, -2:+9]" in text
    assert "{intrin: move}" in text


def test_loop_order_does_not_matter() -> None:
    rows = te.placeholder((4, 4), "int8", "a")
    columns = te.placeholder((4, 4), "int8", "w")
    k = te.reduce_axis(4, "k")
    product = te.compute(
        (4, 4),
        lambda i, j: te.sum(rows[i, k].astype("int32") * columns[j, k].astype("int32"), k),
        "c",
    )
    intrin = TensorIntrin("tile", te.pattern(product))
    x = te.placeholder((2, 4, 4), "int8", "x")
    w = te.placeholder((2, 4, 4), "int8", "v")
    n = te.reduce_axis(2, "n")
    kk = te.reduce_axis(4, "kk")
    y = te.compute(
        (4, 4),
        lambda p, q: te.sum(w[n, q, kk].astype("int32") * x[n, p, kk].astype("int32"), (n, kk)),
        "y",
    )
    program: Program = ([x, w], [y])
    schedule = Schedule(te.create_prim_func(*program, "f"), {"tile": intrin})
    p, q, outer, inner = schedule.get_loops(schedule.get_block("y"))
    schedule.reorder(outer, inner, q, p)
    schedule.tensorize(inner, "tile")
    check(program, schedule)
    block = annotated(schedule)
    assert block.annotations["operands"] == "w,a"
    assert block.init is not None
    assert [axis.name for axis in block.reduce_vars] == ["vn"]


def test_a_blockized_nest_can_be_named_by_its_block() -> None:
    program = elementwise(lambda x, z: lambda n, b, c: z[n, b, c] + x[n, b, c])
    schedule = Schedule(te.create_prim_func(*program, "f"), TOYS)
    block = schedule.blockize(schedule.get_loops(schedule.get_block("y"))[1])
    schedule.tensorize(block, "add")
    assert str(schedule) == str(tensorized(program, "add"))


Y = "y[vn, vb, vc] = "

MISMATCHES: list[tuple[Program, str, int, str]] = [
    (
        elementwise(lambda x, z: lambda n, b, c: x[n, b, c] - z[n, b, c]),
        "add",
        1,
        "tensorize needs block 'y' to compute 'add': + is wanted where there is -\n"
        "  intrinsic: o[vi, vc] = a[vi, vc] + b[vi, vc] over vi:1, vc:4\n"
        f"  block:     {Y}x[vn, vb, vc] - z[vn, vb, vc] over b:1, c:4",
    ),
    (
        elementwise(lambda x, z: lambda n, b, c: x[n, b, c] + z[n, b, c]),
        "add",
        0,
        "tensorize needs block 'y' to compute 'add': loop 'n' moves between rows of 'y'\n"
        "  intrinsic: o[vi, vc] = a[vi, vc] + b[vi, vc] over vi:1, vc:4\n"
        f"  block:     {Y}x[vn, vb, vc] + z[vn, vb, vc] over n:3, b:1, c:4",
    ),
    (
        elementwise(lambda x, z: lambda n, b, c: x[n, b, c] + x[n, b, c]),
        "add",
        1,
        "tensorize needs block 'y' to compute 'add': 'x' cannot stand for two operands\n"
        "  intrinsic: o[vi, vc] = a[vi, vc] + b[vi, vc] over vi:1, vc:4\n"
        f"  block:     {Y}x[vn, vb, vc] + x[vn, vb, vc] over b:1, c:4",
    ),
    (
        elementwise(lambda x, z: lambda n, b, c: te.minimum(x[n, b, c], z[n, b, c])),
        "clip",
        1,
        "tensorize needs block 'y' to compute 'clip': 'limit' must be a constant\n"
        "  intrinsic: o[vi, vc] = min(a[vi, vc], limit) over vi:1, vc:4\n"
        f"  block:     {Y}min(x[vn, vb, vc], z[vn, vb, vc]) over b:1, c:4",
    ),
]


@pytest.mark.parametrize(("program", "intrin", "depth", "message"), MISMATCHES)
def test_mismatches_show_both_sides(
    program: Program, intrin: str, depth: int, message: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        tensorized(program, intrin, depth)
    assert str(caught.value) == message


def refusal(program: Program, intrin: str, prepare: Callable[[Schedule], int]) -> str:
    schedule = Schedule(te.create_prim_func(*program, "f"), TOYS)
    depth = prepare(schedule)
    with pytest.raises(ScheduleError) as caught:
        schedule.tensorize(schedule.get_loops(schedule.get_block("y"))[depth], intrin)
    return str(caught.value).splitlines()[0].split(": ", 1)[1]


def test_wrong_extents_rows_and_clipped_loops() -> None:
    program = elementwise(lambda x, z: lambda n, b, c: x[n, b, c] + z[n, b, c])

    def halves(schedule: Schedule) -> int:
        schedule.split(schedule.get_loops(schedule.get_block("y"))[2], [None, 2])
        return 3

    assert refusal(program, "add", halves) == (
        "dimension -1 of 'y' is not one whole loop of the nest"
    )

    def clipped(schedule: Schedule) -> int:
        schedule.split(schedule.get_loops(schedule.get_block("y"))[2], [None, 3])
        return 1

    assert refusal(program, "add", clipped) == (
        "loop 'c_0' is clipped by a predicate; pad the tensor to whole rows"
    )
    wide: Program = (
        [te.placeholder((3, 1, 8), "int32", "x"), te.placeholder((3, 1, 8), "int32", "z")],
        [],
    )
    x, z = wide[0]
    wide[1].append(te.compute((3, 1, 8), lambda n, b, c: x[n, b, c] + z[n, b, c], "y"))
    assert refusal(wide, "add", lambda _: 1) == "rows of 'o' are [1, 4], those of 'y' [1, 8]"


def test_copies_move_boxes_only() -> None:
    program = elementwise(lambda x, z: lambda n, b, c: x[n, b, c] + 1)
    assert refusal(program, "move", lambda _: 0) == (
        "the stored value is more than an element of another buffer"
    )
    x = te.placeholder((4, 4), "int32", "x")
    diagonal: Program = ([x], [te.compute((4,), lambda i: x[i, i], "y")])
    backwards: Program = ([x], [te.compute((4, 4), lambda i, j: x[3 - i, j], "y")])
    for program in (diagonal, backwards):
        assert refusal(program, "move", lambda _: 0) == (
            "the source is not a box: each dimension may follow one loop"
        )
    inside: Program = ([x], [te.compute((4, 4), lambda i, j: x[i, j], "y")])

    def elsewhere(schedule: Schedule) -> int:
        schedule.cache_read(schedule.get_block("y"), 0, "inp")
        return 0

    assert refusal(inside, "move", elsewhere) == ("source must be in global, but 'x_inp' is in inp")


def test_depthwise_reduces_outside_its_row() -> None:
    """The pattern accumulates over an axis of extent 1; the taps are loops around it."""
    one = te.reduce_axis(1, "one")
    a, v = te.placeholder(ROW, "int8", "inp"), te.placeholder((4,), "int8", "wgt")
    tap = te.compute(
        ROW,
        lambda b, c: te.sum(a[b, c].astype("int32") * v[c].astype("int32"), one),
        "acc",
    )
    x, w = te.placeholder((9, 1, 4), "int8", "x"), te.placeholder((3, 4), "int8", "w")
    k = te.reduce_axis(3, "k")
    y = te.compute(
        (4, 1, 4),
        lambda o, b, c: te.sum(x[o * 2 + k, b, c].astype("int32") * w[k, c].astype("int32"), k),
        "y",
    )
    program: Program = ([x, w], [y])
    intrin = {"depthwise": TensorIntrin("depthwise", te.pattern(tap))}
    schedule = Schedule(te.create_prim_func(*program, "f"), intrin)
    o, b, c, taps = schedule.get_loops(schedule.get_block("y"))
    schedule.reorder(o, taps, b, c)
    schedule.tensorize(b, "depthwise")
    check(program, schedule)
    block = annotated(schedule)
    assert block.annotations["operands"] == "inp,wgt"
    assert [axis.name for axis in block.reduce_vars] == ["vk"]
