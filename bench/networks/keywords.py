"""Keyword transformers with seeded weights: cycles do not depend on the weights.

Source: Berg, O'Connor, Cruz, "Keyword Transformer: A Self-Attention Model for Keyword Spotting"
(Interspeech 2021), table 1, and section 2.1: the norms come after the sums, and heads have 64
channels. The spectrogram has one token for each of its columns, and a token of the class.
"""

from dataclasses import dataclass

import numpy as np
import onnx

from bench.float_network import FloatNetwork

__all__ = [
    "COEFFICIENTS",
    "KWT1",
    "KWT2",
    "KWT3",
    "TOKENS",
    "KeywordTransformer",
    "keyword_transformer",
]

TOKENS = 98
"""Columns of the spectrogram; the token of the class is one more."""
COEFFICIENTS = 40
CLASSES = 35
WIDTH = 64
"""Channels of a head."""
EPSILON = 1e-5


@dataclass(frozen=True)
class KeywordTransformer:
    """Channels of a token, of an MLP's inner layer, and the number of layers."""

    name: str
    channels: int
    inner: int
    layers: int = 12


KWT1 = KeywordTransformer("kwt1", 64, 256)
KWT2 = KeywordTransformer("kwt2", 128, 512)
KWT3 = KeywordTransformer("kwt3", 192, 768)


def keyword_transformer(rng: np.random.Generator, shape: KeywordTransformer) -> onnx.ModelProto:
    """`spectrogram` (1, TOKENS, COEFFICIENTS) float32 to `logits` (1, CLASSES) float32."""
    return _Network(rng, shape).built()


class _Network(FloatNetwork):
    """Collects the nodes; every method returns the name of its result."""

    def __init__(self, rng: np.random.Generator, shape: KeywordTransformer) -> None:
        super().__init__(rng, 17)
        self._shape = shape

    def built(self) -> onnx.ModelProto:
        channels = self._shape.channels
        x = self._dense(
            self.input("spectrogram", (1, TOKENS, COEFFICIENTS)), COEFFICIENTS, channels
        )
        x = self.op("Concat", self.normal(1, 1, channels), x, axis=1)
        x = self.op("Add", x, self.normal(1, TOKENS + 1, channels, scale=0.1))
        for _ in range(self._shape.layers):
            x = self._norm(self.op("Add", x, self._attention(x)))
            x = self._norm(self.op("Add", x, self._mlp(x)))
        first = self.op("Gather", x, self.constant(np.array(0)), axis=1)
        return self.model(self._dense(first, channels, CLASSES, output="logits"))

    def _attention(self, x: str) -> str:
        channels = self._shape.channels
        query, key, value = (
            self._heads(self._dense(x, channels, channels), perm)
            for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        )
        factor = self.constant(np.array(WIDTH**-0.5, dtype=np.float32))
        scores = self.op("Mul", self.op("MatMul", query, key), factor)
        mean = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        tokens = self.op("Transpose", mean, perm=[0, 2, 1, 3])
        return self._dense(self._reshaped(tokens, 1, TOKENS + 1, channels), channels, channels)

    def _mlp(self, x: str) -> str:
        channels, inner = self._shape.channels, self._shape.inner
        y = self._dense(x, channels, inner)
        root, one, half = (
            self.constant(np.array(number, dtype=np.float32)) for number in (2**0.5, 1, 0.5)
        )
        line = self.op("Add", self.op("Erf", self.op("Div", y, root)), one)
        gelu = self.op("Mul", self.op("Mul", y, line), half)
        return self._dense(gelu, inner, channels)

    def _heads(self, x: str, perm: list[int]) -> str:
        heads = self._shape.channels // WIDTH
        return self.op("Transpose", self._reshaped(x, 1, TOKENS + 1, heads, WIDTH), perm=perm)

    def _dense(self, x: str, inner: int, outer: int, output: str | None = None) -> str:
        product = self.op("MatMul", x, self.normal(inner, outer, scale=inner**-0.5))
        return self.op("Add", product, self.normal(outer, scale=0.1), output=output)

    def _norm(self, x: str) -> str:
        channels = self._shape.channels
        gain = self.constant(np.ones(channels, dtype=np.float32))
        shift = self.constant(np.zeros(channels, dtype=np.float32))
        return self.op("LayerNormalization", x, gain, shift, axis=-1, epsilon=EPSILON)

    def _reshaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(np.array(shape, dtype=np.int64)))
