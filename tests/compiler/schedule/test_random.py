"""Random schedules: a call leaves an equal function, or is refused and changes nothing."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from daedal.compiler import te
from daedal.compiler.schedule import BlockRef, LoopRef, Schedule, Trace, replay
from daedal.compiler.tir.sites import collect
from daedal.isa.errors import ScheduleError
from tests.support.tensor_programs import (
    Program,
    assert_same,
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
}

NUM_CALLS = 14

MAX_INSTANCES = 4_000
"""A legal schedule may compute the same again and again; beyond this it only costs time."""


def num_instances(schedule: Schedule) -> int:
    """How often the busiest of the outermost blocks runs."""
    sites, _ = collect(schedule.func.body)
    return max(math.prod(loop.extent for loop in site.loops) for site in sites)


def random_call(schedule: Schedule, rng: np.random.Generator) -> None:
    """One primitive with random arguments, legal or not."""
    blocks = [schedule.get_block(site.block.name) for site in collect(schedule.func.body)[0]]
    block: BlockRef = blocks[int(rng.integers(len(blocks)))]
    own = schedule.get_loops(block)
    every = [loop for other in blocks for loop in schedule.get_loops(other)]

    def loop(loops: list[LoopRef]) -> LoopRef:
        return loops[int(rng.integers(len(loops)))]

    def some(count: int) -> list[LoopRef]:
        return [own[int(i)] for i in rng.permutation(len(own))[:count]]

    start = int(rng.integers(max(len(own) - 1, 1)))
    factor = int(rng.integers(1, 5))
    calls: dict[str, tuple[float, Callable[[], object]]] = {
        "split": (0.10, lambda: schedule.split(loop(own), [None, factor])),
        "split_outer": (0.04, lambda: schedule.split(loop(own), [factor, None])),
        "split_three": (0.04, lambda: schedule.split(loop(own), [None, factor, 2])),
        "fuse": (0.08, lambda: schedule.fuse(*own[start : start + 2])),
        "reorder": (0.12, lambda: schedule.reorder(*some(int(rng.integers(2, 4))))),
        "compute_at": (0.13, lambda: schedule.compute_at(block, loop(every))),
        "reverse": (0.11, lambda: schedule.reverse_compute_at(block, loop(every))),
        "inline": (0.03, lambda: schedule.compute_inline(block)),
        "cache_read": (0.08, lambda: schedule.cache_read(block, int(rng.integers(3)), "inp")),
        "cache_write": (0.06, lambda: schedule.cache_write(block, 0, "acc")),
        "decompose": (0.06, lambda: schedule.decompose_reduction(block, loop(own))),
        "blockize": (0.05, lambda: schedule.blockize(loop(own))),
        "thread": (0.03, lambda: schedule.virtual_thread(loop(own))),
        "tensorize": (0.03, lambda: schedule.tensorize(loop(own), "load")),
        "set_scope": (0.02, lambda: schedule.set_scope(block, 0, "acc")),
        "double": (0.02, lambda: schedule.double_buffer(block)),
    }
    weights = np.array([weight for weight, _ in calls.values()])
    choice = str(rng.choice(list(calls), p=weights / weights.sum()))
    if own:
        calls[choice][1]()


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
        schedule = Schedule(func, intrinsics(2))
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
        again = replay(Trace.from_json(schedule.trace.to_json()), func, intrinsics(2))
        assert str(again) == str(schedule), f"seed {seed}"
    assert applied and refused, "both sides of every rule are exercised"
