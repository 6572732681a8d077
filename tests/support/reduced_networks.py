"""Networks of the zoo with fewer channels and a smaller map, and a small MiniLM-L6: every operator
and every layer in its place, in sizes that an emulator runs."""

import numpy as np
import onnx
from onnx import numpy_helper

from bench.zoo.builder import IMAGE
from bench.zoo.images import images
from bench.zoo.light import light
from bench.zoo.settle import settle
from bench.zoo.shape_model import ShapeModel
from bench.zoo.weights import Role

__all__ = ["image", "minilm", "reduced", "sentences"]

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
LAYERS, HEADS, WIDTH, LENGTH, WORDS = 6, 12, 48, 16, 60
"""MiniLM-L6 has 384 instead of 48 features. Source: arXiv:2002.10957, table 1."""
SEED = 6
COLOURS = 3


def reduced(name: str, factor: int, size: int) -> onnx.ModelProto:
    """Network `name` of `bench.zoo.light` with a `factor` of its channels and classes, on images
    of `size` by `size`; its last pool is of the whole map, whatever that is."""
    rng = np.random.default_rng(SEED)
    model = light(name)(rng)
    graph = model.graph
    for tensor in graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(_fewer(tensor, factor), tensor.name))
    for node in graph.node:
        if node.op_type == "AveragePool":
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]
    _, _, *sides = graph.input[0].type.tensor_type.shape.dim
    for side in sides:
        side.dim_value = size
    graph.output[0].type.tensor_type.shape.dim[1].dim_value //= factor
    del graph.value_info[:]
    return settle(model, images(rng, 4)[:, :, :size, :size])


def image(size: int) -> dict[str, np.ndarray]:
    """An input of a reduced network."""
    return {IMAGE: images(np.random.default_rng(1), 1)[:, :, :size, :size]}


def _fewer(tensor: onnx.TensorProto, factor: int) -> np.ndarray:
    """A constant with fewer channels; a shape keeps the batch alone."""
    value = numpy_helper.to_array(tensor)
    if value.dtype == np.int64:
        return np.array([value[0], -1])
    value = value[: len(value) // factor]
    if value.ndim > 1 and value.shape[1] != COLOURS:
        value = value[:, : value.shape[1] // factor] * np.float32(np.sqrt(factor))
    return np.ascontiguousarray(value)


def minilm() -> onnx.ModelProto:
    """Sentences to vectors of length 1: an encoder of six layers, and the mean over its words."""
    rng = np.random.default_rng(SEED)
    net = ShapeModel(rng)

    def table(name: str, rows: int) -> str:
        return net.constant(name, rng.standard_normal((rows, WIDTH)).astype(np.float32))

    def norm(x: str) -> str:
        weights = net.weight(WIDTH, role=Role.GAIN), net.weight(WIDTH, role=Role.BIAS)
        return net.new("LayerNormalization", x, *weights, axis=-1)

    def heads(x: str, order: list[int]) -> str:
        shape = net.ints(0, LENGTH, HEADS, WIDTH // HEADS)
        return net.new(
            "Transpose", net.new("Reshape", net.dense(x, WIDTH, WIDTH), shape), perm=order
        )

    words = net.new("Gather", table("words", WORDS), "tokens", axis=0)
    x = norm(net.new("Add", words, table("places", LENGTH)))
    mask = net.new("Cast", "mask", to=FLOAT)
    hidden = net.new("Mul", net.new("Sub", net.number(1), mask), net.number(-1e4))
    hidden = net.new("Unsqueeze", hidden, net.ints(1, 2))
    for _ in range(LAYERS):
        q, k, v = heads(x, [0, 2, 1, 3]), heads(x, [0, 2, 3, 1]), heads(x, [0, 2, 1, 3])
        scores = net.new("Div", net.new("MatMul", q, k), net.number((WIDTH / HEADS) ** 0.5))
        weights = net.new("Softmax", net.new("Add", scores, hidden), axis=-1)
        mixed = net.new("Transpose", net.new("MatMul", weights, v), perm=[0, 2, 1, 3])
        mixed = net.dense(net.new("Reshape", mixed, net.ints(0, 0, -1)), WIDTH, WIDTH)
        x = norm(net.new("Add", x, mixed))
        y = net.dense(x, WIDTH, 4 * WIDTH)
        bell = net.new("Add", net.new("Erf", net.new("Div", y, net.number(2**0.5))), net.number(1))
        y = net.new("Mul", net.new("Mul", y, bell), net.number(0.5))
        x = norm(net.new("Add", x, net.dense(y, 4 * WIDTH, WIDTH)))
    mask = net.new("Unsqueeze", mask, net.ints(2))
    total = net.new("ReduceSum", net.new("Mul", x, mask), net.ints(1), keepdims=0)
    mean = net.new("Div", total, net.new("ReduceSum", mask, net.ints(1), keepdims=0))
    size = net.new("ReduceL2", mean, axes=[1], keepdims=1)
    inputs = {"tokens": (INT64, (2, LENGTH)), "mask": (INT64, (2, LENGTH))}
    return net.finish(inputs, [net.new("Div", mean, size)])


def sentences() -> dict[str, np.ndarray]:
    """Two inputs of `minilm`, one of them shorter."""
    tokens = np.random.default_rng(1).integers(0, WORDS, (2, LENGTH))
    mask = (np.arange(LENGTH) < np.array([[LENGTH], [LENGTH - 5]])).astype(np.int64)
    return {"tokens": tokens, "mask": mask}
