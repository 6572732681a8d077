"""The error of each quantized tensor, against a computation of its own."""

import numpy as np
import onnx
from onnx import numpy_helper

from bench.float_network import FloatNetwork
from daedal.checking.integer_reference import run_onnxruntime
from daedal.compiler.quantization import quantize_model
from daedal.compiler.quantization.layer_errors import LayerError
from tests.compiler.quantization.float_transformers import DEPTH, TOKENS, FloatTransformer


def test_the_error_of_an_input_is_that_of_its_quantization(rng: np.random.Generator) -> None:
    net = FloatNetwork(rng)
    model = net.model(net.conv(net.input("x", (1, 3, 6, 6)), 3, 4))
    samples = rng.normal(size=(8, 3, 6, 6)).astype(np.float32)
    found: list[LayerError] = []
    result = quantize_model(model.SerializeToString(), samples, errors=found.extend)
    constants = {item.name: numpy_helper.to_array(item) for item in result.graph.initializer}
    first = next(node for node in result.graph.node if node.op_type == "QuantizeLinear")
    scale, zero = (constants[name].astype(np.float64) for name in first.input[1:])
    steps = np.clip(np.rint(samples / np.float32(scale)) + zero, -128, 127)
    noise = np.square((steps - zero) * scale - samples).mean()
    item = found[0]
    assert (item.tensor, item.op, item.bits) == ("x", "input", 8)
    np.testing.assert_allclose(item.noise, noise, rtol=1e-3)
    np.testing.assert_allclose(item.signal, np.square(samples, dtype=np.float64).mean(), rtol=1e-6)


def test_an_error_includes_those_before_it(rng: np.random.Generator) -> None:
    model = FloatTransformer(rng).encoder()
    samples = rng.normal(size=(4, TOKENS, DEPTH)).astype(np.float32)
    found: list[LayerError] = []
    result = quantize_model(model.SerializeToString(), samples, errors=found.extend)
    last = found[-1]
    assert (last.tensor, last.op, last.bits) == ("attended", "Add", 16)
    expected, real = (
        values(*item, samples) for item in ((model, "attended"), (result, "attended_dq"))
    )
    np.testing.assert_allclose(last.noise, np.square(expected - real).mean(), rtol=0.01)
    np.testing.assert_allclose(last.signal, np.square(expected).mean(), rtol=1e-4)
    assert {item.bits for item in found} == {8, 16}
    assert not {"Reshape", "Transpose"} & {item.op for item in found}


def values(model: onnx.ModelProto, tensor: str, samples: np.ndarray) -> np.ndarray:
    """Of an inner tensor."""
    model.graph.output.append(onnx.ValueInfoProto(name=tensor))
    data = model.SerializeToString()
    return np.stack([run_onnxruntime(data, {"x": x[None]})[-1] for x in samples])
