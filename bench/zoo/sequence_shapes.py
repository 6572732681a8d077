"""Small networks on sequences, with seeded weights: audio, a tagger, a transformer's encoder."""

import numpy as np
import onnx

from bench.zoo.shape_model import ShapeModel
from bench.zoo.weights import Role

__all__ = ["audio", "encoder", "tagger"]

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
HEADS, WIDTH, LENGTH = 4, 32, 17


def _recurrent(
    net: ShapeModel, kind: str, x: str, gates: int, depth: int, hidden: int
) -> tuple[str, str]:
    """A bidirectional layer on (steps, batch, depth): (steps, batch, 2 hidden), and last states."""
    weights = [
        net.weight(2, gates * hidden, depth),
        net.weight(2, gates * hidden, hidden),
        net.weight(2, 2 * gates * hidden, role=Role.BIAS),
    ]
    y, last = net.several(kind, 2, x, *weights, hidden_size=hidden, direction="bidirectional")
    y = net.new("Transpose", y, perm=[0, 2, 1, 3])
    return net.new("Reshape", y, net.ints(0, 0, -1)), last


def audio(rng: np.random.Generator) -> onnx.ModelProto:
    """Power of two 1-d convolutions, bands, their logarithms, 1-d convolutions and a GRU."""
    net = ShapeModel(rng)
    frames = {"kernel_shape": [64], "strides": [32]}
    parts = [net.new("Conv", "wave", net.weight(24, 1, 64), **frames) for _ in range(2)]
    power = net.new("Add", *(net.new("Mul", part, part) for part in parts))
    bands = net.constant("bands", rng.uniform(0, 0.1, (16, 24, 1)).astype(np.float32))
    x = net.new("Conv", power, bands, kernel_shape=[1])
    x = net.new("Log", net.new("Add", x, net.number(0.1)))
    mean = net.new("ReduceMean", x, axes=[2], keepdims=1)
    x = net.new("Sub", x, mean)
    for ins, outs, stride, group in ((16, 16, 1, 16), (16, 24, 2, 1), (24, 24, 1, 24)):
        x = net.new(
            "Conv", x, net.weight(outs, ins // group, 3), net.weight(outs, role=Role.BIAS),
            kernel_shape=[3], strides=[stride], pads=[1, 1], group=group,
        )  # fmt: skip
        x = net.new("Relu", x)
    x = net.new("Transpose", x, perm=[2, 0, 1])
    x, last = _recurrent(net, "GRU", x, 3, 24, 12)
    scores = net.new("LogSoftmax", net.dense(x, 24, 9), axis=-1)
    return net.finish({"wave": (FLOAT, (1, 1, 2000))}, [scores, last])


def tagger(rng: np.random.Generator) -> onnx.ModelProto:
    """Embeddings, two bidirectional LSTMs, and Gemm; padding (token 0) is masked."""
    net = ShapeModel(rng)
    table = net.constant("embeddings", rng.standard_normal((50, 20)).astype(np.float32))
    mask = net.new("Not", net.new("Equal", "tokens", net.ints(0)))
    mask = net.new("Unsqueeze", net.new("Cast", mask, to=FLOAT), net.ints(2))
    x = net.new("Mul", net.new("Gather", table, "tokens", axis=0), mask)
    x = net.new("Transpose", x, perm=[1, 0, 2])
    x, _ = _recurrent(net, "LSTM", x, 4, 20, 12)
    x, last = _recurrent(net, "LSTM", x, 4, 24, 12)
    x = net.new("Transpose", x, perm=[1, 0, 2])
    x = net.new("Tanh", net.dense(x, 24, 24))
    rows = net.new("Reshape", x, net.ints(-1, 24))
    scores = net.new("Gemm", rows, net.weight(7, 24), net.weight(7), transB=1)
    scores = net.new("Softmax", net.new("Reshape", scores, net.ints(2, LENGTH, 7)), axis=-1)
    return net.finish({"tokens": (INT64, (2, LENGTH))}, [scores, last])


def _split_heads(net: ShapeModel, x: str, order: list[int]) -> str:
    shape = net.ints(0, LENGTH, HEADS, WIDTH // HEADS)
    return net.new("Transpose", net.new("Reshape", x, shape), perm=order)


def _norm(net: ShapeModel, x: str) -> str:
    weights = net.weight(WIDTH, role=Role.GAIN), net.weight(WIDTH, role=Role.BIAS)
    return net.new("LayerNormalization", x, *weights, axis=-1)


def _written_norm(net: ShapeModel, x: str) -> str:
    """Layer normalization as exporters write it below opset 17."""
    centred = net.new("Sub", x, net.new("ReduceMean", x, axes=[-1], keepdims=1))
    square = net.new("Pow", centred, net.number(2))
    variance = net.new("ReduceMean", square, axes=[-1], keepdims=1)
    deviation = net.new("Sqrt", net.new("Add", variance, net.number(1e-5)))
    scaled = net.new("Mul", net.new("Div", centred, deviation), net.weight(WIDTH, role=Role.GAIN))
    return net.new("Add", scaled, net.weight(WIDTH, role=Role.BIAS))


def encoder(rng: np.random.Generator) -> onnx.ModelProto:
    """One layer of attention and a GELU of Erf. Source: arXiv:1706.03762, section 3."""
    net = ShapeModel(rng)
    table = net.constant("embeddings", rng.standard_normal((60, WIDTH)).astype(np.float32))
    places = net.constant("places", rng.standard_normal((LENGTH, WIDTH)).astype(np.float32))
    x = _norm(net, net.new("Add", net.new("Gather", table, "tokens", axis=0), places))
    joined = net.dense(x, WIDTH, 3 * WIDTH)
    q, k, v = net.several("Split", 3, joined, net.ints(WIDTH, WIDTH, WIDTH), axis=-1)
    scores = net.new(
        "MatMul", _split_heads(net, q, [0, 2, 1, 3]), _split_heads(net, k, [0, 2, 3, 1])
    )
    scores = net.new("Div", scores, net.number((WIDTH / HEADS) ** 0.5))
    mixed = net.new(
        "MatMul", net.new("Softmax", scores, axis=-1), _split_heads(net, v, [0, 2, 1, 3])
    )
    mixed = net.new("Transpose", mixed, perm=[0, 2, 1, 3])
    mixed = net.dense(net.new("Reshape", mixed, net.ints(0, 0, -1)), WIDTH, WIDTH)
    x = _written_norm(net, net.new("Add", x, mixed))
    y = net.dense(x, WIDTH, 2 * WIDTH)
    bell = net.new("Add", net.new("Erf", net.new("Div", y, net.number(2**0.5))), net.number(1))
    y = net.new("Mul", net.new("Mul", y, bell), net.number(0.5))
    x = _norm(net, net.new("Add", x, net.dense(y, 2 * WIDTH, WIDTH)))
    pooled = net.new("Tanh", net.dense(net.new("Gather", x, net.ints(0), axis=1), WIDTH, WIDTH))
    return net.finish({"tokens": (INT64, (2, LENGTH))}, [x, pooled])
