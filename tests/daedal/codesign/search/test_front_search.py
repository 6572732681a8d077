"""The search on a made-up problem whose front is known."""

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.front_search import FrontSearch, Goal
from daedal.codesign.search.objectives import Limit, Objective, parse_limits, parse_objectives
from daedal.codesign.search.pareto import hypervolume
from daedal.codesign.search.variant_space import Point, VariantSpace
from daedal.common.errors import ExploreError
from daedal.hw.synth.families import DEVICES, Family
from daedal.isa.variant import load_variant

LUT = DEVICES[Family.ECP5].lut
SPACE = VariantSpace(
    load_variant("ecp5_half"),
    {
        "block_in": (4, 8, 16, 32),
        "block_out": (4, 8, 16, 32),
        "wgt_bytes": (16_384, 32_768, 65_536),
        "acc_bytes": (16_384, 32_768, 65_536, 131_072),
        "queue_depth": (4, 8, 16),
        "alu_lanes": (1, 2, 4),
    },
)
GOAL = Goal((Objective.latency, Objective.area))


def made_up(point: Point, *, counted: bool = False) -> Evaluation | None:
    """Faster with more of everything, up to a knee that depends on the array; larger, too."""
    variant = SPACE.variant(point)
    assert variant is not None
    macs = variant.macs_per_cycle
    if macs > 512:
        return None
    loads = 2e6 / variant.memory.wgt_bytes * macs / 16
    cycles = 1e8 / macs + loads * 100 + 2e5 / variant.units.alu_lanes
    if counted:  # what the estimate does not know
        cycles *= 1 + 0.2 / variant.units.queue_depth + 0.05 * (variant.array.block_in == 4)
    lut = 5_000 + 40 * macs + variant.memory.wgt_bytes / 10 + variant.memory.acc_bytes / 10
    lut += 300 * variant.units.alu_lanes + 100 * variant.units.queue_depth
    used = {"lut": lut, "ff": 0.0, "dsp": 0.0, "block_ram": 0.0}
    step = Step.counted if counted else Step.estimated
    return Evaluation(variant, Family.ECP5, step, {"network": cycles}, used, 100.0)


def estimate(points: Sequence[Point]) -> list[Evaluation | None]:
    return [made_up(point) for point in points]


def every() -> list[Point]:
    points = itertools.product(*(range(length) for length in SPACE.lengths))
    return [point for point in points if SPACE.variant(point) is not None]


def searched(seed: int, count: int, goal: Goal = GOAL) -> FrontSearch:
    search = FrontSearch(SPACE, goal, estimate, seed=seed)
    while len(search.counted) < count:
        search.record({point: made_up(point, counted=True) for point in search.propose(2)})
    return search


def volume(found: Sequence[Evaluation]) -> float:
    values = np.array([GOAL.values(item) for item in found])
    return hypervolume(values, np.array([100.0, 100.0]))


def test_it_finds_nearly_the_whole_front() -> None:
    points = every()
    assert len(points) > 900
    optimum = volume([item for p in points if (item := made_up(p, counted=True)) is not None])
    rng = np.random.default_rng(0)
    for seed in range(3):
        found = volume(searched(seed, 40).front())
        drawn = [made_up(SPACE.draw(rng), counted=True) for _ in range(40)]
        random = volume([item for item in drawn if item is not None])
        assert found > 0.99 * optimum, seed
        assert found > random, seed


def test_a_seed_gives_one_search() -> None:
    assert list(searched(1, 12).counted) == list(searched(1, 12).counted)


def test_nothing_is_counted_twice() -> None:
    search = searched(0, 30)
    assert len(search.propose(5)) == 5
    assert not set(search.propose(5)) & set(search.counted)


def test_where_nothing_fits_nothing_is_proposed() -> None:
    search = FrontSearch(SPACE, GOAL, lambda points: [None] * len(points))
    assert search.propose(2) == []
    assert search.front() == []


def test_limits_are_kept() -> None:
    goal = Goal((Objective.area,), (Limit(Objective.latency, 12.0),))
    search = searched(0, 20, goal)
    (best,) = search.front()
    assert best.value(Objective.latency) <= 12.0
    least = min(
        item.value(Objective.area)
        for point in every()
        if (item := made_up(point, counted=True)) is not None
        and item.value(Objective.latency) <= 12.0
    )
    assert best.value(Objective.area) == pytest.approx(least, rel=0.02)


def test_it_finds_the_few_that_keep_the_limits() -> None:
    """Three of nearly a thousand: mostly too few for random draws."""
    every_one = [item for p in every() if (item := made_up(p)) is not None]
    areas = sorted(i.value(Objective.area) for i in every_one if i.value(Objective.latency) <= 8)
    limits = (Limit(Objective.latency, 8.0), Limit(Objective.area, areas[2]))
    assert sum(item.within(limits) for item in every_one) == 3
    found = 0
    for seed in range(8):
        search = FrontSearch(SPACE, Goal(GOAL.objectives, limits), estimate, seed=seed)
        search.propose(1)
        assert len(search.estimated) < len(every_one) / 2.9
        found += any(item and item.within(limits) for item in search.estimated.values())
    assert found == 8


def test_start_is_estimated_first() -> None:
    start = SPACE.point(SPACE.base)
    assert start is not None
    search = FrontSearch(SPACE, GOAL, estimate, start=(start,))
    search.propose(1)
    assert next(iter(search.estimated)) == start


def test_what_does_not_compile_is_learned() -> None:
    """Estimates know nothing of a rule of the compiler; the search finds the front behind it."""

    def compiles(point: Point) -> bool:
        return SPACE.values(point)["acc_bytes"] in (65_536, 131_072)

    best = [made_up(point, counted=True) for point in every() if compiles(point)]
    optimum = volume([item for item in best if item is not None])
    for seed in range(3):
        search = FrontSearch(SPACE, GOAL, estimate, seed=seed)
        while len(search.counted) < 40:
            points = search.propose(2)
            search.record({p: made_up(p, counted=True) if compiles(p) else None for p in points})
        refused = sum(item is None for item in search.counted.values())
        assert volume(search.front()) > 0.95 * optimum, (seed, refused)


@pytest.mark.parametrize("text", ["speed", "", "latency,latency", "latency;area"])
def test_objectives_that_do_not_exist(text: str) -> None:
    with pytest.raises(ExploreError, match="objective"):
        parse_objectives(text)


@pytest.mark.parametrize("text", ["latency", "latency=", "latency=0", "x=1", "area=nan", "area=-1"])
def test_limits_that_are_none(text: str) -> None:
    with pytest.raises(ExploreError, match="a limit is an objective and a number above 0"):
        parse_limits([text])
