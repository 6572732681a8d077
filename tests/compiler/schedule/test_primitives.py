"""Each primitive as a pair of texts, before and after."""

import numpy as np

from daedal.compiler import te
from daedal.compiler.schedule import BlockRef, LoopRef, Schedule, replay
from daedal.compiler.tir.parser import parse_func
from daedal.compiler.tir.printer import func_text
from daedal.compiler.tir.sites import collect
from tests.support.same_function import normal_text
from tests.support.tensor_programs import (
    assert_same,
    both_ways,
    inputs_of,
    matmul,
    reference,
    stencil,
)

VECTOR_SUM = """
func f(a: int32[7], out c: int32[6]):
    alloc b: int32[7]
    for i in 7:
        block b(vi:7 = i):
            b[vi] = a[vi] + 1
    for i in 6:
        block c(vi:6 = i):
            c[vi] = b[vi] * b[vi + 1]
"""


def vector_sum() -> Schedule:
    """``b[i] = a[i] + 1`` over 7, then ``c[i] = b[i] * b[i + 1]`` over 6."""
    return Schedule(parse_func(VECTOR_SUM))


def body(schedule: Schedule) -> str:
    """The text below the head of the function, without its indentation."""
    lines = str(schedule).splitlines()[1:]
    return "\n".join(line[4:] for line in lines)


def loops(schedule: Schedule, block: str) -> list[LoopRef]:
    return schedule.get_loops(schedule.get_block(block))


def test_before() -> None:
    a = te.placeholder((7,), "int32", "a")
    b = te.compute((7,), lambda i: a[i] + 1, "b")
    c = te.compute((6,), lambda i: b[i] * b[i + 1], "c")
    assert func_text(te.create_prim_func([a], [c], "f")) == normal_text(VECTOR_SUM)


def test_split_with_a_rest() -> None:
    schedule = vector_sum()
    schedule.split(loops(schedule, "b")[0], [None, 4])
    assert str(schedule) == normal_text(
        """
        func f(a: int32[7], out c: int32[6]):
            alloc b: int32[7]
            for i_0 in 2, i_1 in 4:
                block b(vi:7 = i_0 * 4 + i_1) where i_0 * 4 + i_1 < 7:
                    b[vi] = a[vi] + 1
            for i in 6:
                block c(vi:6 = i):
                    c[vi] = b[vi] * b[vi + 1]
        """
    )


def test_split_of_what_is_clipped_already() -> None:
    schedule = Schedule(
        parse_func(
            """
            func f(x: int8[10], out y: int8[10]):
                for i in 3, j in 4:
                    block y(vi:10 = i * 4 + j) where i * 4 + j < 10:
                        y[vi] = x[vi]
            """
        )
    )
    schedule.split(loops(schedule, "y")[1], [None, 3])
    assert str(schedule) == normal_text(
        """
        func f(x: int8[10], out y: int8[10]):
            for i in 3, j_0 in 2, j_1 in 3:
                block y(vi:10 = i * 4 + j_0 * 3 + j_1) where i * 4 + j_0 * 3 + j_1 < 10 & j_0 * 3 + j_1 < 4:
                    y[vi] = x[vi]
        """  # noqa: E501 the text of one line
    )


def test_split_that_divides_needs_no_predicate() -> None:
    schedule = vector_sum()
    schedule.split(loops(schedule, "c")[0], [2, None])
    assert "for i_0 in 2, i_1 in 3:\n    block c(vi:6 = i_0 * 3 + i_1):" in body(schedule)


def test_fuse_and_split_again() -> None:
    schedule = Schedule(te.create_prim_func(*stencil(length=4, width=3), "f"))
    fused = schedule.fuse(*loops(schedule, "p"))
    assert "for i_j in 12:\n    block p(vi:4 = i_j // 3, vj:3 = i_j % 3):" in body(schedule)
    schedule.split(fused, [None, 6])
    assert (
        "for i_j_0 in 2, i_j_1 in 6:\n    block p(vi:4 = i_j_0 * 2 + i_j_1 // 3, vj:3 = i_j_1 % 3):"
    ) in body(schedule)


def test_reorder_keeps_the_others_in_place() -> None:
    schedule = Schedule(te.create_prim_func(*matmul(), "f"))
    i, _, k = loops(schedule, "c")
    schedule.reorder(k, i)
    assert "for k in 7, j in 5, i in 6:" in body(schedule)


def test_compute_at_shrinks_to_the_halo() -> None:
    schedule = vector_sum()
    outer, _ = schedule.split(loops(schedule, "c")[0], [None, 2])
    schedule.compute_at(schedule.get_block("b"), outer)
    assert str(schedule) == normal_text(
        """
        func f(a: int32[7], out c: int32[6]):
            for i_0 in 3:
                alloc b: int32[7] window [i_0 * 2:+3]
                for i in 3:
                    block b(vi:7 = i_0 * 2 + i):
                        b[vi] = a[vi] + 1
                for i_1 in 2:
                    block c(vi:6 = i_0 * 2 + i_1):
                        c[vi] = b[vi] * b[vi + 1]
        """
    )


def test_reverse_compute_at_clips_as_its_producer() -> None:
    program = matmul(rows=7)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    i, _, _ = loops(schedule, "c")
    outer, _ = schedule.split(i, [None, 4])
    schedule.reverse_compute_at(schedule.get_block("d"), outer)
    assert "\n".join(body(schedule).splitlines()[-3:]) == (
        "    for i in 4, j in 5:\n"
        "        block d(vi:7 = i_0 * 4 + i, vj:5 = j) where i_0 * 4 + i < 7:\n"
        "            d[vi, vj] = c[vi, vj] + c[vi, vj]"
    )


def test_compute_inline() -> None:
    schedule = vector_sum()
    schedule.compute_inline(schedule.get_block("b"))
    assert body(schedule) == (
        "for i in 6:\n    block c(vi:6 = i):\n        c[vi] = (a[vi] + 1) * (a[vi + 1] + 1)"
    )


def test_compute_inline_through_padding(rng: np.random.Generator) -> None:
    """Where the reader pads, so does the formula: loads outside do no harm there."""
    program = stencil(length=4, width=2)
    arrays = inputs_of(program, rng)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    schedule.compute_inline(schedule.get_block("p"))
    assert_same(schedule, arrays, reference(program, arrays))
    assert (
        "q[vi, vj] = max(q[vi, vj], "
        "select(vi + vk - 1 >= 0 & vi + vk - 1 < 4, x.padded(0)[vi + vk - 1, vj] * 3 + 1, -5))"
    ) in body(schedule)


def test_cache_read_takes_the_padding_along() -> None:
    schedule = Schedule(te.create_prim_func(*stencil(length=4, width=2), "f"))
    schedule.cache_read(schedule.get_block("q"), "p", "inp")
    text = body(schedule)
    assert "alloc p_inp: int32[6, 2] in inp" in text
    assert (
        "for ax0 in 6, ax1 in 2:\n"
        "    block p_inp(vax0:6 = ax0, vax1:2 = ax1) {copy: True}:\n"
        "        p_inp[vax0, vax1] = p.padded(-5)[vax0 - 1, vax1]\n"
    ) in text
    assert "q[vi, vj] = max(q[vi, vj], p_inp[vi + vk, vj])" in text


def test_cache_read_between_producer_and_consumer(rng: np.random.Generator) -> None:
    """The copy goes into the innermost loop that the reader shares with a writer."""
    program = matmul()
    arrays = inputs_of(program, rng)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    c, d = schedule.get_block("c"), schedule.get_block("d")
    i, j, k = loops(schedule, "c")
    schedule.decompose_reduction(c, i)
    schedule.reverse_compute_at(d, j)
    schedule.cache_read(d, "c", "inp")
    assert_same(schedule, arrays, reference(program, arrays))
    assert "alloc c_inp: int32[6, 5] in inp window [i:+1, j:+1]" in body(schedule)
    schedule.unroll(k)


def test_consumers_share_a_copy(rng: np.random.Generator) -> None:
    program = both_ways()
    arrays = inputs_of(program, rng)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    up, down, y = (schedule.get_block(name) for name in ("up", "down", "y"))
    copy = schedule.cache_read(up, "x", "inp", consumers=[down])
    text = body(schedule)
    assert text.count("= x[") == 1 and "alloc x_inp: int32[8, 4] in inp" in text
    assert_same(schedule, arrays, reference(program, arrays))
    outer, _ = schedule.split(schedule.get_loops(y)[0], [None, 2])
    for block in (up, down, copy):
        schedule.compute_at(block, outer)
    assert_same(schedule, arrays, reference(program, arrays))
    assert "for ax0 in 4, ax1 in 4:\n        block x_inp" in body(schedule), "rows of one tile"
    again = replay(schedule.trace, te.create_prim_func(*program, "f"))
    assert body(again) == body(schedule)


def test_a_copy_for_one_consumer_is_not_read_by_others(rng: np.random.Generator) -> None:
    program = both_ways()
    arrays = inputs_of(program, rng)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    schedule.cache_read(schedule.get_block("down"), "x", "inp")
    assert "up[vi, vj] = x[vi, vj] + x[vi + 2, vj]" in body(schedule)
    assert "consumers" not in str(schedule.trace), "a trace says what was asked for"
    assert_same(schedule, arrays, reference(program, arrays))


def test_cache_read_of_a_block_with_a_partial_tile(rng: np.random.Generator) -> None:
    program = matmul(columns=5)
    arrays = inputs_of(program, rng)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    i, j, _ = loops(schedule, "c")
    outer, _ = schedule.split(j, [None, 2])
    schedule.reorder(outer, i)
    schedule.blockize(i)
    schedule.cache_read(schedule.get_block("c"), "b", "inp")
    assert_same(schedule, arrays, reference(program, arrays))
    assert "alloc b_inp: int8[5, 7] in inp" in body(schedule)


def test_copies_run_where_their_producer_does(rng: np.random.Generator) -> None:
    """Tiles of a halo that a split outer loop leaves out have nothing to store."""
    program = stencil(length=11)
    arrays = inputs_of(program, rng)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    outer, _ = schedule.split(loops(schedule, "r")[0], [None, 3])
    schedule.compute_at(schedule.get_block("q"), outer)
    schedule.split(outer, [None, 2])
    schedule.cache_write(schedule.get_block("q"), 0, "acc")
    assert_same(schedule, arrays, reference(program, arrays))
    assert "ax0 < 11 & i_0_0 * 2 + i_0_1 < 3 {copy: True}" in body(schedule)


def test_cache_write_and_set_scope() -> None:
    schedule = vector_sum()
    schedule.set_scope(schedule.get_block("b"), 0, "acc")
    copy = schedule.cache_write(schedule.get_block("c"), 0, "out")
    schedule.double_buffer(schedule.get_block("c"))
    assert copy == BlockRef("c_store")
    assert str(schedule) == normal_text(
        """
        func f(a: int32[7], out c: int32[6]):
            alloc b: int32[7] in acc
            alloc c_out: int32[6] in out {double_buffer: 2}
            for i in 7:
                block b(vi:7 = i):
                    b[vi] = a[vi] + 1
            for i in 6:
                block c(vi:6 = i):
                    c_out[vi] = b[vi] * b[vi + 1]
            for ax0 in 6:
                block c_store(vax0:6 = ax0) {copy: True}:
                    c[vax0] = c_out[vax0]
        """
    )


def test_decompose_reduction() -> None:
    schedule = Schedule(te.create_prim_func(*matmul(), "f"))
    i, j, k = loops(schedule, "c")
    schedule.reorder(i, k, j)
    init = schedule.decompose_reduction(schedule.get_block("c"), k)
    assert init == BlockRef("c_init")
    assert "\n".join(body(schedule).splitlines()[1:8]) == (
        "for i in 6:\n"
        "    for j in 5:\n"
        "        block c_init(vi:6 = i, vj:5 = j):\n"
        "            c[vi, vj] = 0\n"
        "    for k in 7, j in 5:\n"
        "        block c(vi:6 = i, vj:5 = j, +vk:7 = k):\n"
        "            c[vi, vj] = c[vi, vj] + int32(a[vi, vk]) * int32(b[vj, vk])"
    )


def test_blockize_hides_the_inner_loops() -> None:
    schedule = Schedule(te.create_prim_func(*matmul(rows=6), "f"))
    i, _, _ = loops(schedule, "c")
    _, inner = schedule.split(i, [None, 2])
    schedule.blockize(inner)
    assert "\n".join(body(schedule).splitlines()[1:12]) == (
        "for i_0 in 3:\n"
        "    block c(vi:3 = i_0):\n"
        "        reads a[vi * 2:+2, 0:+7], b[0:+5, 0:+7]\n"
        "        writes c[vi * 2:+2, 0:+5]\n"
        "        init:\n"
        "            for i_1 in 2, j in 5:\n"
        "                block c_init(vi:6 = vi * 2 + i_1, vj:5 = j):\n"
        "                    c[vi, vj] = 0\n"
        "        for i_1 in 2, j in 5, k in 7:\n"
        "            block c_body(vi:6 = vi * 2 + i_1, vj:5 = j, +vk:7 = k):\n"
        "                c[vi, vj] = c[vi, vj] + int32(a[vi, vk]) * int32(b[vj, vk])"
    )


def test_kinds_and_annotations_are_printed() -> None:
    schedule = Schedule(te.create_prim_func(*matmul(), "f"))
    i, j, k = loops(schedule, "c")
    schedule.parallel(i)
    schedule.vectorize(j)
    schedule.unroll(k)
    schedule.pragma(k, "depth", 4)
    schedule.annotate(schedule.get_block("c"), "note", "here")
    text = body(schedule)
    assert "for i in 6 parallel, j in 5 vectorize, k in 7 unroll {pragma_depth: 4}:" in text
    assert "+vk:7 = k) {note: here}:" in text
    i, j = loops(schedule, "d")
    schedule.bind(i, "block.x")
    schedule.bind(j, "thread.x")
    assert "for i in 6 block.x, j in 5 thread.x:" in body(schedule)


def test_neighbours() -> None:
    schedule = Schedule(te.create_prim_func(*stencil(), "f"))
    q = schedule.get_block("q")
    assert schedule.get_producers(q) == [BlockRef("p")]
    assert schedule.get_consumers(q) == [BlockRef("r")]
    outer = loops(schedule, "r")[0]
    assert schedule.get_child_blocks(outer) == [BlockRef("r")]


def test_a_chain_of_windows_moves_into_the_last(rng: np.random.Generator) -> None:
    """A padded intermediate: its region reaches outside and is clipped at both ends."""
    program = stencil(length=11)
    arrays = inputs_of(program, rng)
    schedule = Schedule(te.create_prim_func(*program, "f"))
    outer, _ = schedule.split(loops(schedule, "r")[0], [None, 4])
    schedule.compute_at(schedule.get_block("q"), outer)
    schedule.compute_at(schedule.get_block("p"), outer)
    assert_same(schedule, arrays, reference(program, arrays))
    text = body(schedule)
    assert "alloc p: int32[11, 3] window [i_0 * 4 - 1:+8, 0:+3]" in text
    assert "alloc q: int32[11, 3] window [i_0 * 4:+6, 0:+3]" in text
    assert "where i_0 * 4 + i - 1 >= 0 & i_0 * 4 + i - 1 < 11:" in text


def test_untouched_nests_stay_the_same_objects() -> None:
    """What was derived from them is kept in them: verifying costs what the primitive changed."""
    schedule = Schedule(te.create_prim_func(*stencil(), "f"))
    before = {site.block.name: site for site in collect(schedule.func.body)[0]}
    schedule.split(loops(schedule, "q")[0], [None, 4])
    after = {site.block.name: site for site in collect(schedule.func.body)[0]}
    assert after["p"].loops[0] is before["p"].loops[0]
    assert after["r"].loops[0] is before["r"].loops[0]
    assert after["q"].block is before["q"].block
