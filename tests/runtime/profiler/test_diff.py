"""What moved between two profiles."""

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.runtime.layers import LAYER_UNITS
from daedal.runtime.profiler.diff import Move, diff_profiles
from daedal.runtime.profiler.network_profile import NetworkProfile
from tests.support.profiles import counters, random_launch


def profile_of(names: list[str], seed: int = 0) -> NetworkProfile:
    return random_launch(np.random.default_rng(seed), names=names).profile(with_timeline=False)


def with_layer(profile: NetworkProfile, number: int, **values: object) -> NetworkProfile:
    layers = list(profile.layers)
    layers[number] = dataclasses.replace(layers[number], **values)  # type: ignore[arg-type]
    return dataclasses.replace(profile, layers=tuple(layers))


def test_the_same() -> None:
    profile = profile_of(["a", "b"])
    diff = diff_profiles(profile, profile)
    assert diff.summary == f"Both take {profile.cycles:,} cycles, and so does every layer."
    assert diff.conditions == {} and not any(change.moves for change in diff.changes)


def test_a_layer_that_got_faster() -> None:
    before = profile_of(["a", "b", "c"])
    waiting = {unit: counters() for unit in LAYER_UNITS}
    waiting[Unit.LOAD] = counters(busy=10, wait_store=540)
    waiting[Unit.GEMM] = counters(busy=50, wait_load=500)
    waiting[Unit.STORE] = counters(busy=10, wait_gemm=540)
    before = with_layer(before, 1, units=waiting, cycles=550, bytes_read=400)
    working = waiting | {Unit.GEMM: counters(busy=50, wait_load=10)}
    working[Unit.STORE] = counters(busy=10, wait_gemm=50)
    after = with_layer(before, 1, units=working, cycles=60, bytes_read=100)
    after = dataclasses.replace(after, cycles=after.cycles - 490)
    diff = diff_profiles(before, after)
    first = diff.changes[0]
    assert (first.name, first.cycles, first.bytes_moved) == ("b", -490, -300)
    assert first.bound == "tokens -> GEMM"
    assert first.moves == (
        Move(Unit.GEMM, CycleClass.WAIT_LOAD, -490),
        Move(Unit.STORE, CycleClass.WAIT_GEMM, -490),
    )
    assert f"{after.cycles:,} cycles instead of {before.cycles:,} (−490, −" in diff.summary
    assert diff.summary.endswith("most in b −490.")


def test_layers_are_matched_by_name() -> None:
    before, after = profile_of(["a", "b", "b"], 1), profile_of(["b", "b", "new"], 2)
    diff = diff_profiles(before, after)
    sides = {(change.name, change.before is None, change.after is None) for change in diff.changes}
    assert sides == {("a", False, True), ("b", False, False), ("new", True, False)}
    pairs = [(x.before, x.after) for x in diff.changes if x.name == "b"]
    assert {id(old) for old, _ in pairs} == {id(item) for item in before.layers[1:]}
    assert all(
        before.layers.index(old) - 1 == after.layers.index(new)
        for old, new in pairs
        if old is not None and new is not None
    )
    gone = next(change for change in diff.changes if change.name == "a")
    assert gone.cycles == -before.layers[0].cycles and gone.bound.endswith(" -> none")


def test_conditions_that_differ_are_named() -> None:
    before = profile_of(["a"])
    machine = dataclasses.replace(before.conditions, memory="ideal", bus_bytes=32)
    diff = diff_profiles(before, dataclasses.replace(before, conditions=machine))
    assert diff.conditions == {"memory": ("ddr", "ideal"), "bus_bytes": (8, 32)}


@given(first=st.integers(0, 2**32 - 1), second=st.integers(0, 2**32 - 1))
def test_changes_add_up(first: int, second: int) -> None:
    """Layers and tail explain the whole change; the largest comes first."""
    before, after = profile_of(["a", "b", "c"], first), profile_of(["c", "d"], second)
    diff = diff_profiles(before, after)
    total = sum(change.cycles for change in diff.changes)
    assert total + after.tail_cycles - before.tail_cycles == after.cycles - before.cycles
    sizes = [abs(change.cycles) for change in diff.changes]
    assert sizes == sorted(sizes, reverse=True)
    for change in diff.changes:
        moved = [abs(move.cycles) for move in change.moves]
        assert moved == sorted(moved, reverse=True) and 0 not in moved
