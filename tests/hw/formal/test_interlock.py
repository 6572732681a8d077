"""The ALU's interlock: no row is read while a result for it is in flight; nobody waits in vain."""

from pathlib import Path

import pytest

from daedal.hw.alu import interlock
from daedal.hw.formal import interlock as claims
from daedal.hw.formal.interlock import RowInterlock
from daedal.hw.formal.prove import prove
from tests.hw.formal.broken import broken_copy, first_quick

pytestmark = pytest.mark.formal

NOT_READ = "a_row_in_flight_is_not_read"
NOT_STUCK = "nobody_waits_for_nothing"


def test_the_interlock_is_proved() -> None:
    result = prove(RowInterlock(), depth=8, steps=1)
    assert result.proved, result


@pytest.mark.slow
def test_the_interlock_of_a_machine_is_proved() -> None:
    """As `tiny` has it: 256 rows, 19 groups; what seven cycles do not reach is left out."""
    result = prove(RowInterlock(row_bits=8, depth=19), depth=7, steps=1)
    assert result.broken is None
    assert result.certificate is not None, result


def test_a_row_is_free_in_the_third_cycle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No later than that: the claim is not weaker than what the block does."""
    monkeypatch.setattr(claims, "_FREE_AFTER", claims._FREE_AFTER + 1)
    result = prove(RowInterlock(registers=False), depth=8)
    assert result.broken is not None
    assert result.broken[0] == NOT_READ


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    first_quick(
        {
            "compares no destination": (
                "| (self.reads_dst & (self.dst == row))",
                "",
                NOT_READ,
            ),
            "is cleared late": (
                "issued.waits.eq(issued.waits & ~leaving)",
                "issued.waits.eq(issued.waits)",
                NOT_STUCK,
            ),
            "takes one group too many": (
                "for number in (depth, depth - 1)",
                "for number in (depth + 1, depth)",
                "a_full_ring_must_take_no_group",
            ),
            "is cleared early": (
                'register(m, Mux(self.leave, tail, 0), name="leaving", reset_less=False)',
                "Mux(self.leave, tail, 0)",
                NOT_READ,
            ),
            "forgets the step at the issue point": (
                "Mux(step.first, entering, 0)",
                "0",
                NOT_READ,
            ),
            "forgets the parked step": (
                "arrived.first.eq(arrived.second)",
                "arrived.first.eq(0)",
                NOT_READ,
            ),
            "misses a group that enters": (
                "Mux(reads_issued, entering, 0)",
                "0",
                NOT_READ,
            ),
            "does not look ahead": ("| (self.enter & gets_full)", "", "a_full_ring"),
            "stops where it must not": ("next_waits, still_waits)", "1, still_waits)", NOT_STUCK),
        },
        quick=9,
    ),
)
def test_a_broken_interlock_fails(right: str, wrong: str, claim: str, tmp_path: Path) -> None:
    copy = broken_copy(interlock, right, wrong, tmp_path)
    result = prove(RowInterlock(interlock=copy.Interlock, registers=False), depth=10)
    assert result.broken is not None
    assert claim in result.broken[0], result
