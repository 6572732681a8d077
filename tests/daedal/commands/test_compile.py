"""``daedal compile``: what it writes and lists, and one sentence for every model it refuses."""

import json
from pathlib import Path

import onnx
from onnx import helper

import daedal
from daedal.artifact.artifact import Artifact
from daedal.isa.variant import load_variant
from tests.support.command_line import Run, refuses

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"
FLOAT = ROOT / "examples" / "digits" / "digits.onnx"


def test_compile_lists_layers_and_host_steps(run: Run, tmp_path: Path) -> None:
    target = tmp_path / "digits.daedal"
    status, out, err = run("compile", DIGITS, "-v", "tiny", "-o", target)
    assert status == 0, err
    assert "conv3_linear" in out and "147,456" in out
    lines = out.splitlines()
    assert (
        "100.0 % of 379,136 multiply-accumulates on the accelerator, 7 layers in one launch"
        in lines
    )
    reason = "the variant has no tables, units.lane_reductions or units.wide_requantize"
    others = "(variants that have it: attention)"
    line = f"on the host: Softmax 'probabilities': {reason}, which would compute it {others}"
    assert line in lines
    assert load_variant("tiny").fingerprint in lines[-1]
    cycles = sum(part.cycles for part in daedal.inspect(Artifact.load(target)).launches)
    assert lines[-2] == f"one launch takes {cycles:,} cycles of the cycle model with memory ddr"
    steps = err.splitlines()
    assert len(steps) == len(set(steps)), steps
    assert target.is_file() and list(tmp_path.iterdir()) == [target]


def test_compile_a_part_as_json(run: Run, tmp_path: Path) -> None:
    status, out, _ = run(
        *("compile", DIGITS, "-v", "tiny", "-o", tmp_path / "part.daedal", "--json"),
        *("--from", "conv0_q", "--to", "conv1_q", "--dump-dir", tmp_path / "dump"),
    )
    assert status == 0
    report = json.loads(out)
    (launch,) = report["launches"]
    assert [layer["output"] for layer in launch["layers"]] == ["conv1_q"]
    assert [item["name"] for item in launch["inputs"]] == ["conv0_q"]
    assert report["share_of_macs"] == 1 and 0 < report["cycles"] < 10_000
    (placed,) = (item for item in report["placements"] if item["layer"] and item["macs"])
    assert (placed["node"], placed["layer"]) == ("conv1_linear", "conv1_q")
    assert report["inputs"] == [{"name": "conv0_q", "shape": [1, 16, 8, 8]}]
    assert report["host"] == [] or {item["op"] for item in report["host"]} <= {
        "permute and pad",
        "permute and crop",
    }
    assert any("to_blocked" in path.name for path in (tmp_path / "dump").iterdir())


def test_truncated_model(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cut.onnx").write_bytes(DIGITS.read_bytes()[:5000])
    result = run("compile", tmp_path / "cut.onnx", "-o", tmp_path / "x.daedal")
    refuses(result, "a model must be a complete ONNX file", "export or download it again")
    assert [path.name for path in tmp_path.iterdir()] == ["cut.onnx"]


def test_float_model(run: Run, tmp_path: Path) -> None:
    result = run("compile", FLOAT, "-o", tmp_path / "x.daedal")
    refuses(result, "must be quantized to int8 (QDQ)", "'digits'", "daedal quantize")
    assert not list(tmp_path.iterdir())


def test_an_operator_that_only_the_host_has(run: Run, tmp_path: Path) -> None:
    model = onnx.load(DIGITS)
    last = model.graph.node[-1]
    last.CopyFrom(helper.make_node("Hardmax", last.input, last.output, name="winner"))
    onnx.save(model, tmp_path / "hardmax.onnx")
    status, _, err = run("compile", tmp_path / "hardmax.onnx", "-o", tmp_path / "x.daedal")
    assert status == 0, err
    placed = {item.node: item for item in Artifact.load(tmp_path / "x.daedal").placements}
    assert (placed["winner"].where, placed["winner"].why) == (
        "host",
        "the accelerator has no such operator",
    )


def test_model_that_is_not_there(run: Run, tmp_path: Path) -> None:
    result = run("compile", tmp_path / "none.onnx", "-o", tmp_path / "x.daedal")
    refuses(result, "a model must be a readable file", "none.onnx", "check the path")


def test_cut_at_an_unknown_tensor(run: Run, tmp_path: Path) -> None:
    result = run("compile", DIGITS, "-o", tmp_path / "x.daedal", "--to", "nothing_q")
    refuses(result, "a cut must name tensors that the graph computes, not 'nothing_q'")
    assert not list(tmp_path.iterdir())


def test_layer_that_does_not_fit(run: Run, tmp_path: Path) -> None:
    """Capacities that a machine can have, and no tile of this network can."""
    text = (ROOT / "variants" / "tiny.toml").read_text()
    (tmp_path / "small.toml").write_text(text.replace("wgt_bytes = 8_192", "wgt_bytes = 128"))
    status, _, err = run(
        *("compile", DIGITS, "-v", tmp_path / "small.toml", "-o", tmp_path / "x.daedal")
    )
    assert status == 2 and "Traceback" not in err and "error: " in err
    assert [path.name for path in tmp_path.iterdir()] == ["small.toml"]


def test_progress_in_a_file_is_a_line_for_each_step(run: Run, tmp_path: Path) -> None:
    _, _, err = run("compile", DIGITS, "-v", "tiny", "-o", tmp_path / "x.daedal")
    steps = err.splitlines()
    assert steps[:2] == ["reading the model", "graph passes"]
    assert len(steps) < 6
