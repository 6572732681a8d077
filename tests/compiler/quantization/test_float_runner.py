"""Float runs of networks with operators that onnxruntime is not asked for."""

import numpy as np

from daedal.compiler.quantization.calibration.float_runner import make_runner
from daedal.compiler.quantization.network import Network
from tests.compiler.graph.qdq_models import QdqModel


def test_sums_of_integer_products_run_in_the_reference_evaluator():
    """A network whose float layers surround such an operator can be quantized nonetheless."""
    maker = QdqModel(opset=15)
    x = maker.input("x", (1, 2))
    integers = maker.op("Cast", x, to=2)
    weights = maker.constant(np.array([[127], [127]], dtype=np.uint8))
    maker.op("MatMulInteger", integers, weights, output="sums")
    maker.op("Cast", "sums", to=1, output="y")
    run = make_runner(Network(maker.model("y")), ["x", "sums", "y"])
    found = run({"x": np.array([[255, 254]], dtype=np.float32)})
    assert list(found) == ["x", "sums", "y"]
    assert found["sums"].item() == found["y"].item() == (255 + 254) * 127
