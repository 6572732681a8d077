"""A scaled-down search, and the folder of one that is finished."""

from pathlib import Path

import pytest

from daedal.codesign import explore as explore_module
from daedal.codesign.search import evaluator, front_search
from daedal.sim.rtl import verilog
from tests.support.command_line import Run
from tests.support.exploring import CheapCycles, Counting, explored


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """A scaled-down search without workers and without Verilog."""
    found = Counting()
    monkeypatch.setattr(explore_module, "counters", found.counters)
    monkeypatch.setattr(evaluator, "AnalyticCycles", CheapCycles)
    monkeypatch.setattr(front_search, "_BREEDING", 8)
    monkeypatch.setattr(verilog, "kept_verilog", lambda *_given, **_named: "module daedal_top;")
    return found


@pytest.fixture
def done(run: Run, tmp_path: Path, counting: Counting) -> Path:
    """The folder of a finished search."""
    folder = tmp_path / "done"
    status, _, err = explored(run, folder)
    assert status == 0, err
    counting.counted.clear()
    return folder
