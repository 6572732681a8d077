"""The burst splitter, at its full widths, in runs of every length."""

from pathlib import Path

import pytest

from daedal.hw.bus import burst
from daedal.hw.formal.bursts import BurstSplitting
from daedal.hw.formal.prove import prove
from daedal.hw.formal.streams import FirstInFirstOut
from daedal.hw.parts.skid import SkidBuffer
from daedal.isa.variant import load_variant
from tests.hw.formal.broken import broken_copy, first_quick

pytestmark = pytest.mark.formal

TINY = load_variant("tiny")


@pytest.mark.parametrize("name", ["tiny", pytest.param("wide", marks=pytest.mark.slow)])
def test_the_splitter_is_proved(name: str) -> None:
    result = prove(BurstSplitting(variant=load_variant(name)), depth=5, steps=1)
    assert result.proved, result


def test_the_buffer_behind_it_is_proved() -> None:
    claims = FirstInFirstOut(SkidBuffer(1), capacity=2, room=2, latency=1)
    assert prove(claims, depth=5, max_frames=20).proved


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    first_quick(
        {
            "crosses the page": (
                "limit = Mux(rest.near_end, MAX",
                "limit = Mux(0, MAX",
                "within_a_page",
            ),
            "a burst too long": (
                "arriving.long.eq(beats > MAX_BURST_BEATS)",
                "arriving.long.eq(beats > MAX_BURST_BEATS + 1)",
                "one_to_32_beats",
            ),
            "leaves a hole": (
                "Cat(Mux(rest.near_end, 0, low), address[_BLOCK_BITS:] + 1)",
                "Cat(low, address[_BLOCK_BITS:] + 1)",
                "begins_where",
            ),
            "loses words": (
                "Mux(rest.near_end & within[_BLOCK_BITS], blocks, blocks - 1)",
                "blocks - 1",
                "one_to_32_beats",
            ),
            "is last too early": (
                "last.eq(~rest.long & ~(rest.near_end & over))",
                "last.eq(~rest.long)",
                "within_a_page",
            ),
            "drops a request": (
                "m.d.sync += [waits.eq(1), room.eq(0)]",
                "m.d.sync += [waits.eq(0), room.eq(0)]",
                None,
            ),
        },
        quick=2,
    ),
)
def test_a_broken_splitter_fails(right: str, wrong: str, claim: str | None, tmp_path: Path) -> None:
    copy = broken_copy(burst, right, wrong, tmp_path)
    result = prove(BurstSplitting(variant=TINY, module=copy), depth=5)
    assert result.broken is not None
    assert claim is None or claim in result.broken[0], result
