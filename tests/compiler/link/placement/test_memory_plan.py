"""The memory plan: regions, alignment, and reuse by lifetime."""

from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.codegen.segment import Segment
from daedal.compiler.link.placement.memory_plan import (
    INPUTS,
    OUTPUTS,
    WORKSPACE,
    Alias,
    Place,
    plan_memory,
)
from daedal.compiler.link.placement.packing import ALIGNMENT_BYTES


def _chain(*sizes: int) -> list[list[Segment]]:
    """Layer k reads tensor k and writes tensor k + 1; each is a step of its own."""
    names = [f"t{number}" for number in range(len(sizes))]
    return [
        [Segment(f"layer{k}", (), {names[k]: sizes[k], names[k + 1]: sizes[k + 1]})]
        for k in range(len(sizes) - 1)
    ]


def test_a_chain_takes_two_places():
    plan = plan_memory(_chain(64, 64, 64, 64, 64, 64), {}, {"t0": 64}, {"t5": 64})
    assert {plan.places[f"t{k}"].offset_bytes for k in range(1, 5)} == {0, 64}
    assert plan.region_bytes == (0, 64, 64, 128)


def test_regions_follow_roles():
    steps = [[Segment("layer", (), {"x": 10, "w": 100, "y": 20})]]
    plan = plan_memory(steps, {"w": 100}, {"x": 10}, {"y": 20})
    assert [plan.places[name].base for name in ("w", "x", "y")] == [0, 1, 2]
    assert plan.region_bytes == (128, 64, 64, 0)


def test_what_layers_of_one_step_use_is_live_at_once():
    apart = plan_memory(_chain(64, 64, 64, 64), {}, {}, {})
    first, (second,), (third,) = _chain(64, 64, 64, 64)
    together = plan_memory([first, [second, third]], {}, {}, {})
    assert apart.region_bytes[WORKSPACE] == 128
    assert together.region_bytes[WORKSPACE] == 192
    assert len({together.places[f"t{k}"].offset_bytes for k in (1, 2, 3)}) == 3


@given(st.lists(st.integers(1, 500), min_size=2, max_size=12))
def test_live_tensors_never_overlap(sizes):
    steps = _chain(*sizes)
    plan = plan_memory(steps, {}, {}, {})
    for (segment,) in steps:
        first, second = (plan.places[name] for name in segment.tensors)
        assert first.end_bytes <= second.offset_bytes or second.end_bytes <= first.offset_bytes
    assert all(place.offset_bytes % ALIGNMENT_BYTES == 0 for place in plan.places.values())
    assert max(place.end_bytes for place in plan.places.values()) <= plan.region_bytes[3]


def _joined() -> list[list[Segment]]:
    """Two tensors that one layer reads as one, `c`; a third one is gone before the second."""
    return [
        [Segment("0", (), {"a": 100, "early": 64})],
        [Segment("1", (), {"early": 64, "other": 64})],
        [Segment("2", (), {"other": 64, "b": 60})],
        [Segment("3", (), {"c": 160, "y": 64})],
    ]


ALIASES = {"c": Alias("c", 0), "a": Alias("c", 0), "b": Alias("c", 100)}


def test_tensors_of_a_group_keep_their_distances():
    plan = plan_memory(_joined(), {}, {}, {"y": 64}, ALIASES)
    begin = plan.places["c"].offset_bytes
    assert plan.places["a"] == Place(WORKSPACE, begin, 100)
    assert plan.places["b"] == Place(WORKSPACE, begin + 100, 60)
    # The end of the group is free until layer 2: `early` or `other` lies there.
    assert plan.workspace_bound_bytes == 228
    assert plan.region_bytes == (0, 0, 64, 256)


def test_a_group_lies_where_its_output_has_to():
    plan = plan_memory(_joined(), {}, {}, {"y": 64, "b": 60}, ALIASES)
    assert plan.places["y"] == Place(OUTPUTS, 0, 64)
    assert plan.places["c"] == Place(OUTPUTS, 64, 160)
    assert plan.places["b"] == Place(OUTPUTS, 164, 60)
    assert plan.region_bytes == (0, 0, 256, 128)


def test_a_part_of_an_input_is_no_memory_of_its_own():
    steps = [[Segment("0", (), {"part": 64, "y": 64})]]
    aliases = {"x": Alias("x", 0), "part": Alias("x", 64)}
    plan = plan_memory(steps, {}, {"x": 128}, {"y": 64}, aliases)
    assert plan.places["part"] == Place(INPUTS, 64, 64)
    assert plan.region_bytes == (0, 128, 64, 0) and plan.workspace_bound_bytes == 0
