"""The memory plan: regions, alignment, and reuse by lifetime."""

from hypothesis import given
from hypothesis import strategies as st

from daedal.compiler.codegen.segment import Segment
from daedal.compiler.link.memory_plan import ALIGNMENT_BYTES, plan_memory


def _chain(*sizes: int) -> list[Segment]:
    """Layer k reads tensor k and writes tensor k + 1."""
    names = [f"t{number}" for number in range(len(sizes))]
    return [
        Segment(f"layer{k}", (), {names[k]: sizes[k], names[k + 1]: sizes[k + 1]})
        for k in range(len(sizes) - 1)
    ]


def test_a_chain_takes_two_places():
    plan = plan_memory(_chain(64, 64, 64, 64, 64, 64), {}, {"t0": 64}, {"t5": 64})
    assert {plan.places[f"t{k}"].offset_bytes for k in range(1, 5)} == {0, 64}
    assert plan.region_bytes == (0, 64, 64, 128)


def test_regions_follow_roles():
    segments = [Segment("layer", (), {"x": 10, "w": 100, "y": 20})]
    plan = plan_memory(segments, {"w": 100}, {"x": 10}, {"y": 20})
    assert [plan.places[name].base for name in ("w", "x", "y")] == [0, 1, 2]
    assert plan.region_bytes == (128, 64, 64, 0)


@given(st.lists(st.integers(1, 500), min_size=2, max_size=12))
def test_live_tensors_never_overlap(sizes):
    segments = _chain(*sizes)
    plan = plan_memory(segments, {}, {}, {})
    for segment in segments:
        first, second = (plan.places[name] for name in segment.tensors)
        assert first.end_bytes <= second.offset_bytes or second.end_bytes <= first.offset_bytes
    assert all(place.offset_bytes % ALIGNMENT_BYTES == 0 for place in plan.places.values())
    assert max(place.end_bytes for place in plan.places.values()) <= plan.region_bytes[3]
