"""What bounds a layer, from its units' counters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daedal.isa.profile import UnitCounters
from daedal.isa.table import Unit
from daedal.runtime.bound import AT_WORK_SHARE, Bound, at_work, find_bound, wait_chain
from daedal.runtime.layers import layer_profiles
from tests.support.profiles import counters, random_launch

Units = dict[Unit, UnitCounters]


def units(load: UnitCounters, gemm: UnitCounters, alu: UnitCounters, store: UnitCounters) -> Units:
    return {Unit.LOAD: load, Unit.GEMM: gemm, Unit.ALU: alu, Unit.STORE: store}


BY_GEMM = units(
    counters(busy=30, wait_store=70),
    counters(busy=90, wait_load=10),
    counters(busy=20, wait_gemm=80),
    counters(busy=5, wait_alu=95),
)
BY_LOAD = units(
    counters(busy=60, stall=35, wait_store=5),
    counters(busy=20, wait_load=80),
    counters(busy=10, wait_gemm=90),
    counters(busy=5, wait_alu=95),
)
BY_ALU = units(
    counters(busy=30, wait_alu=70),
    counters(),
    counters(busy=95, wait_load=5),
    counters(wait_alu=100),
)
BY_STORE = units(counters(), counters(), counters(busy=10, wait_store=90), counters(stall=100))
IN_TURNS = units(
    counters(busy=40, wait_store=60),
    counters(busy=40, wait_load=60),
    counters(busy=15, wait_gemm=85),
    counters(busy=15, wait_alu=85),
)
STARVED = units(
    counters(busy=10, idle=90), counters(idle=100), counters(idle=100), counters(busy=10, idle=90)
)


@pytest.mark.parametrize(
    ("made", "bound", "chain"),
    [
        (BY_GEMM, Bound.GEMM, [Unit.STORE, Unit.ALU, Unit.GEMM]),
        (BY_LOAD, Bound.LOAD, [Unit.STORE, Unit.ALU, Unit.GEMM, Unit.LOAD]),
        (BY_ALU, Bound.ALU, [Unit.STORE, Unit.ALU]),
        (BY_STORE, Bound.STORE, [Unit.STORE]),
        (IN_TURNS, Bound.TOKENS, [Unit.STORE, Unit.ALU, Unit.GEMM, Unit.LOAD, Unit.STORE]),
        (STARVED, Bound.FETCH, [Unit.STORE]),
    ],
    ids=["GEMM", "load", "ALU", "store", "tokens", "fetch"],
)
def test_bounds(made: Units, bound: Bound, chain: list[Unit]) -> None:
    assert find_bound(100, made) is bound
    assert list(wait_chain(made)) == chain


def test_a_unit_must_be_at_work_for_most_of_the_layer() -> None:
    """The same LOAD bounds a layer of its own length, and not one that goes on without it."""
    assert find_bound(100, BY_LOAD) is Bound.LOAD
    assert find_bound(int(100 * 0.95 / AT_WORK_SHARE) + 1, BY_LOAD) is Bound.TOKENS


def test_a_full_bus_bounds_though_neither_unit_works_all_the_time() -> None:
    assert find_bound(100, IN_TURNS, 50, 25) is Bound.LOAD
    assert find_bound(100, IN_TURNS, 25, 50) is Bound.STORE
    assert find_bound(100, IN_TURNS, 50, 24) is Bound.TOKENS
    assert find_bound(100, BY_GEMM, 60, 40) is Bound.GEMM


def test_work_for_a_layer_may_begin_before_it() -> None:
    """200 cycles of a unit for a layer of 50: at work for half of its own time, not twice."""
    assert at_work(50, counters(busy=100, wait_store=100)) == 0.5
    assert at_work(0, counters()) == 0.0


@given(seed=st.integers(0, 2**32 - 1))
def test_any_counters_have_a_bound(seed: int) -> None:
    launch = random_launch(np.random.default_rng(seed))
    for item in layer_profiles(launch.artifact, launch.plain):
        chain = item.wait_chain
        assert chain[0] is Unit.STORE and len(set(chain)) >= len(chain) - 1
        assert all(0 <= at_work(item.cycles, found) <= 1 for found in item.units.values())
        last = chain[-1]
        works = chain.count(last) == 1 and at_work(item.cycles, item.units[last]) >= AT_WORK_SHARE
        full = item.words(Unit.LOAD) + item.words(Unit.STORE) >= AT_WORK_SHARE * item.cycles
        if works:
            assert item.bound is Bound[last.name]
        else:
            assert full == (item.bound in (Bound.LOAD, Bound.STORE))
            assert item.bound not in (Bound.GEMM, Bound.ALU)
