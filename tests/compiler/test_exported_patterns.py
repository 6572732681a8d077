"""What exporters and quantizers leave around the layers of a network: where it runs, and that it
computes what onnxruntime does."""

from collections.abc import Callable

import numpy as np
import pytest
from onnx import helper

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import compare_operators, processor_graph, run_onnxruntime
from daedal.isa.variant import load_variant
from tests.compiler.graph.qdq_models import Array

VTA = load_variant("vta")
CONSTANT = np.random.default_rng(20)
BORDERS = ("DequantizeLinear", "QuantizeLinear")


def whole(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


class Pattern(QdqModel):
    """A model that begins with one quantized map."""

    def start(self, channels: int = 3, *extents: int) -> str:
        shape = (1, channels, *(extents or (8, 6)))
        return self.between(self.input("x", shape))

    def between(self, x: str, scale: float = 0.05, zero_point: int = 0) -> str:
        """Quantize and dequantize."""
        return self.requantized(x, scale, zero_point)

    def integers(self, *shape: int) -> Array:
        return CONSTANT.integers(-127, 128, shape).astype(np.int8)

    def conv(self, x: str, inputs: int, outputs: int, scale: float = 0.002) -> str:
        weights = self.weights(self.integers(outputs, inputs, 3, 3), np.full(outputs, scale))
        return self.op("Conv", x, weights, pads=[1, 1, 1, 1])

    def body(self, channels: int = 8) -> str:
        """What a pattern in the middle of a network reads."""
        return self.between(self.conv(self.start(), 3, channels))

    def end(self, x: str, channels: int = 8) -> str:
        """What reads a pattern in the middle of a network."""
        return self.between(self.conv(x, channels, 8))

    def matrix(self, *shape: int) -> str:
        return self.weights(self.integers(*shape), 0.01)


def hard_swish(it: Pattern) -> str:
    """As TensorFlow writes it, with every step quantized."""
    x = it.body()
    six = it.constant(np.float32(6))
    gate = it.between(it.op("Add", x, it.constant(np.float32(3))), 0.05, -60)
    gate = it.between(it.op("Clip", gate, it.constant(np.float32(0)), six), 6 / 255, -128)
    x = it.between(it.op("Mul", x, gate), 0.1, -100)
    return it.end(it.between(it.op("Div", x, six), 0.02, -100))


def hard_sigmoid(it: Pattern) -> str:
    """The gate of squeeze and excitation."""
    x = it.body()
    gate = it.between(it.op("ReduceMean", x, axes=[2, 3], keepdims=1))
    gate = it.between(it.op("HardSigmoid", gate, alpha=1 / 6, beta=0.5), 1 / 255, -128)
    return it.end(it.between(it.op("Mul", x, gate)))


def channels_last(it: Pattern) -> str:
    """A mean over pixels between transposes of TensorFlow, and a classifier."""
    x = it.between(it.op("Transpose", it.body(), perm=[0, 2, 3, 1]))
    x = it.between(it.op("ReduceMean", x, axes=[1, 2], keepdims=0))
    return it.between(it.op("MatMul", x, it.matrix(8, 10)))


def channels_last_kept(it: Pattern) -> str:
    x = it.between(it.op("Transpose", it.body(), perm=[0, 2, 3, 1]))
    x = it.between(it.op("ReduceMean", x, axes=[1, 2]))
    return it.end(it.between(it.op("Transpose", x, perm=[0, 3, 1, 2])))


def split(it: Pattern, *sizes: int) -> str:
    x = it.body(sum(sizes))
    it.nodes.append(helper.make_node("Split", [x, it.constant(whole(*sizes))], ["a", "b"], axis=1))
    first, second = it.between("a"), it.between("b")
    first = it.between(it.conv(first, sizes[0], sizes[0]))
    return it.between(it.op("Concat", first, second, axis=1))


def summed(it: Pattern) -> str:
    x = it.body()
    return it.between(it.op("Sum", it.between(it.conv(x, 8, 8)), x), 0.07)


def bounds(it: Pattern) -> str:
    """ReLU6 as a maximum and a minimum."""
    zero, six = it.constant(np.float32(0)), it.constant(np.float32(6).reshape(1))
    x = it.op("Min", six, it.op("Max", it.conv(it.start(), 3, 8), zero))
    return it.end(it.between(x, 0.03, -128))


def padded(it: Pattern) -> str:
    x = it.op("Pad", it.start(), it.constant(whole(0, 0, 1, 0, 0, 0, 2, 1)))
    return it.between(it.conv(x, 3, 8))


def repeated_reader(it: Pattern) -> str:
    """One quantized tensor that is dequantized for each of its readers."""
    x = it.quantize(it.conv(it.start(), 3, 8), 0.05, 0)
    first, second = it.dequantize(x, 0.05, 0), it.dequantize(x, 0.05, 0)
    return it.between(it.op("Add", it.between(it.conv(first, 8, 8)), second))


def tokens(it: Pattern) -> str:
    """Dense layers over a sequence, with bias."""
    x = it.between(it.input("x", (1, 12, 16)))
    bias = it.constant(CONSTANT.normal(size=24).astype(np.float32))
    x = it.between(it.op("Add", it.op("MatMul", x, it.matrix(16, 24)), bias))
    return it.between(it.op("MatMul", x, it.matrix(24, 8)))


def tokens_of_images(it: Pattern) -> str:
    """Pixels as a sequence, of more than one dimension."""
    x = it.between(it.op("Transpose", it.body(), perm=[0, 2, 3, 1]))
    return it.between(it.op("MatMul", x, it.matrix(8, 6)))


def mean_of_tokens(it: Pattern) -> str:
    """The head of a transformer without a token for the class."""
    x = it.between(it.input("x", (1, 12, 16)))
    x = it.between(it.op("MatMul", x, it.matrix(16, 24)))
    x = it.between(it.op("ReduceMean", x, axes=[1], keepdims=0))
    return it.between(it.op("MatMul", x, it.matrix(24, 8)))


def sequences(it: Pattern) -> str:
    """Elementwise operators on three dimensions."""
    x = it.between(it.input("x", (1, 5, 14)))
    gate = it.between(it.op("Relu", x), 0.04, -7)
    return it.between(it.op("Mul", it.between(it.op("Sub", gate, it.between(x, 0.1))), x), 0.2)


def volumes(it: Pattern) -> str:
    """And on five."""
    x = it.between(it.input("x", (1, 5, 2, 3, 4)))
    return it.between(it.op("Add", x, it.between(it.op("Relu", x), 0.04, -7)))


def moved(it: Pattern, x: str, split: tuple[int, ...], perm: list[int], to: tuple[int, ...]) -> str:
    """Reshape, transpose, reshape, each quantized."""
    x = it.between(it.op("Reshape", x, it.constant(whole(*split))))
    x = it.between(it.op("Transpose", x, perm=perm))
    return it.between(it.op("Reshape", x, it.constant(whole(*to))))


def windows(it: Pattern) -> str:
    """Six windows of 4 x 2 pixels, each as an image, and back."""
    x = moved(it, it.body(16), (1, 16, 2, 4, 3, 2), [0, 2, 4, 1, 3, 5], (6, 16, 4, 2))
    x = it.between(it.conv(x, 16, 16))
    x = moved(it, x, (1, 2, 3, 16, 4, 2), [0, 3, 1, 4, 2, 5], (1, 16, 8, 6))
    return it.end(x, 16)


def blocks_of_pixels(it: Pattern) -> str:
    """DepthToSpace, in the order DCR, as reshapes and a transpose."""
    x = moved(it, it.body(64), (1, 2, 2, 16, 8, 6), [0, 3, 4, 1, 5, 2], (1, 16, 16, 12))
    return it.end(x, 16)


def depth_to_space(it: Pattern, mode: str) -> str:
    return it.end(it.between(it.op("DepthToSpace", it.body(64), blocksize=2, mode=mode)), 16)


def space_to_depth(it: Pattern) -> str:
    return it.end(it.between(it.op("SpaceToDepth", it.body(16), blocksize=2)), 64)


def projection(it: Pattern, choose: Callable[[str, int], str]) -> str:
    """Two tensors with two heads of 16 channels from one dense layer, as timm exports them."""
    x = it.between(it.input("x", (1, 12, 16)))
    x = it.between(it.op("MatMul", x, it.matrix(16, 64)))
    x = it.between(it.op("Reshape", x, it.constant(whole(1, 12, 2, 2, 16))))
    x = it.between(it.op("Transpose", x, perm=[2, 0, 3, 1, 4]))
    parts = []
    for number in range(2):
        part = it.between(it.op("Transpose", it.between(choose(x, number)), perm=[0, 2, 1, 3]))
        part = it.between(it.op("Reshape", part, it.constant(whole(1, 12, 32))))
        parts.append(it.between(it.op("MatMul", part, it.matrix(32, 8))))
    return it.between(it.op("Add", *parts), 0.1)


def by_slice(it: Pattern) -> str:
    def choose(x: str, number: int) -> str:
        ranges = (it.constant(whole(value)) for value in (number, number + 1, 0))
        part = it.between(it.op("Slice", x, *ranges))
        return it.op("Squeeze", part, it.constant(whole(0)))

    return projection(it, choose)


def by_gather(it: Pattern) -> str:
    return projection(
        it, lambda x, number: it.op("Gather", x, it.constant(np.array(number)), axis=0)
    )


PATTERNS: dict[str, Callable[[Pattern], str]] = {
    "hard swish": hard_swish,
    "hard sigmoid": hard_sigmoid,
    "channels last": channels_last,
    "channels last, kept": channels_last_kept,
    "split in halves": lambda it: split(it, 16, 16),
    "split unevenly": lambda it: split(it, 10, 14),
    "sum": summed,
    "minimum and maximum": bounds,
    "pad": padded,
    "dequantized twice": repeated_reader,
    "tokens": tokens,
    "tokens of images": tokens_of_images,
    "mean of tokens": mean_of_tokens,
    "sequences": sequences,
    "volumes": volumes,
    "windows": windows,
    "blocks of pixels": blocks_of_pixels,
    "depth to space": lambda it: depth_to_space(it, "DCR"),
    "pixel shuffle": lambda it: depth_to_space(it, "CRD"),
    "space to depth": space_to_depth,
    "sliced projection": by_slice,
    "gathered projection": by_gather,
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_runs_in_one_launch(name: str, rng: np.random.Generator) -> None:
    """But for what the host quantizes, dequantizes and transposes at the ends."""
    it = Pattern()
    model = it.model(PATTERNS[name](it))
    data = model.SerializeToString()
    artifact = daedal.compile(data, "vta")
    assert len(artifact.launches) == 1
    left = {
        item.op for item in artifact.placements if item.where == "host" and item.op not in BORDERS
    }
    assert left <= {"Transpose"}
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": rng.normal(size=shape).astype(np.float32) * 2}
    graph = processor_graph(data, VTA)
    assert max(item.largest for item in compare_operators(model, graph, feeds)) <= 1
    (found,) = daedal.simulate(artifact, feeds).outputs.values()
    (expected,) = run_onnxruntime(model, feeds)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 0.41 and found.std() > 0.01
