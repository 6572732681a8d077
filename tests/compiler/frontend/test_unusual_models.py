"""Valid models with unusual parameters run: on the accelerator where they can, else on the host."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import daedal
from bench.qdq_model import QdqModel
from daedal.common.onnx_evaluator import evaluator_of
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run

SHAPE = (1, 16, 5, 5)


def quantized(it: QdqModel, x: str, scale: float) -> str:
    return it.requantized(x, scale, 0)


def conv(it: QdqModel, x: str, scales: object = 0.01) -> str:
    rng = np.random.default_rng(0)
    weights = it.weights(rng.integers(-127, 128, (16, 16, 3, 3)).astype(np.int8), scales)
    return it.op("Conv", x, weights, pads=[1] * 4)


def output_dtype(kind: int) -> Callable[[QdqModel, str], str]:
    def build(it: QdqModel, x: str) -> str:
        scale = it.constant(np.float32(0.1))
        q = it.op("QuantizeLinear", x, scale, output_dtype=kind)
        return conv(it, it.op("DequantizeLinear", q, scale))

    return build


def dead_channel(it: QdqModel, x: str) -> str:
    return conv(it, x, np.r_[0, np.full(15, 0.01)])


def dead_channel_with_bias(it: QdqModel, x: str) -> str:
    rng, scales = np.random.default_rng(0), np.r_[np.full(15, 0.01), 0]
    weights = it.weights(rng.integers(-127, 128, (16, 16, 3, 3)).astype(np.int8), scales)
    bias = it.bias(rng.integers(-900, 900, 16), 0.3 * scales)
    return it.op("Conv", x, weights, bias, pads=[1] * 4)


def no_weights(it: QdqModel, x: str) -> str:
    return conv(it, x, 0.0)


def crossed_bounds(it: QdqModel, x: str) -> str:
    bounds = (it.constant(np.float32(value)) for value in (3, 1))
    return it.op("Clip", conv(it, x), *bounds)


def clipped_weights(it: QdqModel, x: str) -> str:
    values = np.random.default_rng(0).normal(size=(16, 16, 3, 3)).astype(np.float32)
    scale, zero = it.constant(np.float32(0.01)), it.constant(np.int8(0))
    q = it.op("QuantizeLinear", it.constant(values), scale, zero)
    clipped = it.op("Clip", q, it.constant(np.int8(-127)), it.constant(np.int8(127)))
    return it.op("Conv", x, it.op("DequantizeLinear", clipped, scale, zero), pads=[1] * 4)


def narrow_weights(it: QdqModel, x: str) -> str:
    integers = np.random.default_rng(0).integers(-8, 8, 16 * 16 * 9).tolist()
    it.initializers.append(helper.make_tensor("narrow", TensorProto.INT4, (16, 16, 3, 3), integers))
    weights = it.op("DequantizeLinear", "narrow", it.constant(np.float32(0.1)))
    return it.op("Conv", x, weights, pads=[1] * 4)


def wide_factor(it: QdqModel, x: str) -> str:
    return it.op("Mul", x, it.op("Cast", it.constant(np.float64(0.5)), to=TensorProto.FLOAT))


def wide_bound(it: QdqModel, x: str) -> str:
    low = it.op("Cast", it.constant(np.float64(0)), to=TensorProto.FLOAT)
    return it.op("Clip", conv(it, x), low, it.constant(np.float32(6)))


def no_number(it: QdqModel, x: str) -> str:
    return it.op("Clip", conv(it, x), it.constant(np.float32(np.nan)))


def negative_scale(it: QdqModel, x: str) -> str:
    return conv(it, quantized(it, x, -0.5))


def model_of(build: Callable[[QdqModel, str], str]) -> onnx.ModelProto:
    it = QdqModel(opset=21)
    x = quantized(it, conv(it, quantized(it, it.input("x", SHAPE), 0.05)), 0.3)
    return it.model(quantized(it, build(it, x), 0.5))


ON_ACCELERATOR = {
    "output_dtype": output_dtype(TensorProto.INT8),
    "output_dtype, unsigned": output_dtype(TensorProto.UINT8),
    "dead channel": dead_channel,
    "dead channel with a bias": dead_channel_with_bias,
    "narrow weights": narrow_weights,
    "no weights": no_weights,
    "wide bound": wide_bound,
    "wide factor": wide_factor,
    "crossed bounds": crossed_bounds,
    "clipped weights": clipped_weights,
}
ON_HOST = {
    "uint16": output_dtype(TensorProto.UINT16),
    "int4": output_dtype(TensorProto.INT4),
    "no number": no_number,
    "negative scale": negative_scale,
}


@pytest.mark.parametrize("build", ON_ACCELERATOR.values(), ids=ON_ACCELERATOR)
def test_what_is_unusual_is_imported(build: Callable[[QdqModel, str], str]) -> None:
    """As operators of the graph, whose interpreter gives what ONNX does to a step."""
    model = model_of(build)
    graph = load_onnx(model.SerializeToString())
    assert "onnx" not in {node.op for node in graph.nodes}
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    (wanted,) = evaluator_of(model).run(None, {"x": x})
    (found,) = run(graph, {"x": x}).values()
    np.testing.assert_allclose(found, wanted, atol=0.51)


@pytest.mark.parametrize("build", ON_HOST.values(), ids=ON_HOST)
def test_what_no_importer_takes_runs_on_the_host(build: Callable[[QdqModel, str], str]) -> None:
    artifact = daedal.compile(model_of(build).SerializeToString(), "vta", host=None)
    assert len(artifact.launches) == 1
    x = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    (found,) = daedal.simulate(artifact, {"x": x}).outputs.values()
    assert found.shape == SHAPE
