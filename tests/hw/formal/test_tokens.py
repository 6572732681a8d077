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
from tests.hw.formal.broken import broken_copy

pytestmark = pytest.mark.formal


def two_bit_counters() -> Variant:
    tiny = load_variant("tiny")
    return dataclasses.replace(tiny, units=dataclasses.replace(tiny.units, token_bits=2))


@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(unit, marks=() if unit is Unit.GEMM else pytest.mark.slow, id=unit.name)
        for unit in QUEUED_UNITS
    ],
)
def test_tokens_of_a_unit_are_proved(unit: Unit) -> None:
    result = prove(Tokens(variant=two_bit_counters(), takers=(unit,)), depth=5, max_frames=30)
    assert result.proved, result


@pytest.mark.slow
def test_tokens_of_all_units_hold() -> None:
    result = prove(Tokens(variant=two_bit_counters()), depth=6)
    assert result.holds, result


@pytest.mark.parametrize(
    ("right", "wrong", "claim"),
    [
        ("following.eq(count + give - take)", "following.eq(count + (give & ~take))", "pops"),
        ("following.eq(count + give - take)", "following.eq(count + (give ^ take))", "pops"),
        ("following.any())]", "(count + give).any())]", "pops"),
        ("following.any())]", "(count - take).any())]", "starves"),
        ("give & ~take & count.all()", "give & ~take & count[1:].all() & 0", "overflow"),
        ("self.take.eq(Mux(passes, instruction.pop, 0))", "self.take.eq(0)", "pops"),
        ("lacking.eq(instruction.pop & ~", "lacking.eq(instruction.pop[1:] & ~", None),
        ("~lacking.any() & ~illegal & (", "~lacking.any() & (", "only_legal"),
        ("passes & marked", "self.queue.valid & marked", "marks"),
        ("(~marked | self.mark_credit)", "self.mark_credit", "starves"),
    ],
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
