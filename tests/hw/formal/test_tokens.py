"""Token counters and gates: no token lost or doubled, no silent wrap, nobody waits in vain."""

import dataclasses
from pathlib import Path
from types import ModuleType

import pytest

from daedal.hw.formal.prove import prove
from daedal.hw.formal.tokens import Tokens
from daedal.hw.issue import gate, token_count, tokens
from daedal.hw.issue.gate import IssueGate
from daedal.hw.issue.tokens import TokenFile
from daedal.isa.table import Unit
from daedal.isa.variant import Variant, load_variant
from tests.hw.formal.broken import broken_copy, first_quick

pytestmark = pytest.mark.formal


def two_bit_counters() -> Variant:
    tiny = load_variant("tiny")
    units = dataclasses.replace(tiny.units, token_bits=2, queue_depth=2)
    return dataclasses.replace(tiny, units=units)


@pytest.mark.heavy(6)
def test_tokens_of_gemm_are_proved() -> None:
    claims = Tokens(variant=two_bit_counters(), takers=(Unit.GEMM,), inductive=True)
    result = prove(claims, depth=7, steps=1)
    assert result.proved, result


@pytest.mark.slow
def test_tokens_of_all_units_are_proved() -> None:
    """With all takers, no error is false, and no token is left unnoticed."""
    result = prove(Tokens(variant=two_bit_counters(), inductive=True), depth=7, steps=1)
    assert result.proved, result


@pytest.mark.parametrize(
    ("module", "right", "wrong", "claim"),
    first_quick(
        {
            "a taken token seems to be there": (
                token_count,
                "self.some.eq(self.many),",
                "self.some.eq(1),",
                "pops",
            ),
            "never counts down": (
                token_count,
                "self.take & ~self.give",
                "self.take & ~self.give & 0",
                "pops",
            ),
            "a token given is not seen": (
                token_count,
                "self.some.eq(~self.full),",
                "self.some.eq(self.many),",
                "left",
            ),
            "a second token is not seen": (
                token_count,
                "self.many.eq(self.some & ~self.full),",
                "self.many.eq(0),",
                "starves",
            ),
            "wraps silently": (
                tokens,
                "return count.give & ~count.take & count.full",
                "return count.give & ~count.take & count.full & 0",
                "overflow",
            ),
            "takes none": (gate, "Mux(passes, wants, 0)", "Mux(passes, wants & 16, 0)", "takes"),
            "gives what the last one took": (
                gate,
                "left = (many & wants) | (some & ~wants)",
                "left = some",
                "pops",
            ),
            "sees a token a cycle late": (gate, "(some | coming)", "some", "starves"),
            "issues what is illegal": (gate, "memory.r_rdy & ~refused", "memory.r_rdy", "legal"),
            "marks what waits": (gate, "Mux(passes, wants, 0)", "wants", None),
            "needs room always": (
                gate,
                "following.mark & self.marks_enabled",
                "self.marks_enabled",
                None,
            ),
        }
    ),
)
def test_broken_tokens_fail(
    module: ModuleType,
    right: str,
    wrong: str,
    claim: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copy = broken_copy(module, right, wrong, tmp_path)
    if module is token_count:
        monkeypatch.setattr(tokens, "TokenCount", copy.TokenCount)
    claims = Tokens(
        variant=two_bit_counters(),
        token_file=getattr(copy, "TokenFile", TokenFile),
        issue_gate=getattr(copy, "IssueGate", IssueGate),
        takers=(Unit.GEMM,),
    )
    result = prove(claims, depth=8)
    assert result.broken is not None
    assert claim is None or claim in result.broken[0], result
