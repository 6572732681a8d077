"""Verification of points: what is measured stays, and differences are told."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.codesign.cycles.counting import count_network
from daedal.codesign.hardware.area import area_model
from daedal.codesign.hardware.board import board_named
from daedal.codesign.hardware.clock import Clock, clock_model
from daedal.codesign.results import verify as verification
from daedal.codesign.results.point_folder import PointFolder
from daedal.codesign.results.prediction import Prediction
from daedal.codesign.results.verify import Report, Tools, Verified, spread, verify
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.common.errors import ToolError
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.synth.families import CellReport, Family
from daedal.hw.synth.flow import Implementation
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.variant import Variant
from daedal.reports.verification import verification_lines, verification_rows
from daedal.sim.rtl import verilog
from tests.support.small_netlist import needs_nextpnr

MODEL = Path(__file__).parents[4] / "examples" / "digits" / "digits_qdq.onnx"
CELLS = {"LUT4": 1_000, "TRELLIS_FF": 836, "MULT18X18D": 8, "DP16KD": 4}
PATH = TimingPath("gemm.a", "alu.b", "clk", "clk", ("gemm", "alu"), (), 4, 3.0, 8.0)


class Fakes:
    """Counts what is asked for; `off` is how far the RTL's cycles are from the cycle model's."""

    def __init__(self, *, off: int = 0, cells: dict[str, int] = CELLS, mhz: float = 91.0) -> None:
        self.off, self.cells, self.mhz = off, cells, mhz
        self.simulated = 0
        self.implemented: list[str] = []

    def tools(self) -> Tools:
        return Tools(self._cycles, self._implement)

    def _cycles(self, artifact: Artifact, memory: MemoryModel, _report: Report) -> int:
        assert memory == PRESETS["ddr"]
        self.simulated += 1
        return count_network(MODEL.read_bytes(), artifact.variant, memory) + self.off

    def _implement(
        self, variant: Variant, verilog: str, family: Family, _report: Report
    ) -> Implementation:
        self.implemented.append(verilog)
        report = CellReport.of(family, self.cells)
        if not report.fits(1.0):
            return Implementation(variant, report, limit=1.0)
        routed = Routed(PlaceRequest(seed=1), {"clk": self.mhz}, (PATH,), {}, None)
        return Implementation(variant, report, (routed,), limit=1.0)


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return daedal.compile(MODEL, "tiny")


@pytest.fixture
def point(tmp_path: Path, artifact: Artifact) -> PointFolder:
    """A complete point with made-up Verilog."""
    cycles = {"digits": float(count_network(MODEL.read_bytes(), artifact.variant, "ddr"))}
    used = {"lut": 1_100.0, "ff": 836.0, "dsp": 8.0, "block_ram": 4.0}
    item = Evaluation(artifact.variant, Family.ECP5, Step.counted, cycles, used, 90.0)
    point = PointFolder(tmp_path, item)
    artifact.save(tmp_path / "digits.daedal")
    data = Prediction(Clock(90.0, 80.0, 100.0), {}, ()).to_json()
    (tmp_path / "predicted.json").write_text(
        json.dumps({"memory": "ddr", "ideal_cycles": {"digits": 9_000}, **data})
    )
    return point


@pytest.fixture(autouse=True)
def emitted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text that every variant has as Verilog, which tests change; not where tools are real."""
    texts = ["module daedal_top;"]
    if request.node.get_closest_marker("fpga") is None:
        monkeypatch.setattr(verilog, "kept_verilog", lambda *_given, **_named: texts[0])
    return texts


def verified(point: PointFolder, fakes: Fakes) -> Verified:
    (found,) = verify([point], tools=fakes.tools())
    return found


def test_a_point_is_measured_once(point: PointFolder) -> None:
    fakes = Fakes()
    found = verified(point, fakes)
    assert found.cycles_are_equal and found.clock_is_inside and not found.problem
    assert found.resources["lut"] == (1_100.0, 1_000.0)
    assert verified(point, fakes) == found
    assert (fakes.simulated, fakes.implemented) == (1, ["module daedal_top;"])
    kept = json.loads((point.folder / "measured.json").read_text())
    assert kept["worst path"].startswith("gemm -> alu: from gemm.a to alu.b")


def test_each_step_is_told(point: PointFolder) -> None:
    said: list[str] = []
    list(verify([point], report=said.append, tools=Fakes().tools()))
    steps = [text.partition(":")[0].rpartition(" ")[0] for text in said]
    assert "verifying 1 of 1, synthesizing" in steps, said


def test_an_interrupted_verification_goes_on(point: PointFolder) -> None:
    def interrupted(*_given: object) -> Implementation:
        raise KeyboardInterrupt

    fakes = Fakes()
    broken = replace(fakes.tools(), implement=interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(verify([point], tools=broken))
    assert fakes.simulated == 1
    assert verified(point, fakes).mhz == 91.0
    assert fakes.simulated == 1, "it was kept"


def test_other_gateware_is_measured_again(point: PointFolder, emitted: list[str]) -> None:
    fakes = Fakes()
    verified(point, fakes)
    emitted[0] = "module daedal_top; // other"
    verified(point, fakes)
    assert fakes.simulated == 2 and len(fakes.implemented) == 2


def test_differences_are_told(point: PointFolder) -> None:
    found = verified(point, Fakes(off=3, mhz=70.0))
    assert not found.cycles_are_equal and found.clock_is_inside is False
    rows = {row[1]: row[2:] for row in verification_rows([found])}
    assert rows["digits cycles"][2] == "+3"
    assert rows["LUT"] == ("1,100", "1,000", "-9.1 %")
    assert rows["MHz"] == ("90.0 (80.0 to 100.0)", "70.0", "outside")
    assert any("must count the RTL's cycles" in line for line in verification_lines([found]))


def test_a_clock_that_was_asked_for(point: PointFolder) -> None:
    found = replace(verified(point, Fakes()), clock=Clock(90.0, 90.0, 90.0))
    *_, row = verification_rows([found])
    assert row[2:] == ("90.0 asked", "91.0", "reached")
    *_, row = verification_rows([replace(found, mhz=89.0)])
    assert row[2:] == ("90.0 asked", "89.0", "missed")


def test_a_board_is_implemented_whole(point: PointFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the fastest clock that its PLL makes for its memory, with its pins. Other logic on the
    board is measured again."""
    board = board_named("ulx3s-85f")
    texts, asked = ["module daedal_board;"], []

    def kept_board_verilog(settings: BoardSettings, *_given: object, family: Family) -> str:
        assert settings.sdram == board.sdram.chip and family is Family.ECP5
        return texts[0]

    def implement(variant: Variant, text: str, *_given: object, **named: object) -> Implementation:
        asked.append((text, named["top"], named["requests"]))
        return Implementation(variant, CellReport.of(Family.ECP5, CELLS), limit=1.0)

    monkeypatch.setattr(verification, "kept_board_verilog", kept_board_verilog)
    monkeypatch.setattr(verification, "implement", implement)
    tools = replace(Tools.on(board), cycles=Fakes().tools().cycles)
    for _ in range(2):
        list(verify([point], tools=tools))
    ((text, top, (request,)),) = asked
    assert (text, top) == (texts[0], "daedal_board")
    assert request.device == "LFE5U-85F" and 'LOCATE COMP "sdram_clk"' in request.pins
    assert 0.99 * board.most_mhz < request.target_mhz <= board.most_mhz
    texts[0] = "module daedal_board; // another controller"
    list(verify([point], tools=tools))
    assert [text for text, *_ in asked][1:] == texts


def test_what_does_not_fit_is_not_routed(point: PointFolder) -> None:
    found = verified(point, Fakes(cells={**CELLS, "MULT18X18D": 157}))
    assert found.mhz is None and found.clock_is_inside is None
    *_, line = verification_lines([found])
    assert line.startswith("tiny does not fit: DSP must be at most 156, not 157")


def test_a_tool_that_fails_leaves_what_was_measured(point: PointFolder) -> None:
    def failing(*_given: object) -> Implementation:
        raise ToolError("nextpnr failed")

    with pytest.raises(ToolError):
        list(verify([point], tools=replace(Fakes().tools(), implement=failing)))
    assert list(json.loads((point.folder / "measured.json").read_text())["cycles"]) == ["digits"]


@pytest.mark.parametrize("text", ["{}", '{"verilog": 1, "cycles": 2}'])
def test_strange_measurements_are_made_again(point: PointFolder, text: str) -> None:
    (point.folder / "measured.json").write_text(text)
    assert verified(point, Fakes()).cycles_are_equal


@pytest.mark.parametrize(
    ("count", "chosen"),
    [(0, ""), (1, "a"), (2, "ag"), (3, "adg"), (4, "aceg"), (7, "abcdefg"), (9, "abcdefg")],
)
def test_points_are_spread_over_the_front(count: int, chosen: str) -> None:
    assert spread(list("abcdefg"), count) == list(chosen)


@pytest.mark.slow
@pytest.mark.fpga
@pytest.mark.rtl
@needs_nextpnr
def test_a_small_variant_for_real(point: PointFolder, tmp_path: Path) -> None:
    """Cycles are exact; area and clock are near what the models say."""
    variant = point.evaluation.variant
    (used,) = area_model(Family.ECP5)([variant])
    (clock,) = clock_model(Family.ECP5)([variant], [used])
    item = replace(point.evaluation, resources=used, mhz=clock.mhz)
    (found,) = verify([replace(point, evaluation=item)])
    assert found.cycles_are_equal
    measured = {name: amounts[1] for name, amounts in found.resources.items()}
    assert measured["lut"] > 2_000 and found.mhz is not None and 40 < found.mhz < 250
    kept = json.loads((point.folder / "measured.json").read_text())
    digest = hashlib.sha256(point.verilog().encode()).hexdigest()
    assert digest.startswith(kept["verilog"])
