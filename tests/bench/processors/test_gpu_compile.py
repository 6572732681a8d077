"""`bench/processors/gpu_compile.py` on a model of two kernels."""

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from bench.processors import gpu_compile


def two_kernels() -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("ReduceSum", ["x"], ["sum"]),
            helper.make_node("Transpose", ["x"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [
            helper.make_tensor_value_info("sum", TensorProto.FLOAT, [1, 1]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 4]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_network_is_compiled_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One whose file is missing is named; the status is that of the slowest."""
    path = tmp_path / "rows.json"
    monkeypatch.setattr(gpu_compile, "MODELS", {"two": two_kernels, "none": _missing})
    monkeypatch.setattr(gpu_compile, "find_ptxas", lambda: None)
    assert gpu_compile.main(["two", "none", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    (row,) = found["rows"]
    assert (row["kernels"], row["launches"], row["on_processor"]) == (2, 2, [])
    assert row["seconds"] > 0 and row["ptxas_seconds"] is None
    said = capsys.readouterr().out
    assert "none is left out: away.onnx is missing" in said
    monkeypatch.setattr(gpu_compile, "MOST_SECONDS", 0.0)
    assert gpu_compile.main(["two"]) == 1


def _missing() -> onnx.ModelProto:
    raise FileNotFoundError(2, "no such file", "away.onnx")


def test_seconds_of_a_kernel_are_those_of_ptxas_too() -> None:
    row = gpu_compile.CompileRow("n", 4, 9, (), 1.0, 0.1, 0.5)
    assert row.kernel_seconds == 0.375 and row.passed


def test_unknown_networks_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        gpu_compile.main(["lenet"])
    assert ended.value.code == 2
    assert "networks must be some of resnet50" in capsys.readouterr().err
