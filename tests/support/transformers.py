"""One block of a transformer with seeded weights, as float model and with QDQ written by hand."""

import numpy as np
import onnx

from bench.qdq_model import QdqModel

__all__ = ["DEPTH", "attention_block", "token_feeds"]

DEPTH = 32
HEADS = 2


def token_feeds(rng: np.random.Generator, tokens: int, count: int) -> list[dict[str, np.ndarray]]:
    """Inputs of `attention_block`."""
    shape = (1, tokens, DEPTH)
    return [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(count)]


class _Block(QdqModel):
    """Collects a model; `scale` is that of a quantized tensor, None in a float model."""

    def __init__(self, rng: np.random.Generator, quantized: str) -> None:
        super().__init__(17)
        self.rng = rng
        self.quantized = quantized

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def between(self, x: str, scale: float) -> str:
        """Quantized, where all operators are."""
        return self.requantized(x, scale, 3) if self.quantized == "all" else x

    def product(self, a: str, b: str, scales: tuple[float, float, float]) -> str:
        """A matrix product, with Q and DQ nodes around it in both quantized forms."""
        if not self.quantized:
            return self.op("MatMul", a, b)
        first = self.requantized(a, scales[0], -2)
        second = self.requantized(b, scales[1], 5)
        return self.requantized(self.op("MatMul", first, second), scales[2], 1)

    def dense(self, x: str, inputs: int, outputs: int, scale: float) -> str:
        weights = self.rng.normal(size=(inputs, outputs)) / np.sqrt(inputs)
        if not self.quantized:
            y = self.op("MatMul", x, self.constant(weights.astype(np.float32)))
        else:
            integers = np.clip(np.rint(weights * 200), -127, 127).astype(np.int8)
            quantized = self.weights(integers, 1 / 200)
            y = self.op("MatMul", self.requantized(x, 0.03, 0), quantized)
            y = self.requantized(y, scale, 4)
        bias = self.rng.normal(size=outputs) * 0.1
        return self.between(self.op("Add", y, self.constant(bias.astype(np.float32))), scale)

    def reshaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(np.array(shape, dtype=np.int64)))

    def norm(self, x: str) -> str:
        gain, shift = (
            self.constant(self.rng.normal(size=DEPTH).astype(np.float32)) for _ in range(2)
        )
        return self.between(self.op("LayerNormalization", x, gain, shift, axis=-1), 0.03)


def attention_block(rng: np.random.Generator, tokens: int, quantized: str = "") -> onnx.ModelProto:
    """The attention block of a vision transformer, with two heads, and a classifier that reads the
    first token.

    `quantized` is "" for a float model, "all" for Q and DQ nodes around all operators, "products"
    for those around matrix products only.
    """
    it = _Block(rng, quantized)
    x = it.input("x", (1, tokens, DEPTH))
    parts = it.dense(it.norm(x), DEPTH, 3 * DEPTH, 0.03)
    names = [f"{role}_part" for role in ("query", "key", "value")]
    it.nodes.append(onnx.helper.make_node("Split", [parts], names, name="parts/Split", axis=2))
    width = DEPTH // HEADS
    query, key, value = (
        it.op("Transpose", it.reshaped(name, 1, tokens, HEADS, width), perm=perm)
        for name, perm in zip(names, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    scores = it.product(query, key, (0.03, 0.03, 0.3))
    scores = it.between(it.op("Mul", scores, it.number(width**-0.5)), 0.08)
    weights = it.between(it.op("Softmax", scores, axis=-1), 1 / 128)
    y = it.product(weights, value, (1 / 128, 0.03, 0.03))
    y = it.op("Transpose", y, perm=[0, 2, 1, 3])
    y = it.dense(it.reshaped(y, 1, tokens, DEPTH), DEPTH, DEPTH, 0.03)
    x = it.between(it.op("Add", x, y), 0.05)
    first = it.op("Gather", x, it.constant(np.int64(0)), axis=1)
    return it.model(it.dense(first, DEPTH, 10, 0.05))
