"""Calls of primitives that are refused, each with the sentence that says why."""

from collections.abc import Callable

import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.schedule import BlockRef, LoopRef, Schedule
from tests.support.tensor_programs import conv2d, intrinsics, matmul


def loops(schedule: Schedule, block: str) -> list[LoopRef]:
    return schedule.get_loops(schedule.get_block(block))


def c_loops(schedule: Schedule) -> list[LoopRef]:
    return loops(schedule, "c")


def block(schedule: Schedule, name: str) -> BlockRef:
    return schedule.get_block(name)


def fused_then_decomposed(schedule: Schedule) -> None:
    fused = schedule.fuse(*c_loops(schedule)[1:])
    schedule.blockize(fused)


def two_inits(schedule: Schedule) -> None:
    schedule.decompose_reduction(block(schedule, "c"), c_loops(schedule)[2])
    schedule.decompose_reduction(block(schedule, "c"), c_loops(schedule)[2])


def fusable_but_unrolled(schedule: Schedule) -> list[LoopRef]:
    _, j, k = c_loops(schedule)
    schedule.unroll(j)
    return [j, k]


REFUSALS: list[tuple[Callable[[Schedule], object], str]] = [
    (
        lambda s: s.get_block("e"),
        "there is no block 'e' in 'f'; its blocks are 'c', 'd'",
    ),
    (
        lambda s: s.split(c_loops(s)[0], [None, None]),
        "split needs two or more factors, at most one of them None, not [None, None] (loop 'i')",
    ),
    (
        lambda s: s.split(c_loops(s)[0], [2, 2]),
        "factors must cover the extent 6, not just 4 (loop 'i'); leave one None",
    ),
    (
        lambda s: s.split(c_loops(s)[0], [None, 0]),
        "a factor must be positive, not 0 (loop 'i')",
    ),
    (
        lambda s: s.fuse(c_loops(s)[0], c_loops(s)[2]),
        "fused loops must be directly inside one another, outermost first; "
        "'k' is not directly inside 'i'",
    ),
    (
        lambda s: s.reorder(c_loops(s)[0], loops(s, "d")[0]),
        "reordered loops must be directly inside one another; between 'i' and 'i' lie other "
        "statements",
    ),
    (
        lambda s: s.virtual_thread(c_loops(s)[2]),
        "virtual_thread would break the loop IR: a virtual_thread loop must have independent "
        "iterations; 'k' is part of the reduction over 'vk' of block 'c'",
    ),
    (
        lambda s: s.bind(c_loops(s)[0], "thread.w"),
        "bind would break the loop IR: a loop is not 'thread.w' with extent 6 ('i')",
    ),
    (
        lambda s: s.compute_at(block(s, "d"), c_loops(s)[0]),
        "compute_at needs a block whose result others read; 'd' writes output 'd'; "
        "use reverse_compute_at",
    ),
    (
        lambda s: s.compute_at(block(s, "c"), c_loops(s)[0]),
        "compute_at moves a block under another's loop; 'i' is around 'c'",
    ),
    (
        lambda s: s.reverse_compute_at(block(s, "d"), c_loops(s)[2]),
        "reverse_compute_at needs a loop outside the reduction of the producer; 'c' reduces over "
        "'k', which is around 'd' then",
    ),
    (
        lambda s: s.reverse_compute_at(block(s, "c"), loops(s, "d")[0]),
        "reverse_compute_at needs a block without reduction; 'c' reduces over 'vk'",
    ),
    (
        lambda s: s.compute_inline(block(s, "c")),
        "compute_inline needs a block without reduction that stores at its own variables; "
        "'c' is none",
    ),
    (
        lambda s: s.compute_inline(block(s, "d")),
        "compute_inline cannot remove an output; 'd' writes 'd'",
    ),
    (
        lambda s: s.cache_read(block(s, "c"), 2, "inp"),
        "block 'c' reads 0: 'a', 1: 'b'; 2 is none of them",
    ),
    (
        lambda s: s.cache_read(block(s, "c"), 0, "inp", consumers=[block(s, "d")]),
        "cache_read needs consumers of 'a'; 'd' does not read it",
    ),
    (
        lambda s: s.cache_read(block(s, "c"), 0, "inp", consumers=[block(s, "c")]),
        "cache_read takes each consumer once, not 'c', 'c'",
    ),
    (
        lambda s: s.tile(s.split(s.fuse(*loops(s, "c")[1:]), [4, None]), [4, 2]),
        "tile would break the loop IR: a reduction must begin with its init: vj = (j_k_0_0 * 36 + "
        "j_k_0_1 * 9 + j_k_1_0 * 2 + j_k_1_1) // 7, vk = (j_k_0_0 * 36 + j_k_0_1 * 9 + j_k_1_0 * 2 "
        "+ j_k_1_1) % 7 is elsewhere first (block 'c')",
    ),
    (
        lambda s: s.cache_read(block(s, "c"), 0, "shared"),
        "cache_read would break the loop IR: a scope must be one of acc, global, inp, out, par, "
        "tab, wgt, not 'shared' (buffer 'a_shared')",
    ),
    (
        lambda s: s.set_scope(block(s, "d"), 0, "acc"),
        "set_scope needs a buffer that the function allocates; 'd' is a parameter; use cache_write",
    ),
    (
        lambda s: s.double_buffer(block(s, "d")),
        "double_buffer needs a buffer that the function allocates; 'd' is a parameter; "
        "use cache_write",
    ),
    (
        lambda s: s.decompose_reduction(block(s, "d"), loops(s, "d")[0]),
        "decompose_reduction needs a block with an init; 'd' has none",
    ),
    (
        lambda s: (
            s.reorder(c_loops(s)[2], c_loops(s)[0]),
            s.decompose_reduction(block(s, "c"), c_loops(s)[1]),
        ),
        "the loop must be outside every loop of the reduction; 'k' is one and lies outside 'j' "
        "(block 'c')",
    ),
    (two_inits, "decompose_reduction needs a block with an init; 'c' has none"),
    (
        fused_then_decomposed,
        "blockize needs loops that run over the reduction or over the result, not both as 'j_k' "
        "of 'c'; use decompose_reduction first",
    ),
    (
        lambda s: s.fuse(*fusable_but_unrolled(s)),
        "fuse needs serial loops without annotations, not 'j'; fuse first",
    ),
    (
        lambda s: s.tile(c_loops(s)[:2], [2]),
        "tile needs one factor per loop, at least one, not 1 for 2",
    ),
    (
        lambda s: s.tile([c_loops(s)[0]] * 2, [2, 2]),
        "tile needs distinct loops",
    ),
    (
        lambda s: s.split(c_loops(s)[0], [None, 2**31]),
        "loops must have at most 2147483647 iterations together, not 2147483648 (loop 'i')",
    ),
    (
        lambda s: s.annotate(block(s, "c"), "intrin", "gemm"),
        "what an instruction is made from is tensorize's to write; 'intrin' of block 'c' is part "
        "of it",
    ),
    (
        lambda s: s.reverse_compute_inline(block(s, "c")),
        "reverse_compute_inline needs a block that reads one buffer of another block; 'c' reads 0",
    ),
    (
        lambda s: s.reverse_compute_inline(block(s, "d")),
        "reverse_compute_inline needs a producer without reduction that stores one element; 'c' "
        "is none",
    ),
    (
        lambda s: s.rfactor(block(s, "c"), c_loops(s)[1]),
        "rfactor needs a loop of the reduction of 'c', not 'j'",
    ),
    (
        lambda s: s.rfactor(block(s, "d"), loops(s, "d")[0]),
        "rfactor needs a block that reduces by sum, product, minimum, maximum or any from their "
        "neutral element; 'd' does not; use it before decompose_reduction and blockize",
    ),
    (
        lambda s: s.rfactor(block(s, "c"), c_loops(s)[2], 3),
        "rfactor adds a dimension at 0 to 2 of 'c', not at 3",
    ),
    (
        lambda s: s.rfactor(block(s, "c"), s.fuse(*c_loops(s)[1:])),
        "rfactor needs loops that run over the reduction or over the result, not both as 'j_k' of "
        "'c'",
    ),
    (
        lambda s: s.decompose_reduction(block(s, "c"), s.fuse(*c_loops(s)[1:])),
        "decompose_reduction needs loops that run over the reduction or over the result, not both "
        "as 'j_k' of 'c'",
    ),
    (
        lambda s: s.storage_align(block(s, "d"), 0, 0, 4),
        "storage_align needs a buffer that the function allocates; 'd' is a parameter; "
        "use cache_write",
    ),
    (
        lambda s: s.storage_align(block(s, "c"), 0, 2, 4),
        "storage_align needs a dimension from 0 to 1 of 'c', not 2",
    ),
    (
        lambda s: s.stage(block(s, "d"), 0, 3),
        "stage needs a buffer that the function allocates; 'd' is a parameter; use cache_write",
    ),
    (
        lambda s: s.stage(block(s, "c"), 0, 1),
        "stage needs at least 2 stages, not 1; leave it out",
    ),
    (
        lambda s: s.swizzle(block(s, "d"), 0),
        "swizzle needs a buffer that the function allocates; 'd' is a parameter; use cache_write",
    ),
    (
        lambda s: s.swizzle(block(s, "c"), 0, 96),
        "swizzle needs a power of two from 128 bytes on, not 96; leave it out",
    ),
    (
        lambda s: s.storage_align(block(s, "c"), 0, 0, 4, 4),
        "storage_align needs a positive factor and an offset below it, not 4 and 4",
    ),
    (
        lambda s: s.transform_layout(block(s, "d"), 0, "i, j -> j, i"),
        "transform_layout needs a buffer that the function allocates; 'd' is a parameter; "
        "use cache_write",
    ),
    (
        lambda s: s.transform_layout(block(s, "c"), 0, "i -> i"),
        "a layout needs one name per dimension and what becomes of them, as in "
        "'i, j -> i // 4, j, i % 4', not 'i -> i' for 2 dimensions",
    ),
    (
        lambda s: s.transform_layout(block(s, "c"), 0, "i, j -> i // 4, j, i % 4"),
        "a layout must give each element one place and leave none empty (factors divide the "
        "extents), which 'i, j -> i // 4, j, i % 4' does not",
    ),
    (
        lambda s: s.transform_layout(block(s, "c"), 0, "i, j -> i, j * j"),
        "an index of a layout must be a sum of terms like i, i // 4, i % 4 or i // 4 % 2 * 8 over "
        "i, j, not 'j * j'",
    ),
    (
        lambda s: (
            s.storage_align(block(s, "c"), 0, 0, 4),
            s.transform_layout(block(s, "c"), 0, "i, j -> j, i"),
        ),
        "transform_layout needs a buffer without storage_align, not 'c'; transform first",
    ),
    (
        lambda s: (
            s.blockize(c_loops(s)[1]),
            s.transform_layout(block(s, "c"), 0, "i, j -> j, i"),
        ),
        "transform_layout needs blocks that store at their own variables; 'c' does not; transform "
        "before blockize and tensorize",
    ),
    (
        lambda s: s.sample_perfect_tile(c_loops(s)[2], 2, 4, [1, 7]),
        "a decision on tiles must be 2 factors of the extent 7, the last at most 4, not [1, 7] "
        "(loop 'k')",
    ),
    (
        lambda s: s.sample_perfect_tile(c_loops(s)[2], 0),
        "sample_perfect_tile needs 1 to 16 tiles, the innermost 1 or larger, not 0 with at most "
        "None (loop 'k')",
    ),
    (
        lambda s: s.sample_perfect_tile(c_loops(s)[2], 1, 4),
        "sample_perfect_tile needs a factor to draw; no single tile of 7 is at most 4 (loop 'k')",
    ),
    (
        lambda s: s.sample_categorical([]),
        "sample_categorical needs distinct candidates, at least one, not []",
    ),
    (
        lambda s: s.sample_categorical(["%l0"]),
        "a candidate must be an integer or a text without % in front, not '%l0'",
    ),
    (
        lambda s: s.sample_categorical([1, 2], [1.0]),
        "sample_categorical needs one finite weight per candidate, none negative and not all 0, "
        "not [1.0] for 2",
    ),
    (
        lambda s: s.sample_categorical([1, 2], None, 3),
        "a decision must be one of [1, 2], not 3",
    ),
    (
        lambda s: s.tensorize(c_loops(s)[0], "gemm"),
        "intrinsics of this schedule are none; 'gemm' is not one",
    ),
    (
        lambda s: s.annotate(c_loops(s)[0], "key", "%l0"),
        "the text of an annotation must not start with %",
    ),
    (
        lambda s: s.get_loops(BlockRef("c")),
        "handle 'c' is not of this schedule; get it from get_block or get_loops",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS, ids=[text[:48] for _, text in REFUSALS])
def test_refusals(call: Callable[[Schedule], object], message: str) -> None:
    schedule = Schedule(te.create_prim_func(*matmul(), "f"))
    with pytest.raises(ScheduleError) as caught:
        call(schedule)
    assert str(caught.value) == message


def test_a_refused_call_changes_nothing() -> None:
    schedule = Schedule(te.create_prim_func(*matmul(), "f"))
    text = str(schedule)
    with pytest.raises(ScheduleError):
        schedule.compute_inline(block(schedule, "c"))
    assert str(schedule) == text


def test_a_consumed_loop_is_named() -> None:
    schedule = Schedule(te.create_prim_func(*matmul(), "f"))
    i, *_ = c_loops(schedule)
    schedule.split(i, [None, 2])
    with pytest.raises(ScheduleError) as caught:
        schedule.split(i, [None, 2])
    assert str(caught.value) == "loop 'i' is no longer in 'f'; take its loops anew with get_loops"


def test_moving_only_one_of_two_consumers_is_refused() -> None:
    schedule = Schedule(te.create_prim_func(*conv2d(), "f"), intrinsics())
    schedule.cache_read(schedule.get_block("acc"), "x", "inp")
    with pytest.raises(ScheduleError) as caught:
        schedule.compute_at(schedule.get_block("x_inp"), loops(schedule, "y")[0])
    assert str(caught.value) == (
        "compute_at needs every consumer under the loop; block 'acc' reads 'x_inp' outside 'n'"
    )
