"""Small valid QDQ models, the seeds of mutations: one per form that the compiler treats apart."""

from collections.abc import Callable
from functools import cache

import numpy as np
import onnx

from bench.qdq_model import QdqModel

__all__ = ["MODEL_NAMES", "small_model"]

Rng = np.random.Generator


def _conv(
    maker: QdqModel, rng: Rng, x: str, channels: tuple[int, int], kernel: int, **attrs: object
) -> str:
    """A convolution with bias over a dequantized map of scale 0.05; float result."""
    ins, outs = channels
    group = attrs.get("group", 1)
    assert isinstance(group, int)
    w = rng.integers(-127, 128, (outs, ins // group, kernel, kernel)).astype(np.int8)
    scales = rng.uniform(0.001, 0.01, outs)
    bias = rng.integers(-1000, 1000, outs)
    weights = maker.weights(w, scales)
    pads = [kernel // 2] * 4
    return maker.op("Conv", x, weights, maker.bias(bias, 0.05 * scales), pads=pads, **attrs)


def _start(opset: int = 13, shape: tuple[int, ...] = (1, 3, 6, 5)) -> tuple[QdqModel, str]:
    maker = QdqModel(opset)
    return maker, maker.requantized(maker.input("x", ("batch", *shape[1:])), 0.05, 3)


def _chain(rng: Rng) -> onnx.ModelProto:
    """Two convolutions, ReLU and a pool between them."""
    maker, x = _start()
    y = maker.op("Relu", _conv(maker, rng, x, (3, 9), 3, strides=[2, 1]))
    y = maker.requantized(y, 0.05, -128)
    y = maker.op("MaxPool", y, kernel_shape=[2, 2], strides=[1, 1], ceil_mode=1)
    y = _conv(maker, rng, maker.requantized(y, 0.05, -128), (9, 4), 1)
    return maker.model(maker.requantized(y, 0.1, 5, output="y_q"))


def _residual(rng: Rng) -> onnx.ModelProto:
    maker, x = _start(shape=(1, 4, 5, 5))
    y = maker.requantized(_conv(maker, rng, x, (4, 4), 3), 0.04, 1)
    return maker.model(maker.requantized(maker.op("Add", x, y), 0.06, -2, output="y_q"))


def _depthwise(rng: Rng) -> onnx.ModelProto:
    maker, x = _start(shape=(1, 6, 7, 4))
    y = maker.requantized(_conv(maker, rng, x, (6, 6), 3, group=6), 0.05, 0)
    return maker.model(maker.requantized(_conv(maker, rng, y, (6, 3), 1), 0.07, 0))


def _classifier(rng: Rng) -> onnx.ModelProto:
    """uint8 activations, a global pool, Flatten, Gemm and Softmax."""
    maker = QdqModel(13)
    x = maker.requantized(maker.input("image", (1, 3, 6, 6)), 0.02, 128, "uint8")
    y = maker.requantized(_conv(maker, rng, x, (3, 5), 3), 0.05, 0, "uint8")
    y = maker.op("Flatten", maker.requantized(maker.op("GlobalAveragePool", y), 0.05, 0, "uint8"))
    w = maker.weights(rng.integers(-127, 128, (10, 5)).astype(np.int8), 0.02)
    y = maker.op("Gemm", y, w, maker.bias(rng.integers(-99, 99, 10), 0.001), transB=1)
    return maker.model(maker.op("Softmax", maker.requantized(y, 0.1, 7, "uint8"), axis=1))


def _branches(rng: Rng) -> onnx.ModelProto:
    """Two branches that meet in a Concat; moves with constant operands around it."""
    maker, x = _start(shape=(1, 8, 4, 4))
    a = maker.requantized(_conv(maker, rng, x, (8, 8), 1), 0.05, 0)
    b = maker.requantized(_conv(maker, rng, x, (8, 16), 3), 0.05, 0)
    y = maker.requantized(maker.op("Concat", a, b, axis=1), 0.05, 0)
    numbers = [maker.constant(np.array(item, np.int64)) for item in ([0], [8], [1])]
    y = maker.requantized(maker.op("Slice", y, *numbers), 0.05, 0)
    pads = maker.constant(np.array([0, 0, 1, 0, 0, 0, 0, 1], np.int64))
    y = maker.requantized(maker.op("Pad", y, pads), 0.05, 0)
    y = maker.op("Transpose", y, perm=[0, 2, 3, 1])
    return maker.model(maker.op("Reshape", y, maker.constant(np.array([-1, 8], np.int64))))


def _island(rng: Rng) -> onnx.ModelProto:
    """Operators of the host between two layers of the accelerator, and a second output."""
    maker, x = _start(shape=(1, 4, 3, 3))
    y = maker.dequantize(maker.quantize(_conv(maker, rng, x, (4, 4), 1), 0.05, 0), 0.05, 0)
    host = maker.op("Exp", maker.op("Neg", y))
    low = maker.op("Constant", value=onnx.numpy_helper.from_array(np.float32(0.1)))
    host = maker.requantized(maker.op("Clip", host, low), 0.05, -128)
    y = maker.requantized(_conv(maker, rng, host, (4, 2), 3), 0.1, 0)
    return maker.model(y, maker.op("Identity", host))


def _products(rng: Rng) -> onnx.ModelProto:
    """A dense layer by MatMul with Add, and a product of two computed matrices."""
    maker = QdqModel(21)
    x = maker.requantized(maker.input("x", (6, 8)), 0.05, 0)
    w = maker.weights(rng.integers(-127, 128, (8, 8)).astype(np.int8), 0.01)
    y = maker.requantized(maker.op("MatMul", x, w), 0.05, 0)
    y = maker.op("MatMul", y, maker.op("Transpose", x, perm=[1, 0]))
    return maker.model(maker.requantized(y, 0.2, 0))


_MAKERS: dict[str, Callable[[Rng], onnx.ModelProto]] = {
    "branches": _branches,
    "chain": _chain,
    "classifier": _classifier,
    "depthwise": _depthwise,
    "island": _island,
    "products": _products,
    "residual": _residual,
}

MODEL_NAMES = tuple(_MAKERS)


@cache
def small_model(name: str) -> bytes:
    """The serialized model `name`; always the same bytes."""
    rng = np.random.default_rng(MODEL_NAMES.index(name))
    return bytes(_MAKERS[name](rng).SerializeToString(deterministic=True))
