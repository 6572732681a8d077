"""Token counters and gates: no token lost or doubled, no silent wrap, nobody waits in vain."""

import dataclasses
from pathlib import Path

import pytest

from daedal.hw import tokens
from daedal.hw.formal.prove import prove
from daedal.hw.formal.tokens import Tokens
from daedal.hw.tokens import QUEUED_UNITS
from daedal.isa.table import Unit
from daedal.isa.variant import Variant, load_variant
from tests.hw.formal.broken import broken_copy, first_quick

pytestmark = pytest.mark.formal


def two_bit_counters() -> Variant:
    tiny = load_variant("tiny")
    return dataclasses.replace(tiny, units=dataclasses.replace(tiny.units, token_bits=2))


def test_tokens_of_gemm_hold() -> None:
    result = prove(Tokens(variant=two_bit_counters(), takers=(Unit.GEMM,)), depth=5)
    assert result.holds, result


@pytest.mark.slow
@pytest.mark.parametrize("unit", QUEUED_UNITS, ids=lambda unit: unit.name)
def test_tokens_of_a_unit_are_proved(unit: Unit) -> None:
    result = prove(Tokens(variant=two_bit_counters(), takers=(unit,)), depth=5, max_frames=30)
    assert result.proved, result


@pytest.mark.slow
def test_tokens_of_all_units_hold() -> None:
    result = prove(Tokens(variant=two_bit_counters()), depth=6)
    assert result.holds, result


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    first_quick(
        {
            "never counts down": (
                "following.eq(count + give - take)",
                "following.eq(count + (give & ~take))",
                "pops",
            ),
            "counts up where it should count down": (
                "following.eq(count + give - take)",
                "following.eq(count + (give ^ take))",
                "pops",
            ),
            "a taken token seems to be there": (
                "following.any())]",
                "(count + give).any())]",
                "pops",
            ),
            "a token given is not seen": ("following.any())]", "(count - take).any())]", "starves"),
            "wraps silently": (
                "give & ~take & count.all()",
                "give & ~take & count[1:].all() & 0",
                "overflow",
            ),
            "takes none": (
                "self.take.eq(Mux(passes, instruction.pop, 0))",
                "self.take.eq(0)",
                "pops",
            ),
            "ignores LOAD": (
                "lacking.eq(instruction.pop & ~",
                "lacking.eq(instruction.pop[1:] & ~",
                None,
            ),
            "issues what is illegal": (
                "~lacking.any() & ~illegal & (",
                "~lacking.any() & (",
                "only_legal",
            ),
            "marks what waits": ("passes & marked", "self.queue.valid & marked", "marks"),
            "needs credit always": ("(~marked | self.mark_credit)", "self.mark_credit", "starves"),
        }
    ),
)
def test_broken_tokens_fail(right: str, wrong: str, claim: str | None, tmp_path: Path) -> None:
    copy = broken_copy(tokens, right, wrong, tmp_path)
    claims = Tokens(
        variant=two_bit_counters(),
        token_file=copy.TokenFile,
        issue_gate=copy.IssueGate,
        takers=(Unit.GEMM,),
    )
    result = prove(claims, depth=6)
    assert result.broken is not None
    assert claim is None or claim in result.broken[0], result
