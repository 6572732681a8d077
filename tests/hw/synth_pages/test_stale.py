"""Records whose Verilog has changed since: marked by digests, with a sentence bound to them."""

from typing import Any

import pytest

from bench.synthesis.synth import merged
from bench.synthesis.synth_record import text_digest
from bench.synthesis.synth_stale import marked_records
from daedal.common.errors import ToolError
from daedal.hw.synth_pages.stale import MARK, all_records, explanation, is_stale, marked

OLD = {"tiny": "module a;", "vta": "module b;", "board": "module c;"}


def row(name: str, **changes: Any) -> dict[str, Any]:
    common = {"shortfalls": [], "verilog": text_digest(OLD[name])}
    return {"variant": name, "target": "ecp5-85f", "met": True, **common, **changes}


@pytest.fixture
def measured() -> dict[str, Any]:
    return {"variants": [row("tiny"), row("vta")], "board": row("board"), "alternatives": []}


def compared(measured: dict[str, Any], what: str = "a gate", **texts: str) -> dict[str, Any]:
    """With other Verilog of some records."""
    return marked_records(measured, lambda record: {**OLD, **texts}[record["variant"]], what)


def test_nothing_is_marked_while_nothing_changed(measured: dict[str, Any]) -> None:
    assert compared(measured) == measured
    assert list(explanation(measured)) == []
    assert marked("tiny", measured["variants"][0]) == "tiny"


def test_what_changed_is_marked_and_explained(measured: dict[str, Any]) -> None:
    found = compared(measured, vta="module b2;", board="module c2;")
    assert [is_stale(record) for record in all_records(found)] == [False, True, True]
    assert marked("vta", found["variants"][1]) == f"vta {MARK}"
    assert found["variants"][1]["verilog"] == text_digest(OLD["vta"]), "the figures' own"
    assert list(explanation(found)) == [f"{MARK} Measured before a change of the Verilog: a gate."]
    assert compared(found) == measured, "changed back"


def test_a_sentence_holds_for_its_change_alone(measured: dict[str, Any]) -> None:
    first = compared(measured, vta="module b2;")
    second = compared(measured, "two gates", vta="module b3;")
    with pytest.raises(ToolError, match="need a sentence that says what changed; give one: python"):
        list(explanation({**second, "change": first["change"]}))
    with pytest.raises(ToolError, match="need a sentence"):
        list(explanation({name: first[name] for name in measured}))


def test_what_is_measured_again_loses_its_mark(measured: dict[str, Any]) -> None:
    found = compared(measured, tiny="module a2;", vta="module b2;")
    some = merged(found, {"variants": [row("tiny", verilog=text_digest("module a2;"))]})
    assert [is_stale(record) for record in all_records(some)] == [False, True, False]
    assert len(list(explanation(some))) == 1
    every = merged(some, {"variants": [row("vta", verilog=text_digest("module b2;"))]})
    assert not any(map(is_stale, all_records(every))) and "change" not in every
