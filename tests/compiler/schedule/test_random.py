"""Random schedules: a call leaves an equal function, or is refused and changes nothing."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from daedal.common.errors import ScheduleError
from daedal.compiler import te
from daedal.compiler.schedule import BlockRef, LoopRef, Schedule, Trace, replay
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import Allocate, BlockRealize, BufferStore, For, Seq, Stmt
from daedal.compiler.tir.verify import verify
from tests.support.same_function import assert_read_back
from tests.support.tensor_programs import (
    Program,
    assert_same,
    both_ways,
    conv2d,
    inputs_of,
    intrinsics,
    matmul,
    reference,
    stencil,
)

PROGRAMS: dict[str, Program] = {
    "conv2d": conv2d(height=5, width=3, block=2),
    "conv2d_strided": conv2d(
        height=6, width=5, block=2, blocks_in=1, blocks_out=3, stride=2, pad=2
    ),
    "matmul": matmul(),
    "stencil": stencil(),
    "both_ways": both_ways(),
}

NUM_CALLS = 14

MAX_INSTANCES = 4_000
"""A legal schedule may compute the same again and again; beyond this it only costs time."""


def num_instances(schedule: Schedule) -> int:
    """How often the outermost blocks run, all together."""
    sites, _ = collect(schedule.func.body)
    return sum(math.prod(loop.extent for loop in site.loops) for site in sites)


def random_call(schedule: Schedule, rng: np.random.Generator) -> None:
    """One primitive with random arguments, legal or not."""
    blocks = [schedule.get_block(site.block.name) for site in collect(schedule.func.body)[0]]
    block: BlockRef = blocks[int(rng.integers(len(blocks)))]
    own = schedule.get_loops(block)
    other: BlockRef = blocks[int(rng.integers(len(blocks)))]
    every = [loop for each in blocks for loop in schedule.get_loops(each)]
    if not own:
        return

    def loop(loops: list[LoopRef]) -> LoopRef:
        return loops[int(rng.integers(len(loops)))]

    def some(count: int) -> list[LoopRef]:
        return [own[int(i)] for i in rng.permutation(len(own))[:count]]

    start = int(rng.integers(max(len(own) - 1, 1)))
    factor = int(rng.integers(1, 5))
    calls: dict[str, tuple[float, Callable[[], object]]] = {
        "split": (10, lambda: schedule.split(loop(own), [None, factor])),
        "split (outer)": (4, lambda: schedule.split(loop(own), [factor, None])),
        "split (three)": (4, lambda: schedule.split(loop(own), [None, factor, 2])),
        "sample_perfect_tile": (4, lambda: split_perfectly(loop(own))),
        "sample_categorical": (
            2,
            lambda: schedule.split(loop(own), [None, schedule.sample_categorical([1, 2, 3])]),
        ),
        "tile": (4, lambda: schedule.tile(own[start : start + 2], [factor, 2])),
        "fuse": (8, lambda: schedule.fuse(*own[start : start + 2])),
        "reorder": (12, lambda: schedule.reorder(*some(int(rng.integers(2, 4))))),
        "compute_at": (13, lambda: schedule.compute_at(block, loop(every))),
        "reverse_compute_at": (11, lambda: schedule.reverse_compute_at(block, loop(every))),
        "compute_inline": (3, lambda: schedule.compute_inline(block)),
        "reverse_compute_inline": (3, lambda: schedule.reverse_compute_inline(block)),
        "cache_read": (8, lambda: schedule.cache_read(block, int(rng.integers(3)), "inp")),
        "cache_read (several)": (
            4,
            lambda: schedule.cache_read(block, int(rng.integers(3)), "inp", [other]),
        ),
        "cache_write": (6, lambda: schedule.cache_write(block, 0, "acc")),
        "set_scope": (2, lambda: schedule.set_scope(block, 0, "acc")),
        "transform_layout": (6, lambda: schedule.transform_layout(block, 0, layout_of(block))),
        "storage_align": (1, lambda: schedule.storage_align(block, 0, 0, 8, factor)),
        "double_buffer": (2, lambda: schedule.double_buffer(block)),
        "decompose_reduction": (6, lambda: schedule.decompose_reduction(block, loop(own))),
        "rfactor": (7, lambda: schedule.rfactor(block, loop(own), int(rng.integers(3)))),
        "blockize": (5, lambda: schedule.blockize(loop(own))),
        "tensorize": (3, lambda: schedule.tensorize(loop(own), "load")),
        "unroll": (1, lambda: schedule.unroll(loop(own))),
        "parallel": (1, lambda: schedule.parallel(loop(own))),
        "vectorize": (1, lambda: schedule.vectorize(loop(own))),
        "virtual_thread": (2, lambda: schedule.virtual_thread(loop(own))),
        "bind": (2, lambda: schedule.bind(loop(own), str(rng.choice(["block.x", "thread.x"])))),
        "annotate": (1, lambda: schedule.annotate(block, "note", factor)),
        "pragma": (1, lambda: schedule.pragma(loop(own), "note", factor)),
    }

    def split_perfectly(loop: LoopRef) -> list[LoopRef]:
        return schedule.split(loop, schedule.sample_perfect_tile(loop, 2))

    def layout_of(block: BlockRef) -> str:
        """A random layout of what a block writes, reversible or not."""
        sites = collect(schedule.func.body)[0]
        site = next(site for site in sites if site.block.name == block.name)
        names = [f"d{dim}" for dim in range(len(site.block.writes[0].buffer.shape))]
        cut = int(rng.integers(len(names)))
        parts = [*names[:cut], f"{names[cut]} // 2", f"{names[cut]} % 2", *names[cut + 1 :]]
        chosen = parts if rng.integers(2) else names
        return f"{', '.join(names)} -> {', '.join(str(part) for part in rng.permutation(chosen))}"

    weights = np.array([weight for weight, _ in calls.values()])
    choice = str(rng.choice(list(calls), p=weights / weights.sum()))
    calls[choice][1]()


def without_memory(stmt: Stmt) -> Stmt:
    """An equal statement of new objects: nothing that was derived from the old ones is kept."""
    match stmt:
        case Seq(body):
            return Seq(tuple(without_memory(part) for part in body))
        case For(_, _, body) | Allocate(_, body):
            return replace(stmt, body=without_memory(body))
        case BlockRealize(_, block):
            init = None if block.init is None else without_memory(block.init)
            new = replace(block, init=init, body=without_memory(block.body))
            return replace(stmt, block=new)
    assert isinstance(stmt, BufferStore)
    return replace(stmt)


def with_other_decisions(trace: Trace) -> Trace:
    """Every choice of the trace drawn anew."""
    for position in trace.decisions:
        trace = trace.with_decision(position, None)
    return trace


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("group", range(3))
def test_random_schedules(name: str, group: int) -> None:
    program = PROGRAMS[name]
    func = te.create_prim_func(*program, name)
    arrays = inputs_of(program, np.random.default_rng(7))
    expected = reference(program, arrays)
    applied = refused = 0
    for seed in range(group * 6, group * 6 + 6):
        rng = np.random.default_rng(seed)
        schedule = Schedule(func, intrinsics(2), seed=seed)
        for _ in range(NUM_CALLS):
            before = schedule.func
            try:
                random_call(schedule, rng)
            except ScheduleError:
                refused += 1
                assert schedule.func is before
            else:
                applied += 1
                if num_instances(schedule) > MAX_INSTANCES:
                    break
                assert_same(schedule, arrays, expected)
        verify(replace(schedule.func, body=without_memory(schedule.func.body)), schedule.scopes)
        assert_read_back(schedule.func)
        trace = Trace.from_json(schedule.trace.to_json())
        assert str(replay(trace, func, intrinsics(2))) == str(schedule), f"seed {seed}"
    assert applied and refused, "both sides of every rule are exercised"


@pytest.mark.parametrize("seed", range(4))
def test_other_decisions_compute_the_same(seed: int) -> None:
    """Sampled factors reach `split` and what comes after it when the trace replays."""
    program = PROGRAMS["stencil"]
    func = te.create_prim_func(*program, "stencil")
    arrays = inputs_of(program, np.random.default_rng(7))
    schedule = Schedule(func, seed=seed)
    r = schedule.get_block("r")
    i, _ = schedule.get_loops(r)
    outer, inner = schedule.split(i, schedule.sample_perfect_tile(i, 2))
    schedule.split(inner, [None, schedule.sample_categorical([1, 2, 4], [1, 2, 1])])
    for name in ("q", "p"):
        schedule.compute_at(schedule.get_block(name), outer)
    texts = {str(schedule)}
    for other in range(8):
        again = replay(with_other_decisions(schedule.trace), func, seed=other)
        assert_same(again, arrays, reference(program, arrays))
        assert str(replay(again.trace, func)) == str(again)
        texts.add(str(again))
    assert len(texts) > 2, "the decisions differ"
