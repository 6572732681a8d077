"""Attention in windows as Swin, plain and shifted, and MobileViT have it: one launch, every layer
equal to the integer reference."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest

import daedal
from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.checking.layer_check import check_layers

SIDE, WINDOW = 8, 4
NUM_WINDOWS, TOKENS = (SIDE // WINDOW) ** 2, WINDOW**2


class Windows(QdqModel):
    """A float model with seeded weights and attention in NUM_WINDOWS windows of TOKENS pixels."""

    def __init__(self, rng: np.random.Generator, channels: int = 32, heads: int = 2) -> None:
        super().__init__(17)
        self.rng, self.channels, self.heads = rng, channels, heads

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        weights, bias = self.rng.normal(size=(inputs, outputs)), self.rng.normal(size=outputs)
        y = self.op("MatMul", x, self.constant(np.float32(weights / np.sqrt(inputs))))
        return self.op("Add", y, self.constant(np.float32(bias * 0.1)))

    def norm(self, x: str) -> str:
        gain, shift = np.ones(self.channels, np.float32), np.zeros(self.channels, np.float32)
        return self.op("LayerNormalization", x, self.constant(gain), self.constant(shift), axis=-1)

    def reshaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(np.array(shape, dtype=np.int64)))

    def rolled(self, x: str, by: int) -> str:
        """Rows and columns (1, SIDE, SIDE, channels), those before `by` at the end."""
        for axis in (1, 2):
            ranges = ((by, SIDE), (0, by))
            bounds = ([begin, end, axis] for begin, end in ranges)
            parts = [
                self.op("Slice", x, *(self.constant(np.array([n], np.int64)) for n in part))
                for part in bounds
            ]
            x = self.op("Concat", *parts, axis=axis)
        return x

    def attention(self, x: str) -> str:
        """Queries, keys and values as timm exports them."""
        channels, width = self.channels, self.channels // self.heads
        x = self.dense(x, channels, 3 * channels)
        x = self.reshaped(x, NUM_WINDOWS, TOKENS, 3, self.heads, width)
        x = self.op("Transpose", x, perm=[2, 0, 3, 1, 4])
        q, k, v = (self.op("Gather", x, self.constant(np.array(n)), axis=0) for n in range(3))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.constant(np.float32(width**-0.5)))
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        y = self.op("Transpose", y, perm=[0, 2, 1, 3])
        y = self.reshaped(y, NUM_WINDOWS, TOKENS, channels)
        return self.dense(y, channels, channels)

    def multilayer(self, x: str) -> str:
        """Two dense layers."""
        y = self.op("Relu", self.dense(x, self.channels, 4 * self.channels))
        return self.dense(y, 4 * self.channels, self.channels)

    def patches(self) -> str:
        """The map (1, channels, SIDE, SIDE) of an image."""
        image = self.input("x", (1, 3, 4 * SIDE, 4 * SIDE))
        weights = self.rng.normal(size=(self.channels, 3, 4, 4)) / 7
        return self.op("Conv", image, self.constant(np.float32(weights)), strides=[4, 4])


class Swin(Windows):
    """Windows are squares of pixels; tokens are (1, SIDE * SIDE, channels)."""

    def in_windows(self, x: str, shift: int) -> str:
        """Attention in windows of pixels that are shifted."""
        across, channels = SIDE // WINDOW, self.channels
        x = self.reshaped(x, 1, SIDE, SIDE, channels)
        x = self.rolled(x, shift) if shift else x
        x = self.reshaped(x, 1, across, WINDOW, across, WINDOW, channels)
        x = self.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
        x = self.attention(self.reshaped(x, NUM_WINDOWS, TOKENS, channels))
        x = self.reshaped(x, 1, across, across, WINDOW, WINDOW, channels)
        x = self.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
        x = self.reshaped(x, 1, SIDE, SIDE, channels)
        x = self.rolled(x, SIDE - shift) if shift else x
        return self.reshaped(x, 1, SIDE**2, channels)

    def block(self, x: str, shift: int) -> str:
        x = self.op("Add", x, self.in_windows(self.norm(x), shift))
        return self.op("Add", x, self.multilayer(self.norm(x)))

    def network(self, shifts: list[int]) -> onnx.ModelProto:
        """Patches, blocks, and a classifier of the mean of all tokens."""
        x = self.reshaped(self.patches(), 1, self.channels, SIDE**2)
        x = self.op("Transpose", x, perm=[0, 2, 1])
        for shift in shifts:
            x = self.block(x, shift)
        x = self.op("ReduceMean", self.norm(x), axes=[1], keepdims=0)
        return self.model(self.dense(x, self.channels, 10))


class MobileVit(Windows):
    """A window has the pixels at the same place of all squares of 2 x 2; norms are of windows."""

    def network(self) -> onnx.ModelProto:
        """A block between convolutions, joined with what it reads."""
        x, channels, half = self.patches(), self.channels, SIDE // 2
        y = self.reshaped(x, channels * half, 2, half, 2)
        y = self.op("Transpose", y, perm=[0, 2, 1, 3])
        y = self.op("Transpose", self.reshaped(y, 1, channels, half**2, 4), perm=[0, 3, 2, 1])
        y = self.reshaped(y, NUM_WINDOWS, TOKENS, channels)
        y = self.op("Add", y, self.attention(self.norm(y)))
        y = self.op("Add", y, self.multilayer(self.norm(y)))
        y = self.reshaped(self.norm(y), 1, 4, half**2, channels)
        y = self.op("Transpose", y, perm=[0, 3, 2, 1])
        y = self.op("Transpose", self.reshaped(y, channels * half, half, 2, 2), perm=[0, 2, 1, 3])
        both = self.op("Concat", x, self.reshaped(y, 1, channels, SIDE, SIDE), axis=1)
        weights = np.float32(self.rng.normal(size=(8, 2 * channels, 3, 3)) / channels)
        return self.model(self.op("Conv", both, self.constant(weights), pads=[1] * 4))


NETWORKS: dict[str, Callable[[np.random.Generator], onnx.ModelProto]] = {
    "Swin, plain": lambda rng: Swin(rng).network([0]),
    "Swin, shifted": lambda rng: Swin(rng).network([0, 2]),
    "MobileViT": lambda rng: MobileVit(rng, 64, 4).network(),
    "MobileViT, heads of 20": lambda rng: MobileVit(rng, 80, 4).network(),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_windows_run_in_one_launch(name: str, rng: np.random.Generator) -> None:
    model = NETWORKS[name](rng)
    samples = {"x": rng.normal(size=(8, 3, 32, 32)).astype(np.float32)}
    quantized = daedal.quantize(model.SerializeToString(), samples)
    artifact = daedal.compile(quantized, "attention", host=None)
    assert len(artifact.launches) == 1
    on_host = {item.op for item in artifact.placements if item.where == "host"}
    assert on_host <= {"QuantizeLinear", "DequantizeLinear"}
    found = check_layers(artifact, quantized, {"x": samples["x"][:1]})
    assert found.passed, (found.first_difference, found.overwritten)
    compared = [item.difference is not None for item in found.tensors if item.layer is not None]
    assert all(compared) and len(compared) >= 20


def test_windows_are_close_to_the_float_model(rng: np.random.Generator) -> None:
    model = Swin(rng).network([2])
    samples = {"x": rng.normal(size=(16, 3, 32, 32)).astype(np.float32)}
    quantized = daedal.quantize(model.SerializeToString(), samples)
    feeds = {"x": samples["x"][:4]}
    (found,) = daedal.simulate(daedal.compile(quantized, "attention"), feeds).outputs.values()
    wanted = np.concatenate([run_onnxruntime(model, {"x": x[None]})[0] for x in feeds["x"]])
    assert np.abs(found - wanted).max() < 0.15 * np.abs(wanted).max()
