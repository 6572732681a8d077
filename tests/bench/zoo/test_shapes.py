"""Networks by shape compile whole for processors, and agree with onnxruntime."""

import onnx
import pytest

from bench.processors.network_shapes import measure
from bench.zoo.shapes import SHAPES, NetworkShape

pytest.importorskip("onnxruntime", reason="results are compared with onnxruntime's")

_HAS = {
    "yolo": {"Sigmoid", "Split", "Concat", "Resize", "MaxPool"},
    "unet": {"ConvTranspose", "Concat", "BatchNormalization"},
    "efficientnet": {"GlobalAveragePool", "Sigmoid", "Conv", "Gemm"},
    "audio": {"Conv", "Log", "GRU"},
    "tagger": {"Gather", "LSTM", "Gemm"},
    "encoder": {"LayerNormalization", "MatMul", "Softmax", "Erf"},
}


@pytest.mark.parametrize("network", SHAPES.values(), ids=SHAPES)
def test_network_compiles_whole_and_agrees(
    network: NetworkShape, capsys: pytest.CaptureFixture[str]
) -> None:
    model = network.build()
    onnx.checker.check_model(model, full_check=True)
    assert {node.op_type for node in model.graph.node} >= _HAS[network.name]
    row = measure(network)
    with capsys.disabled():
        print(f"\n{row.name}: {row.num_nodes} nodes, compiled in {row.compile_s:.2f} s")
    assert 20 <= row.num_nodes <= 60
    assert row.interpreted == ()
    assert row.passed, f"{row.difference:.2g}"
