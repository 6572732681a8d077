"""Quantized attention layers of all forms: heads, groups of heads, fused projections."""

from dataclasses import dataclass

import numpy as np
import onnx

from bench.qdq_model import QdqModel

__all__ = ["Heads", "attention_layer"]


@dataclass(frozen=True)
class Heads:
    """Parameters of a layer.

    Parameters
    ----------
    queries, keys : number of heads; several heads of the queries share one of the keys and values.
    width : channels of a head.
    fused : whether one projection makes queries, keys and values, which are then split.
    repeated : whether shared heads are repeated. Otherwise the queries that share one are rows of
        one product.
    softmax : whether there is a softmax between the products, which the host computes.
    attention : whether there is one, and nothing is quantized between the products.
    causal : whether a mask hides later tokens from it.
    """

    tokens: int = 32
    queries: int = 2
    keys: int = 2
    width: int = 16
    depth: int = 48
    fused: bool = False
    repeated: bool = False
    softmax: bool = False
    attention: bool = False
    causal: bool = False
    probability_zero: int = 0


class _Layer(QdqModel):
    def __init__(self, rng: np.random.Generator, heads: Heads) -> None:
        super().__init__(17)
        self.rng = rng
        self.heads = heads

    def projection(self, x: str, inputs: int, outputs: int, scale: float, zero: int) -> str:
        """A dense layer with scales per channel and a bias."""
        weights = self.rng.integers(-127, 128, (inputs, outputs)).astype(np.int8)
        scales = self.rng.uniform(0.5, 1.5, outputs) / 73 / np.sqrt(inputs)
        w = self.weights(weights, scales.astype(np.float32), axis=1)
        bias = self.rng.normal(size=outputs).astype(np.float32) * 0.3
        y = self.op("Add", self.op("MatMul", x, w), self.constant(bias))
        return self.requantized(y, scale, zero)

    def split(self, x: str, count: int) -> str:
        """(1, tokens, heads * width) as (1, heads, tokens, width)."""
        return self.moved(x, (1, self.heads.tokens, count, self.heads.width))

    def moved(self, x: str, shape: tuple[int, ...]) -> str:
        return self.op("Transpose", self.reshaped(x, shape), perm=[0, 2, 1, 3])

    def reshaped(self, x: str, shape: tuple[int, ...]) -> str:
        return self.op("Reshape", x, self.constant(np.array(shape, dtype=np.int64)))

    def shared(self, x: str) -> str:
        """Every head of the keys or values, once for each head of the queries."""
        it = self.heads
        if not it.repeated:
            return x
        wide = self.op("Unsqueeze", x, self.constant(np.array([2], dtype=np.int64)))
        shape = np.array([1, it.keys, it.queries // it.keys, it.tokens, it.width])
        wide = self.op("Expand", wide, self.constant(shape.astype(np.int64)))
        return self.reshaped(wide, (1, it.queries, it.tokens, it.width))


def attention_layer(rng: np.random.Generator, heads: Heads) -> onnx.ModelProto:
    """Projections, products, and a projection of the heads, of x (1, tokens, depth)."""
    it = _Layer(rng, heads)
    tokens, width, depth = heads.tokens, heads.width, heads.depth
    x = it.requantized(it.input("x", (1, tokens, depth)), 0.02, 3, output="x_q")
    counts = (heads.queries, heads.keys, heads.keys)
    if heads.fused:
        every = it.projection(x, depth, width * sum(counts), 0.03, -2)
        sizes = it.constant(np.array([width * count for count in counts], dtype=np.int64))
        parts = [f"{role}_part" for role in ("query", "key", "value")]
        it.nodes.append(onnx.helper.make_node("Split", [every, sizes], parts, name="split", axis=2))
    else:
        parts = [
            it.projection(x, depth, width * n, 0.03, z)
            for n, z in zip(counts, (5, -7, 2), strict=True)
        ]
    query, key, value = (it.split(part, n) for part, n in zip(parts, counts, strict=True))
    key, value = it.shared(key), it.shared(value)
    if not heads.repeated and heads.queries > heads.keys:
        rows = heads.queries // heads.keys * tokens
        query = it.reshaped(query, (1, heads.keys, rows, width))
    scores = it.op("MatMul", query, it.op("Transpose", key, perm=[0, 1, 3, 2]))
    scale = 0.03 * np.sqrt(width)
    if heads.attention:
        weights, scale = _probabilities(it, scores, scale), 1 / np.sqrt(tokens)
    else:
        weights = it.requantized(scores, scale, 4)
    if heads.softmax:
        weights = it.op("Softmax", it.op("Mul", weights, it.constant(np.float32(1))), axis=-1)
        weights = it.requantized(weights, 1 / 128, heads.probability_zero)
        scale = 1 / np.sqrt(tokens)
    y = it.op("MatMul", weights, value)
    y = it.requantized(y, scale * 0.03 * np.sqrt(tokens), 6)
    y = it.reshaped(y, (1, heads.queries, tokens, width))
    y = it.reshaped(it.op("Transpose", y, perm=[0, 2, 1, 3]), (1, tokens, heads.queries * width))
    return it.model(it.projection(y, heads.queries * width, depth, 0.03, 0))


def _probabilities(it: _Layer, scores: str, scale: float) -> str:
    """Softmax in real numbers."""
    scores = it.op("Mul", scores, it.constant(np.float32(scale)))
    heads = it.heads
    if heads.causal:
        share = 1 if heads.repeated else heads.queries // heads.keys
        mask = np.triu(np.full((heads.tokens, heads.tokens), -1e4, np.float32), 1)
        scores = it.op("Add", scores, it.constant(np.tile(mask, (share, 1))[None, None]))
    return it.op("Softmax", scores, axis=-1)
