"""A scaled-down search, and the folder of one that is finished."""

import shutil
from pathlib import Path

import pytest

from daedal.codesign import compare as compare_module
from daedal.codesign import explore as explore_module
from daedal.codesign.search import evaluator, front_search
from daedal.compiler.targets.crossings import DEFAULT_HOST, HostRates
from daedal.host import rates as host_rates
from daedal.sim.rtl import verilog
from tests.support.command_line import Run
from tests.support.exploring import CheapCycles, Counting, explored


@pytest.fixture(autouse=True)
def one_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's rates are not measured."""
    load = host_rates.load_host_rates

    def loaded(source: host_rates.AnyHostRates) -> HostRates:
        return DEFAULT_HOST if source == host_rates.MEASURED else load(source)

    for module in (compare_module, explore_module):
        monkeypatch.setattr(module, "load_host_rates", loaded)


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """A scaled-down search without workers and without Verilog."""
    found = Counting()
    monkeypatch.setattr(explore_module, "counters", found.counters)
    monkeypatch.setattr(evaluator, "AnalyticCycles", CheapCycles)
    monkeypatch.setattr(front_search, "_BREEDING", 8)
    monkeypatch.setattr(verilog, "kept_verilog", lambda *_given, **_named: "module daedal_top;")
    return found


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where searches of several tests lie, once one of these has made them."""
    return tmp_path_factory.mktemp("searches")


@pytest.fixture
def done(run: Run, tmp_path: Path, counting: Counting, kept: Path) -> Path:
    """The folder of a finished search."""
    original = kept / "done"
    if not original.exists():
        status, _, err = explored(run, original)
        assert status == 0, err
        counting.counted.clear()
    return Path(shutil.copytree(original, tmp_path / "done"))
