"""The read master's credit: room for every word of every open burst, in runs of every length."""

from pathlib import Path

import pytest

from daedal.hw.bus import read_master
from daedal.hw.formal.prove import prove
from daedal.hw.formal.reads import ReadCredit
from daedal.isa.variant import load_variant
from tests.hw.formal.broken import broken_copy, first_quick

pytestmark = pytest.mark.formal

TINY = load_variant("tiny")
TWO_BURSTS = TINY.replace("two-bursts", read_bursts=2)

DEPTH = "import MAX_BURST_BEATS, fifo_depth_words\n"
ONE_BURST = (
    "import MAX_BURST_BEATS\ndef fifo_depth_words(variant, reader):\n    return MAX_BURST_BEATS\n"
)
"""A FIFO so small that short runs overflow it."""


def test_one_reader_always_has_room() -> None:
    result = prove(ReadCredit(variant=TWO_BURSTS, readers=1), depth=6, steps=2)
    assert result.proved, result


@pytest.mark.slow
def test_both_readers_always_have_room() -> None:
    result = prove(ReadCredit(variant=TINY), depth=6, steps=2)
    assert result.proved, result


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    first_quick(
        {
            "asks without room": (
                "wanted = splitter.o.valid & ~spare[-1]",
                "wanted = splitter.o.valid",
                "fifo0_balance",
            ),
            "promises a word less": (
                "Mux(grant, burst.beats, 0)",
                "Mux(grant, burst.beats - 1, 0)",
                "fifo0_balance",
            ),
            "takes back what is there": (
                "words.valid & words.ready, name",
                "words.valid, name",
                "fifo0_balance",
            ),
            "makes memory wait": ("self.r.ready.eq(1)", "self.r.ready.eq(~word_valid)", "ready"),
            "opens too many": ("& ~count.full & ~self.stop", "& ~self.stop", "full_tally"),
            "drops a word": (
                "fifo.i.valid.eq(word_valid & (word.id == reader))",
                "fifo.i.valid.eq(word_valid & word.last)",
                "fifo0_held",
            ),
        }
    ),
)
def test_a_broken_master_fails(right: str, wrong: str, claim: str, tmp_path: Path) -> None:
    copy = broken_copy(read_master, right, wrong, tmp_path)
    if claim.startswith("fifo"):
        again = tmp_path / "small"
        again.mkdir()
        copy = broken_copy(copy, DEPTH, ONE_BURST, again)
    result = prove(ReadCredit(variant=TWO_BURSTS, readers=1, module=copy), depth=12)
    assert result.broken is not None
    assert claim in result.broken[0], result


def test_the_master_with_a_small_fifo_holds(tmp_path: Path) -> None:
    """What is broken above is not the size."""
    small = broken_copy(read_master, DEPTH, ONE_BURST, tmp_path)
    claims = ReadCredit(variant=TWO_BURSTS, readers=1, module=small)
    result = prove(claims, depth=3, steps=2)
    assert result.certificate is not None, result
