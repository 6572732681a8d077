"""The memory plan: regions, alignment, and reuse by lifetime."""

from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.link.placement.lifetimes import Life
from daedal.compiler.link.placement.memory_plan import (
    INPUTS,
    OUTPUTS,
    WORKSPACE,
    Alias,
    Place,
    plan_memory,
)
from daedal.compiler.link.placement.packing import ALIGNMENT_BYTES

Lives = dict[str, Life]
Sizes = dict[str, int]


def _chain(*sizes: int) -> tuple[Lives, Sizes]:
    """Layer k reads tensor k and writes tensor k + 1, in step k."""
    lives = {f"t{k}": Life(max(k - 1, 0), k, is_read=True) for k in range(len(sizes))}
    return lives, {f"t{k}": size for k, size in enumerate(sizes)}


def test_a_chain_takes_two_places():
    plan = plan_memory(*_chain(64, 64, 64, 64, 64, 64), {}, {"t0": 64}, {"t5": 64})
    assert {plan.places[f"t{k}"].offset_bytes for k in range(1, 5)} == {0, 64}
    assert plan.region_bytes == (0, 64, 64, 128)


def test_regions_follow_roles():
    sizes = {"x": 10, "w": 100, "y": 20}
    lives = {"x": Life(0, 0, is_read=True), "y": Life(0, 0, is_read=False)}
    plan = plan_memory(lives, sizes, {"w": 100}, {"x": 10}, {"y": 20})
    assert [plan.places[name].base for name in ("w", "x", "y")] == [0, 1, 2]
    assert plan.region_bytes == plan.observed_bytes == (128, 64, 64, 0)


def test_results_that_nothing_loads_lie_behind_the_workspace():
    lives, sizes = _chain(64, 64, 64, 64, 64)
    lives["t2"] = Life(1, 1, is_read=False)
    lives["t4"] = Life(3, 3, is_read=False)
    del lives["t0"]
    plan = plan_memory(lives, sizes, {}, {}, {})
    assert plan.region_bytes[WORKSPACE] == plan.workspace_bound_bytes == 64
    assert plan.places["t2"] == plan.places["t4"] == Place(WORKSPACE, 64, 64)
    assert plan.observed_bytes[WORKSPACE] == 128
    assert "t0" not in plan.places


def test_a_group_of_which_nothing_is_loaded_lies_there_too():
    lives, sizes, aliases = _joined()
    del lives["c"]
    plan = plan_memory(lives, sizes, {}, {}, {"y": 64}, aliases)
    assert plan.region_bytes[WORKSPACE] == 128
    assert plan.places["a"] == Place(WORKSPACE, 128, 100)
    assert plan.places["b"] == Place(WORKSPACE, 228, 60)


@given(st.lists(st.integers(1, 500), min_size=2, max_size=12))
def test_live_tensors_never_overlap(sizes):
    lives, sizes_bytes = _chain(*sizes)
    plan = plan_memory(lives, sizes_bytes, {}, {}, {})
    for number in range(len(sizes) - 1):
        first, second = (plan.places[f"t{k}"] for k in (number, number + 1))
        assert first.end_bytes <= second.offset_bytes or second.end_bytes <= first.offset_bytes
    assert all(place.offset_bytes % ALIGNMENT_BYTES == 0 for place in plan.places.values())
    assert max(place.end_bytes for place in plan.places.values()) <= plan.region_bytes[3]


ALIASES = {"c": Alias("c", 0), "a": Alias("c", 0), "b": Alias("c", 100)}


def _joined() -> tuple[Lives, Sizes, dict[str, Alias]]:
    """Two tensors that one layer reads as one, `c`; a third one is gone before the second."""
    lives = {
        "a": Life(0, 0, is_read=False),
        "early": Life(0, 1, is_read=True),
        "other": Life(1, 2, is_read=True),
        "b": Life(2, 2, is_read=False),
        "c": Life(3, 3, is_read=True),
        "y": Life(3, 3, is_read=False),
    }
    sizes = {"a": 100, "early": 64, "other": 64, "b": 60, "c": 160, "y": 64}
    return lives, sizes, ALIASES


def test_tensors_of_a_group_keep_their_distances():
    lives, sizes, aliases = _joined()
    plan = plan_memory(lives, sizes, {}, {}, {"y": 64}, aliases)
    begin = plan.places["c"].offset_bytes
    assert plan.places["a"] == Place(WORKSPACE, begin, 100)
    assert plan.places["b"] == Place(WORKSPACE, begin + 100, 60)
    # The end of the group is free until layer 2: `early` or `other` lies there.
    assert plan.workspace_bound_bytes == 228
    assert plan.region_bytes == (0, 0, 64, 256)


def test_a_group_lies_where_its_output_has_to():
    lives, sizes, aliases = _joined()
    plan = plan_memory(lives, sizes, {}, {}, {"y": 64, "b": 60}, aliases)
    assert plan.places["y"] == Place(OUTPUTS, 0, 64)
    assert plan.places["c"] == Place(OUTPUTS, 64, 160)
    assert plan.places["b"] == Place(OUTPUTS, 164, 60)
    assert plan.region_bytes == (0, 0, 256, 128)


def test_a_part_of_an_input_is_no_memory_of_its_own():
    lives = {"part": Life(0, 0, is_read=True), "y": Life(0, 0, is_read=False)}
    aliases = {"x": Alias("x", 0), "part": Alias("x", 64)}
    plan = plan_memory(lives, {"part": 64, "y": 64}, {}, {"x": 128}, {"y": 64}, aliases)
    assert plan.places["part"] == Place(INPUTS, 64, 64)
    assert plan.region_bytes == (0, 128, 64, 0) and plan.workspace_bound_bytes == 0
