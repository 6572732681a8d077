"""Quantized networks: made once, kept, and made again where the recipe is another one."""

from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import bench.zoo.quantized
from bench.zoo.networks import NETWORKS
from bench.zoo.quantized import quantized

pytest.importorskip("onnxruntime", reason="networks are calibrated with onnxruntime")


def unbuildable(_rng: object) -> onnx.ModelProto:
    raise AssertionError("the kept model was there")


def test_a_network_is_quantized_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    network = NETWORKS["squeezenet"]
    data = quantized(network, tmp_path / "kept", report=said.append)
    assert said == ["building and quantizing SqueezeNet"]
    operators = {node.op_type for node in onnx.load_from_string(data).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv", "Concat"} <= operators
    without_source = replace(network, structure=unbuildable)
    assert quantized(without_source, tmp_path / "kept") == data
    monkeypatch.setattr(bench.zoo.quantized, "TOOLS", ("numpy",))
    with pytest.raises(AssertionError, match="the kept model"):
        quantized(without_source, tmp_path / "kept")
