"""Blocks of language models and vision transformers as their exporters write them: one launch,
every layer equal to the integer reference, close to the float model."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import onnx
import pytest

import daedal
from daedal.checking.integer_reference import run_onnxruntime
from daedal.checking.layer_check import check_layers
from tests.compiler.quantization.float_transformers import FloatTransformer

TOKENS, DEPTH, HEADS, WIDTH = 16, 64, 4, 16
HALF = DEPTH // 2


class Exported(FloatTransformer):
    """Collects the nodes of one block over (1, TOKENS, DEPTH)."""

    def reshaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.whole(*shape))

    def normed(self, x: str, width: int = DEPTH) -> str:
        """An RMS norm of the last axis as Llama has it, with a reciprocal."""
        mean = self.op("ReduceMean", self.op("Pow", x, self.number(2)), axes=[-1])
        root = self.op("Reciprocal", self.op("Sqrt", self.op("Add", mean, self.number(1e-6))))
        return self.op("Mul", self.positive(width), self.op("Mul", x, root))

    def split(self, x: str, count: int) -> str:
        """Heads (1, count, TOKENS, WIDTH) of (1, TOKENS, channels)."""
        return self.op("Transpose", self.reshaped(x, 1, TOKENS, count, WIDTH), perm=[0, 2, 1, 3])

    def rotated(self, x: str, channels: int = WIDTH) -> str:
        """Rotary embedding of the first channels of heads."""
        angles = np.arange(TOKENS)[:, None] * 0.3 ** np.arange(channels // 2)
        both = np.concatenate([angles, angles], axis=1).astype(np.float32)[None, None]
        part = x if channels == WIDTH else self.sliced(x, 0, channels, 3)
        halves = [(channels // 2, channels), (0, channels // 2)]
        second, first = (self.sliced(part, begin, end, 3) for begin, end in halves)
        turned = self.op("Concat", self.op("Neg", second), first, axis=-1)
        products = [
            self.op("Mul", value, self.constant(function(both)))
            for value, function in ((part, np.cos), (turned, np.sin))
        ]
        result = self.op("Add", *products)
        if channels == WIDTH:
            return result
        return self.op("Concat", result, self.sliced(x, channels, WIDTH, 3), axis=-1)

    def repeated(self, x: str, count: int) -> str:
        """Each of `count` heads as often as makes HEADS."""
        copies = HEADS // count
        x = self.op("Unsqueeze", x, self.whole(2))
        x = self.op("Expand", x, self.whole(1, count, copies, TOKENS, WIDTH))
        return self.reshaped(x, 1, HEADS, TOKENS, WIDTH)

    def attended(self, query: str, key: str, value: str, mask: str = "") -> str:
        """Attention of heads; (1, TOKENS, DEPTH)."""
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.number(WIDTH**-0.5))
        scores = self.op("Add", scores, mask) if mask else scores
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), value)
        return self.reshaped(self.op("Transpose", y, perm=[0, 2, 1, 3]), 1, TOKENS, DEPTH)

    def scaled_attention(self, query: str, key: str, value: str, mask: str) -> str:
        """The same as PyTorch exports its scaled_dot_product_attention."""
        key = self.op("Transpose", self.reshaped(key, HEADS, TOKENS, WIDTH), perm=[0, 2, 1])
        key, factor = self.reshaped(key, 1, HEADS, WIDTH, TOKENS), self.number(WIDTH**-0.25)
        scores = self.op("MatMul", self.op("Mul", query, factor), self.op("Mul", key, factor))
        weights = self.op("Softmax", self.op("Add", scores, mask), axis=-1)
        weights = self.op("Where", self.op("IsNaN", weights), self.number(0), weights)
        y = self.op("Transpose", self.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self.reshaped(y, 1, TOKENS, DEPTH)

    def causal(self, *outer: int) -> str:
        mask = np.triu(np.full((TOKENS, TOKENS), -3e38, np.float32), 1)
        return self.constant(np.broadcast_to(mask, (*outer, TOKENS, TOKENS)).copy())

    def stream(self) -> str:
        """The residual stream: what a dense layer gives."""
        return self.dense(self.input("x", (1, TOKENS, DEPTH)), DEPTH, DEPTH)


def grouped(
    net: Exported, mask_heads: int = 1, *, normed: bool = False, scaled: bool = False
) -> str:
    """As Llama: two heads of keys and values for four of queries. As Qwen 3 with norms of heads."""
    x = net.stream()
    y = net.normed(x)
    query, key, value = (
        net.split(net.dense(y, DEPTH, heads * WIDTH), heads) for heads in (HEADS, 2, 2)
    )
    if normed:
        query, key = (net.normed(heads, WIDTH) for heads in (query, key))
    key, value = net.repeated(net.rotated(key), 2), net.repeated(value, 2)
    attention = net.scaled_attention if scaled else net.attended
    y = attention(net.rotated(query), key, value, net.causal(1, mask_heads))
    x = net.op("Add", x, net.dense(y, DEPTH, DEPTH))
    y = net.normed(x)
    gate = net.dense(y, DEPTH, HALF)
    y = net.op("Mul", net.op("Mul", gate, net.op("Sigmoid", gate)), net.dense(y, DEPTH, HALF))
    return net.op("Add", x, net.dense(y, HALF, DEPTH))


def partly_rotated(net: Exported) -> str:
    """As GPT-NeoX: heads with query, key and value side by side, of which half is rotated."""
    x = net.stream()
    y = net.dense(net.op("LayerNormalization", x, net.positive(DEPTH)), DEPTH, 3 * DEPTH)
    y = net.reshaped(y, 1, TOKENS, HEADS, 3 * WIDTH)
    y = net.op("Transpose", y, perm=[0, 2, 1, 3])
    query, key, value = (net.sliced(y, n * WIDTH, (n + 1) * WIDTH, 3) for n in range(3))
    query, key = (net.rotated(part, WIDTH // 2) for part in (query, key))
    y = net.dense(net.attended(query, key, value, net.causal(1, 1)), DEPTH, DEPTH)
    return net.op("Add", x, y)


def of_rows(net: Exported) -> str:
    """As GPT-2 and OPT: dense layers and the stream behind attention are over a matrix of rows."""
    x = net.stream()
    y = net.op("LayerNormalization", x, net.positive(DEPTH), net.normal(DEPTH))
    rows = net.reshaped(y, TOKENS, DEPTH)
    heads = (net.dense(rows, DEPTH, DEPTH) for _ in range(3))
    y = net.attended(*(net.split(part, HEADS) for part in heads), net.causal(1, 1))
    y = net.dense(net.reshaped(y, TOKENS, DEPTH), DEPTH, DEPTH)
    x = net.op("Add", net.reshaped(x, TOKENS, DEPTH), y)
    y = net.op("LayerNormalization", x, net.positive(DEPTH))
    y = net.op("Relu", net.dense(y, DEPTH, HALF))
    return net.op("Add", x, net.dense(y, HALF, DEPTH))


def batch_normed(net: Exported) -> str:
    """As LeViT: a batch norm behind each product, heads with unequal parts, HardSwish."""

    def projected(x: str, inputs: int, outputs: int) -> str:
        y = net.op("MatMul", x, net.normal(inputs, outputs, scale=inputs**-0.5))
        y = net.batch_norm(net.op("Flatten", y, axis=2), outputs)
        return net.reshaped(y, 1, TOKENS, outputs)

    x = net.stream()
    y = net.reshaped(projected(x, DEPTH, 2 * DEPTH), 1, TOKENS, HEADS, 2 * WIDTH)
    sizes = (0, WIDTH // 2, WIDTH, 2 * WIDTH)
    parts = [net.sliced(y, begin, end, 3) for begin, end in pairwise(sizes)]
    query, key, value = (net.op("Transpose", part, perm=[0, 2, 1, 3]) for part in parts)
    y = net.op("HardSwish", net.attended(query, key, value, net.normal(HEADS, TOKENS, TOKENS)))
    return net.op("Add", x, projected(y, DEPTH, DEPTH))


def projected_at_once(net: Exported) -> str:
    """As timm: one projection for all heads, and scaled queries and keys."""
    x = net.stream()
    y = net.dense(net.op("LayerNormalization", x, net.positive(DEPTH)), DEPTH, 3 * DEPTH)
    y = net.reshaped(y, 1, TOKENS, 3, HEADS, WIDTH)
    y = net.op("Transpose", y, perm=[2, 0, 3, 1, 4])
    parts = ["query", "key", "value"]
    net.nodes.append(onnx.helper.make_node("Split", [y], parts, name="Split", axis=0))
    query, key, value = (net.op("Squeeze", part, net.whole(0)) for part in parts)
    factor = net.number(WIDTH**-0.25)
    key = net.op("Mul", net.op("Transpose", key, perm=[0, 1, 3, 2]), factor)
    scores = net.op("Cast", net.op("MatMul", net.op("Mul", query, factor), key), to=1)
    y = net.op("MatMul", net.op("Softmax", scores, axis=-1), value)
    y = net.reshaped(net.op("Transpose", y, perm=[0, 2, 1, 3]), 1, TOKENS, DEPTH)
    return net.op("Add", x, net.dense(y, DEPTH, DEPTH))


def over_maps(net: Exported) -> str:
    """As YOLO 11: attention over the pixels of a map, added to a depthwise convolution."""
    form = (1, DEPTH, int(TOKENS**0.5), int(TOKENS**0.5))
    x = net.reshaped(net.input("x", (1, TOKENS, DEPTH)), *form)
    x = net.op("Relu", net.conv(x, DEPTH, DEPTH, 1))
    y = net.reshaped(net.conv(x, DEPTH, 2 * DEPTH, 1), 1, HEADS, 2 * WIDTH, TOKENS)
    sizes = (0, WIDTH // 2, WIDTH, 2 * WIDTH)
    query, key, value = (net.sliced(y, begin, end, 2) for begin, end in pairwise(sizes))
    scores = net.op("MatMul", net.op("Transpose", query, perm=[0, 1, 3, 2]), key)
    weights = net.op("Softmax", net.op("Mul", scores, net.number(WIDTH**-0.5)), axis=-1)
    mean = net.op("MatMul", value, net.op("Transpose", weights, perm=[0, 1, 3, 2]))
    near = net.conv(net.reshaped(value, *form), DEPTH, DEPTH, 3, group=DEPTH)
    y = net.op("Add", net.reshaped(mean, *form), near)
    return net.op("Add", x, net.conv(y, DEPTH, DEPTH, 1))


def merged(net: Exported) -> str:
    """As Swin: the tokens of 2 x 2 places become one."""
    side = int(TOKENS**0.5)
    x = net.stream()
    x = net.op(
        "Add", x, net.dense(net.op("LayerNormalization", x, net.positive(DEPTH)), DEPTH, DEPTH)
    )
    starts = [(0, 0), (1, 0), (0, 1), (1, 1)]
    y = net.every_second(net.reshaped(x, 1, side, side, DEPTH), (1, 2), *starts)
    y = net.reshaped(y, 1, TOKENS // 4, 4 * DEPTH)
    return net.dense(net.op("LayerNormalization", y, net.positive(4 * DEPTH)), 4 * DEPTH, DEPTH)


def mixed(net: Exported) -> str:
    """As MLP-Mixer: a layer over the tokens of each channel, and one over channels, which read a
    stream of 16 bits."""
    x = net.stream()
    y = net.op("LayerNormalization", x, net.positive(DEPTH), net.normal(DEPTH))
    y = net.op("Transpose", y, perm=[0, 2, 1])
    y = net.dense(net.op("Relu", net.dense(y, TOKENS, HALF)), HALF, TOKENS)
    x = net.op("Add", x, net.op("Transpose", y, perm=[0, 2, 1]))
    y = net.op("LayerNormalization", x, net.positive(DEPTH), net.normal(DEPTH))
    y = net.op("Relu", net.dense(y, DEPTH, 2 * DEPTH))
    return net.op("Add", x, net.dense(y, 2 * DEPTH, DEPTH))


def gated_by_tokens(net: Exported) -> str:
    """As gMLP: half of the channels times a layer over the tokens of the others."""
    x = net.stream()
    y = net.op("LayerNormalization", x, net.positive(DEPTH), net.normal(DEPTH))
    y = net.op("Relu", net.dense(y, DEPTH, 2 * DEPTH))
    gate = net.op("LayerNormalization", net.sliced(y, DEPTH, 2 * DEPTH, 2), net.positive(DEPTH))
    gate = net.dense(net.op("Transpose", gate, perm=[0, 2, 1]), TOKENS, TOKENS)
    gate = net.op("Transpose", gate, perm=[0, 2, 1])
    y = net.op("Mul", net.sliced(y, 0, DEPTH, 2), gate)
    return net.op("Add", x, net.dense(y, DEPTH, DEPTH))


BLOCKS: dict[str, Callable[[Exported], str]] = {
    "Llama": grouped,
    "Llama, a mask for each head": lambda net: grouped(net, HEADS),
    "Llama, scaled_dot_product_attention": lambda net: grouped(net, scaled=True),
    "Qwen 3": lambda net: grouped(net, normed=True),
    "GPT-NeoX": partly_rotated,
    "GPT-2": of_rows,
    "LeViT": batch_normed,
    "Swin": merged,
    "timm": projected_at_once,
    "YOLO 11": over_maps,
    "MLP-Mixer": mixed,
    "gMLP": gated_by_tokens,
}


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_runs_in_one_launch(name: str, rng: np.random.Generator) -> None:
    net = Exported(rng)
    model = net.model(BLOCKS[name](net))
    samples = {"x": rng.normal(size=(16, TOKENS, DEPTH)).astype(np.float32)}
    quantized = daedal.quantize(model.SerializeToString(), samples)
    artifact = daedal.compile(quantized, "attention")
    assert len(artifact.launches) == 1
    on_host = {item.op for item in artifact.placements if item.where == "host"}
    assert on_host <= {"QuantizeLinear", "DequantizeLinear", "Reshape"}
    feeds = {"x": samples["x"][:1]}
    compared = check_layers(artifact, quantized, feeds)
    assert compared.passed, (compared.first_difference, compared.overwritten)
    (found,) = daedal.simulate(artifact, feeds).outputs.values()
    (wanted,) = run_onnxruntime(model, feeds)
    error = np.square(found.reshape(wanted.shape) - wanted).sum()
    assert error < 0.01 * np.square(wanted).sum()
