"""The bench of synthesis with the real tools, on a design that they need seconds for."""

import json
from pathlib import Path

import pytest

from bench.synthesis import synth, synth_record
from daedal.hw.synth import tools
from tests.support.small_netlist import SMALL, needs_nextpnr

pytestmark = [pytest.mark.fpga, pytest.mark.xdist_group("small-netlist")]

COMMAND = ["synth.py", "--only", "tiny", "--seeds", "2"]


@needs_nextpnr
@pytest.mark.slow
def test_a_second_run_answers_from_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(synth_record, "kept_verilog", lambda *_arguments, **_options: SMALL)
    monkeypatch.setattr(synth, "resnet18_cycles", lambda _form, _report: {"cycles": 1_000_000})
    monkeypatch.setattr("sys.argv", [*COMMAND, "--json", "first.json"])
    assert synth.main() == 0
    data = json.loads(Path("first.json").read_text())
    routed, estimated = data["variants"]
    assert routed["fmax_mhz"] == max(routed["seeds"].values())
    assert set(routed["seeds"]) == {"1", "2"}
    assert routed["worst_path"].startswith("counter -> square: ")
    assert routed["used"]["dsp"] == 1 and estimated["used"]["dsp"] == 2  # 18 bits, unsigned
    assert "fmax_mhz" not in estimated
    assert f" {routed['fmax_mhz']:.1f} " in capsys.readouterr().out
    monkeypatch.setattr(tools, "_start", lambda *_arguments: pytest.fail("a tool was asked"))
    monkeypatch.setattr("sys.argv", [*COMMAND, "--json", "second.json"])
    assert synth.main() == 0
    assert json.loads(Path("second.json").read_text()) == data
