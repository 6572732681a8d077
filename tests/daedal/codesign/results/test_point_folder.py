"""The folder of a point: it can be built and run, and what is there is not made again."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

from daedal import api
from daedal.artifact.artifact import Artifact
from daedal.codesign.cycles.counting import count_network
from daedal.codesign.hardware.clock import Clock
from daedal.codesign.results.point_folder import PointFolder
from daedal.codesign.results.prediction import ParameterStep, Prediction
from daedal.codesign.search.evaluation import Evaluation, Step
from daedal.codesign.search.objectives import Objective
from daedal.common.errors import ExploreError
from daedal.hw.synth.families import Family
from daedal.isa.memory_model import PRESETS
from daedal.isa.variant import Variant, load_variant
from daedal.runtime.profiler.measure import measure
from daedal.sim.rtl import verilog
from daedal.sim.timing.device import TimingDevice

MODEL = (Path(__file__).parents[4] / "examples" / "digits" / "digits_qdq.onnx").read_bytes()
CLOCK = Clock(80.0, 70.0, 90.0)
PREDICTION = Prediction(
    CLOCK,
    {"gemm": {"lut": 8000.0, "ff": 10.0, "dsp": 3.0, "block_ram": 4.0}},
    (ParameterStep("counters", True, False, None, None),),
)
Emitted = list[str]


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Emitted:
    """The text that every variant has as Verilog, which tests change."""
    texts = ["module daedal_top;"]
    monkeypatch.setattr(verilog, "kept_verilog", lambda *_given, **_named: texts[0])
    return texts


@pytest.fixture
def point(tmp_path: Path) -> PointFolder:
    variant = load_variant("tiny")
    cycles = {"digits": float(count_network(MODEL, variant, "ddr"))}
    used = {"lut": 8364.0, "ff": 10.0, "dsp": 3.0, "block_ram": 4.0}
    item = Evaluation(variant, Family.ECP5, Step.counted, cycles, used, CLOCK.mhz)
    return PointFolder(tmp_path / "points" / variant.name, item)


def complete(point: PointFolder, report: Callable[[str], None] = lambda _said: None) -> None:
    point.complete({"digits": MODEL}, lambda _item: PREDICTION, memory="ddr", report=report)


def times(point: PointFolder) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in point.folder.iterdir()}


def test_a_point_can_be_built_and_run(point: PointFolder, emitted: Emitted) -> None:
    complete(point)
    assert load_variant(str(point.folder / "variant.toml")) == point.evaluation.variant
    assert point.verilog() == emitted[0]
    artifact, item = point.artifact("digits"), point.evaluation
    device = TimingDevice(artifact.variant, timing=PRESETS["ddr"])
    assert measure(artifact, device, memory="ddr").cycles == item.cycles["digits"]
    assert point.profile("digits").cycles == item.cycles["digits"]
    assert point.predicted() == PREDICTION and point.memory() == PRESETS["ddr"]
    found = json.loads((point.folder / "predicted.json").read_text())
    assert found["fingerprint"] == artifact.variant.fingerprint
    assert found["cycles"] == item.cycles and found["resources"] == item.resources
    assert found["area"] == pytest.approx(10.0)
    assert found["latency"] == item.value(Objective.latency)


def test_what_is_there_is_not_made_again(point: PointFolder, emitted: Emitted) -> None:
    complete(point)
    assert "daedal_top.v" not in times(point), "its Verilog takes long, and is made when asked for"
    assert point.verilog() == emitted[0]
    before, said = times(point), list[str]()
    complete(point, said.append)
    assert times(point) == before and not said
    (point.folder / "digits.daedal").unlink()
    emitted[0] = "module daedal_top; // other gateware"
    complete(point, said.append)
    assert said == ["compiling digits for tiny", "checking the results of digits on tiny"]
    assert point.verilog() == emitted[0]
    changed = {name for name, time in times(point).items() if time != before[name]}
    assert changed == {"digits.daedal", "daedal_top.v"}


def test_predictions_of_other_estimates_are_made_again(
    point: PointFolder, emitted: Emitted
) -> None:
    """The tables of area and clocks grow between two runs of a search."""
    complete(point)
    before = times(point)
    used = {**point.evaluation.resources, "lut": 123.5}
    later = replace(point, evaluation=replace(point.evaluation, resources=used))
    complete(later)
    changed = {name for name, time in times(point).items() if time != before[name]}
    assert changed == {"predicted.json"}
    assert json.loads((point.folder / "predicted.json").read_text())["resources"] == used
    (point.folder / "predicted.json").write_text("{")
    complete(later)
    assert later.predicted() == PREDICTION


def test_an_unfinished_point_is_not_complete(
    point: PointFolder, emitted: Emitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("daedal.codesign.results.point_folder.compile_network", interrupted)
        with pytest.raises(KeyboardInterrupt):
            complete(point)
    assert not point.is_complete
    assert sorted(times(point)) == ["variant.toml"]
    complete(point)
    assert point.is_complete


def test_a_program_that_computes_other_bytes_is_no_point(
    point: PointFolder, emitted: Emitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.load_from_string(MODEL)
    weights = next(item for item in model.graph.initializer if item.name == "conv0.weight_q")
    weights.raw_data = bytes(len(weights.raw_data))

    def compiled(_model: bytes, variant: Variant, **_named: object) -> Artifact:
        return api.compile(model.SerializeToString(), variant)

    monkeypatch.setattr("daedal.codesign.results.point_folder.compile_network", compiled)
    with pytest.raises(ExploreError, match="tensor 'conv0_q' of network 'digits' on tiny differs"):
        complete(point)
    assert not point.is_complete and not (point.folder / "digits.daedal").exists()


def test_a_variant_without_counters_has_layers(point: PointFolder, emitted: Emitted) -> None:
    item = point.evaluation
    variant = item.variant.replace(counters=False)
    counted = count_network(MODEL, variant, "ddr")
    assert counted < item.cycles["digits"]  # no marks are written
    item = replace(item, variant=variant, cycles={"digits": float(counted)}, work={})
    point = replace(point, evaluation=item)
    complete(point)
    assert point.artifact("digits").variant == variant
    profile = point.profile("digits")
    assert len(profile.layers) > 5
    assert profile.cycles == counted


@pytest.mark.parametrize("text", ["{", "[]", "\0", "{}", '{"memory": "ddr", "clock": 3}'])
def test_a_damaged_prediction_is_refused(point: PointFolder, emitted: Emitted, text: str) -> None:
    complete(point)
    (point.folder / "predicted.json").write_text(text)
    with pytest.raises(ExploreError, match=r"predicted\.json.*is damaged; delete it"):
        point.predicted()
