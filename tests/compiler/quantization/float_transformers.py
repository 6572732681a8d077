"""Small float transformers for the tests of the quantizer."""

import numpy as np
import onnx

from bench.float_network import FloatNetwork

__all__ = ["DEPTH", "HEADS", "TOKENS", "WIDTH", "FloatTransformer"]

TOKENS, DEPTH, HEADS = 6, 16, 2
WIDTH = DEPTH // HEADS


class FloatTransformer(FloatNetwork):
    """Collects the nodes of transformers over (1, TOKENS, DEPTH)."""

    def __init__(self, rng: np.random.Generator, opset: int = 17) -> None:
        super().__init__(rng, opset)

    def whole(self, *values: int) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        product = self.op("MatMul", x, self.normal(inputs, outputs, scale=inputs**-0.5))
        return self.op("Add", product, self.normal(outputs, scale=0.2))

    def layer_norm(self, x: str, depth: int = DEPTH) -> str:
        return self.op("LayerNormalization", x, self.positive(depth), self.normal(depth), axis=-1)

    def rms_norm(self, x: str) -> str:
        """Written out."""
        mean = self.op("ReduceMean", self.op("Mul", x, x), axes=[-1])
        root = self.op("Sqrt", self.op("Add", mean, self.number(1e-5)))
        return self.op("Mul", self.op("Div", x, root), self.positive(DEPTH))

    def heads(self, x: str, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        return self.op(
            "Transpose", self.op("Reshape", x, self.whole(1, TOKENS, HEADS, WIDTH)), perm=perm
        )

    def sliced(self, x: str, begin: int, end: int, axis: int) -> str:
        return self.op("Slice", x, self.whole(begin), self.whole(end), self.whole(axis))

    def rotated(self, x: str) -> str:
        """Rotary embedding of heads, in halves."""
        half = WIDTH // 2
        angles = np.arange(TOKENS)[:, None] * 0.5 ** np.arange(half)
        both = np.concatenate([angles, angles], axis=1).astype(np.float32)
        first, second = self.sliced(x, 0, half, 3), self.sliced(x, half, WIDTH, 3)
        turned = self.op("Concat", self.op("Neg", second), first, axis=3)
        return self.op(
            "Add",
            self.op("Mul", x, self.constant(np.cos(both))),
            self.op("Mul", turned, self.constant(np.sin(both))),
        )

    def rotated_pairs(self, x: str) -> str:
        """Rotary embedding of heads whose neighbours are pairs, as in GPT-J and RoFormer."""
        angles = np.arange(TOKENS)[:, None] * 0.5 ** np.arange(WIDTH // 2)
        both = np.repeat(angles, 2, axis=1).astype(np.float32)
        ends = self.whole(WIDTH), self.whole(3), self.whole(2)
        odd, even = (self.op("Slice", x, self.whole(begin), *ends) for begin in (1, 0))
        parts = [self.op("Unsqueeze", y, self.whole(-1)) for y in (self.op("Neg", odd), even)]
        shape = self.whole(1, HEADS, TOKENS, WIDTH)
        turned = self.op("Reshape", self.op("Concat", *parts, axis=-1), shape)
        return self.op(
            "Add",
            self.op("Mul", x, self.constant(np.cos(both))),
            self.op("Mul", turned, self.constant(np.sin(both))),
        )

    def causal_mask(self, value: float = -1e4) -> str:
        return self.constant(np.triu(np.full((1, 1, TOKENS, TOKENS), value, np.float32), 1))

    def attend(self, query: str, key: str, value: str, mask: str = "") -> str:
        """Attention of heads; the result has heads side by side."""
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.number(WIDTH**-0.5))
        if mask:
            scores = self.op("Add", scores, mask)
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        y = self.op("Transpose", y, perm=[0, 2, 1, 3])
        return self.op("Reshape", y, self.whole(1, TOKENS, DEPTH))

    def vision(self) -> onnx.ModelProto:
        """A pre-norm block with one projection for all heads, GELU, and a class token."""
        x = self.op("Concat", self.normal(1, 1, DEPTH), self.input("x", (1, 5, DEPTH)), axis=1)
        x = self.op("Add", x, self.normal(1, TOKENS, DEPTH))
        parts = ["query", "key", "value"]
        whole = self.dense(self.layer_norm(x), DEPTH, 3 * DEPTH)
        self.nodes.append(onnx.helper.make_node("Split", [whole], parts, name="Split", axis=2))
        y = self.attend(*(self.heads(name) for name in parts))
        x = self.op("Add", x, self.dense(y, DEPTH, DEPTH), output="attended")
        y = self.dense(self.layer_norm(x), DEPTH, 2 * DEPTH)
        error = self.op("Erf", self.op("Mul", y, self.number(0.5**0.5)))
        y = self.op("Mul", y, self.op("Add", error, self.number(1)))
        y = self.dense(self.op("Mul", y, self.number(0.5)), 2 * DEPTH, DEPTH)
        x = self.layer_norm(self.op("Add", x, y, output="stream"))
        token = self.op("Gather", x, self.constant(np.array(0, dtype=np.int64)), axis=1)
        self.dense(token, DEPTH, 3)
        return self._finished()

    def encoder(self) -> onnx.ModelProto:
        """Norms behind the sums, as in BERT; some channels are much larger than others."""
        x = self.input("x", (1, TOKENS, DEPTH))
        large = self.constant(np.float32([20, *[1] * (DEPTH - 1)]))
        x = self.op("LayerNormalization", x, large, self.normal(DEPTH), axis=-1, output="normed")
        query, key, value = (self.heads(self.dense(x, DEPTH, DEPTH)) for _ in range(3))
        y = self.dense(self.attend(query, key, value), DEPTH, DEPTH)
        self.layer_norm(self.op("Add", x, y, output="attended"))
        return self._finished()

    def rows_first(self, tokens: int, depth: int, heads: int) -> onnx.ModelProto:
        """As PyTorch exports `nn.MultiheadAttention`: rows come before the batch of one."""
        width = depth // heads
        x = self.input("x", (1, tokens, depth))
        y = self.op("Transpose", self.layer_norm(x, depth), perm=[1, 0, 2])
        y = self.op("Reshape", self.dense(y, depth, 3 * depth), self.whole(1, tokens, 1, 3, depth))
        y = self.op("Transpose", y, perm=[3, 1, 2, 0, 4])
        y = self.op("Squeeze", y, self.whole(-2))
        parts = []
        for number in range(3):
            part = self.op("Gather", y, self.constant(np.array(number)), axis=0)
            part = self.op("Reshape", part, self.whole(tokens, heads, width))
            part = self.op("Transpose", part, perm=[1, 2, 0] if number == 1 else [1, 0, 2])
            shape = (1, heads, width, tokens) if number == 1 else (1, heads, tokens, width)
            parts.append(self.op("Reshape", part, self.whole(*shape)))
        query, key = (self.op("Mul", item, self.number(width**-0.25)) for item in parts[:2])
        y = self.op("Softmax", self.op("MatMul", query, key), axis=-1)
        y = self.op("Transpose", self.op("MatMul", y, parts[2]), perm=[2, 0, 1, 3])
        y = self.op("Reshape", y, self.whole(tokens, depth))
        y = self.op("Gemm", y, self.normal(depth, depth, scale=depth**-0.5), self.normal(depth))
        y = self.op("Reshape", y, self.whole(tokens, 1, depth))
        x = self.op("Add", self.op("Transpose", y, perm=[1, 0, 2]), x, output="attended")
        y = self.op("Relu", self.dense(self.layer_norm(x, depth), depth, 2 * depth))
        x = self.op("Add", x, self.dense(y, 2 * depth, depth), output="stream")
        self.dense(self.layer_norm(x, depth), depth, 3)
        return self._finished()

    def language(self) -> onnx.ModelProto:
        """A decoder's block: RMS norms, rotary embedding, a causal mask, a gate with SiLU."""
        ids = self.input("ids", (1, TOKENS), "int64")
        x = self.op("Gather", self.normal(20, DEPTH), ids, axis=0, output="embedded")
        y = self.rms_norm(x)
        query, key, value = (self.heads(self.dense(y, DEPTH, DEPTH)) for _ in range(3))
        y = self.attend(self.rotated(query), self.rotated(key), value, self.causal_mask())
        x = self.op("Add", x, self.dense(y, DEPTH, DEPTH), output="attended")
        y = self.rms_norm(x)
        gate, up = self.dense(y, DEPTH, 2 * DEPTH), self.dense(y, DEPTH, 2 * DEPTH)
        gate = self.op("Mul", gate, self.op("Sigmoid", gate))
        y = self.dense(self.op("Mul", gate, up), 2 * DEPTH, DEPTH)
        x = self.rms_norm(self.op("Add", x, y, output="stream"))
        self.dense(x, DEPTH, 20)
        return self._finished()

    def _finished(self) -> onnx.ModelProto:
        self.nodes[-1].output[0] = "y"
        return self.model("y")
