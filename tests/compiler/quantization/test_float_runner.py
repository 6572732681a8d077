"""Float runs of networks, in the reference evaluator and as machine code."""

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.graph.graph import Array
from daedal.compiler.quantization.calibration.float_runner import OpenModel, evaluate, make_runner
from daedal.compiler.quantization.float_model import read_float_model
from daedal.quantization import open_compiled


@pytest.mark.parametrize("open_model", [evaluate, open_compiled])
def test_sums_of_integer_products_run(open_model: OpenModel) -> None:
    """A network whose float layers surround such an operator can be quantized."""
    maker = QdqModel(opset=15)
    x = maker.input("x", (1, 2))
    integers = maker.op("Cast", x, to=2)
    weights = maker.constant(np.array([[127], [127]], dtype=np.uint8))
    maker.op("MatMulInteger", integers, weights, output="sums")
    maker.op("Cast", "sums", to=1, output="y")
    run = make_runner(read_float_model(maker.model("y")), ["x", "sums", "y"], open_model)
    found = run({"x": np.array([[255, 254]], dtype=np.float32)})
    assert list(found) == ["x", "sums", "y"]
    assert found["sums"].item() == found["y"].item() == (255 + 254) * 127


@pytest.mark.parametrize("open_model", [evaluate, open_compiled])
def test_an_old_batch_norm_is_that_of_inference(open_model: OpenModel) -> None:
    """The reference evaluator trains those below opset 14."""
    maker = QdqModel(opset=13)
    ones = [maker.constant(np.full(2, value, np.float32)) for value in (1, 0, 3, 1)]
    maker.op("BatchNormalization", maker.input("x", (1, 2)), *ones, output="y")
    run = make_runner(read_float_model(maker.model("y")), ["y"], open_model)
    found = run({"x": np.array([[4, 5]], np.float32)})["y"]
    np.testing.assert_allclose(found, [[1, 2]], rtol=1e-4)


def test_an_opened_model_gives_every_tensor_once() -> None:
    """Its own outputs are not observed again, and inputs need no run."""
    maker = QdqModel()
    inner = maker.op("Relu", maker.input("x", (1, 2)), output="inner")
    maker.op("Neg", inner, output="y")
    opened = []

    def open_model(model: onnx.ModelProto) -> Callable[..., Mapping[str, Array]]:
        opened.append([item.name for item in model.graph.output])
        return evaluate(model)

    run = make_runner(read_float_model(maker.model("y")), ["y", "x", "inner"], open_model)
    assert opened == [["y", "inner"]]
    found = run({"x": np.array([[-2, 3]], np.float32)})
    assert {name: value.tolist() for name, value in found.items()} == {
        "y": [[0, -3]],
        "x": [[-2, 3]],
        "inner": [[0, 3]],
    }
