"""What a bench does not run for lack of files is said, and the bench has not passed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.codesign import area_alternatives
from bench.correctness import timing_cases, timing_model, vta_programs
from bench.kit_speed import rtl_speed, sim_speed
from bench.left_out import LeftOut
from bench.networks import starvation, units
from bench.synthesis import synth
from daedal.isa.variant import load_variant
from daedal.sim.functional.device import FunctionalDevice

TINY = load_variant("tiny")


@pytest.fixture
def missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The sentence about the only network, whose file is not there."""
    path = tmp_path / "none.onnx"
    monkeypatch.setattr(starvation, "NETWORKS", {"ResNet-8": path})
    return f"ResNet-8 needs the file {path}"


def run(monkeypatch: pytest.MonkeyPatch, main: Callable[[], int], *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["bench.py", *map(str, arguments)])
    return main()


def test_each_is_said_once() -> None:
    left_out, told = LeftOut(), list[str]()
    assert not left_out
    for _ in range(2):
        left_out.add("ResNet-8", "needs a file")
    left_out.add("digits", "need a file")
    left_out.show(told.append)
    assert left_out and told == ["not run: ResNet-8 needs a file", "not run: digits need a file"]
    assert left_out.to_json()[0] == {"reason": "ResNet-8 needs a file"}


def test_units(
    missing: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    written = tmp_path / "units.json"
    assert run(monkeypatch, units.main, "--only", "FETCH feeds", "--json", written) == 1
    assert f"not run: {missing}\n" in capsys.readouterr().out
    assert missing in written.read_text(encoding="utf-8")
    assert run(monkeypatch, units.main, "--only", "FETCH feeds GEMM: LeNet") == 0


def test_workloads_of_the_rtl(missing: str) -> None:
    left_out = LeftOut()
    assert list(rtl_speed.rtl_workloads(TINY, left_out)) == [rtl_speed.STREAM]
    assert left_out.sentences == [missing]


def test_speeds_of_simulators(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def measure_rtl(_variant: Any, _report: Any, left_out: LeftOut) -> tuple[list[Any], list[str]]:
        left_out.add("ResNet-8", "needs a file")
        return [], []

    monkeypatch.setattr(sim_speed, "on_one_core", lambda: 0)
    monkeypatch.setattr(sim_speed, "measure_functional", lambda *_arguments: [])
    monkeypatch.setattr(sim_speed, "measure_timing", lambda *_arguments: [])
    monkeypatch.setattr(sim_speed, "measure_rtl", measure_rtl)
    assert run(monkeypatch, sim_speed.main, "--no-build") == 1
    assert "not run: ResNet-8 needs a file\n" in capsys.readouterr().out
    assert run(monkeypatch, sim_speed.main, "--no-rtl") == 0


def test_cases_of_the_cycle_model(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "vta-streams"
    monkeypatch.setattr(timing_cases, "VTA_FOLDER", folder)
    left_out = LeftOut()
    assert not list(timing_cases.network_cases(TINY, left_out, "random"))
    assert not list(timing_cases.network_cases(load_variant("int16"), left_out))
    assert not list(timing_cases.vta_cases(TINY, left_out))  # it cannot hold their tiles
    assert not left_out
    assert not list(timing_cases.network_cases(TINY, left_out))
    assert not list(timing_cases.vta_cases(load_variant("vta"), left_out))
    assert left_out.sentences == [missing, f"translated VTA programs need the folder {folder}"]


@pytest.mark.parametrize("only", ["ResNet-8", "LeNet"])
def test_the_cycle_model_against_the_rtl(
    only: str,
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(timing_model, "on_one_core", lambda: 0)
    monkeypatch.setattr(timing_model, "RtlTruth", lambda *_arguments: None)
    monkeypatch.setattr(timing_model, "measure_timing", lambda *_arguments: [])
    options = ("--variants", "tiny", "--random", 0, "--only", only)
    assert run(monkeypatch, timing_model.main, *options) == 1
    shown = capsys.readouterr().out
    assert (f"not run: {missing}\n" in shown) == (only == "ResNet-8")
    assert f"not run: every program with {only!r} in its name is missing\n" in shown


def test_work_of_alternatives(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        area_alternatives, "run_streams", lambda _device, found, _: [1] * len(found)
    )
    left_out = LeftOut()
    cycles = area_alternatives.cycles_of_work(FunctionalDevice(TINY), left_out)
    assert cycles == dict.fromkeys(area_alternatives.STREAMS, 1)
    assert left_out.sentences == [missing]


def test_synthesis(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def measure(left_out: LeftOut) -> list[Any]:
        left_out.add("ResNet-8", "needs a file")
        return []

    monkeypatch.setattr(synth, "measure_variants", lambda *_arguments: None)
    monkeypatch.setattr(synth, "measure_alternatives", measure)
    monkeypatch.setattr(synth, "print_tables", lambda _data: None)
    assert run(monkeypatch, synth.main, "--seeds", 0, "--only", "vta") == 1
    assert "not run: ResNet-8 needs a file\n" in capsys.readouterr().out
    assert run(monkeypatch, synth.main, "--seeds", 0, "--only", "tiny") == 0


def test_vta_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, vta_programs.main, tmp_path) == 1
    assert f"needs a folder with insn.bin in {tmp_path}\n" in capsys.readouterr().out
