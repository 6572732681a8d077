"""Where the sentences before long steps go: to `report`, else to the log, and nowhere unasked."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import daedal
from daedal import api
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant, load_variant
from daedal.sim.rtl import device
from daedal.sim.rtl.device import RtlDevice

EMITS = "emitting the Verilog"


class Stopped(Exception):
    """Instead of a simulator."""


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build ends before it begins."""

    def emit(_variant: Variant, _folder: Path, report: Any, *, assertions: bool) -> str:
        report(EMITS)
        raise Stopped

    monkeypatch.setattr(device, "kept_verilog", emit)
    monkeypatch.setattr(device, "require_tools", lambda _simulator: None)


def test_the_first_build_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="daedal"), pytest.raises(Stopped):
        RtlDevice(load_variant("tiny")).build()
    assert caplog.messages == [EMITS]


def test_nothing_is_written_unasked(capfd: pytest.CaptureFixture[str]) -> None:
    assert not logging.getLogger("daedal").isEnabledFor(logging.INFO)
    with pytest.raises(Stopped):
        RtlDevice(load_variant("tiny")).build()
    assert capfd.readouterr() == ("", "")


def test_simulate_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the device, if that has something to report."""
    tiny, opened, said = load_variant("tiny"), list[Any](), list[str]()

    def executor(_artifact: object, device: object, *_others: object) -> None:
        opened.append(device)
        raise Stopped

    monkeypatch.setattr(api, "Executor", executor)
    artifact: Any = SimpleNamespace(
        launches=[None], has_gpu_code=False, variant=tiny, memory=PRESETS["ddr"]
    )
    for name in ("functional", "rtl"):
        with pytest.raises(Stopped):
            daedal.simulate(artifact, {}, device=name, report=said.append)
    with pytest.raises(Stopped):
        opened[1].build()
    assert said == [EMITS]
