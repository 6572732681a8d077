"""Attention in windows, plain and shifted, as Swin has it: one launch, every layer equal to the
integer reference."""

import numpy as np
import onnx
import pytest

import daedal
from daedal.check import run_onnxruntime
from daedal.checking import check_layers
from tests.compiler.graph.qdq_models import QdqModel

SIDE, WINDOW, CHANNELS, HEADS = 8, 4, 32, 2
NUM_WINDOWS, TOKENS = (SIDE // WINDOW) ** 2, WINDOW**2


class Swin(QdqModel):
    """A float model with seeded weights, whose tokens are (1, SIDE * SIDE, CHANNELS)."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(17)
        self.rng = rng

    def dense(self, x: str, inputs: int, outputs: int) -> str:
        weights, bias = self.rng.normal(size=(inputs, outputs)), self.rng.normal(size=outputs)
        y = self.op("MatMul", x, self.constant(np.float32(weights / np.sqrt(inputs))))
        return self.op("Add", y, self.constant(np.float32(bias * 0.1)))

    def norm(self, x: str) -> str:
        gain, shift = np.ones(CHANNELS, np.float32), np.zeros(CHANNELS, np.float32)
        return self.op("LayerNormalization", x, self.constant(gain), self.constant(shift), axis=-1)

    def reshaped(self, x: str, *shape: int) -> str:
        return self.op("Reshape", x, self.constant(np.array(shape, dtype=np.int64)))

    def rolled(self, x: str, by: int) -> str:
        """Rows and columns (1, SIDE, SIDE, CHANNELS), those before `by` at the end."""
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
        width = CHANNELS // HEADS
        x = self.reshaped(
            self.dense(x, CHANNELS, 3 * CHANNELS), NUM_WINDOWS, TOKENS, 3, HEADS, width
        )
        x = self.op("Transpose", x, perm=[2, 0, 3, 1, 4])
        q, k, v = (self.op("Gather", x, self.constant(np.array(n)), axis=0) for n in range(3))
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.op("Mul", scores, self.constant(np.float32(width**-0.5)))
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        y = self.op("Transpose", y, perm=[0, 2, 1, 3])
        y = self.reshaped(y, NUM_WINDOWS, TOKENS, CHANNELS)
        return self.dense(y, CHANNELS, CHANNELS)

    def in_windows(self, x: str, shift: int) -> str:
        """Attention in windows of pixels that are shifted."""
        across = SIDE // WINDOW
        x = self.reshaped(x, 1, SIDE, SIDE, CHANNELS)
        x = self.rolled(x, shift) if shift else x
        x = self.reshaped(x, 1, across, WINDOW, across, WINDOW, CHANNELS)
        x = self.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
        x = self.attention(self.reshaped(x, NUM_WINDOWS, TOKENS, CHANNELS))
        x = self.reshaped(x, 1, across, across, WINDOW, WINDOW, CHANNELS)
        x = self.op("Transpose", x, perm=[0, 1, 3, 2, 4, 5])
        x = self.reshaped(x, 1, SIDE, SIDE, CHANNELS)
        x = self.rolled(x, SIDE - shift) if shift else x
        return self.reshaped(x, 1, SIDE**2, CHANNELS)

    def block(self, x: str, shift: int) -> str:
        x = self.op("Add", x, self.in_windows(self.norm(x), shift))
        y = self.op("Relu", self.dense(self.norm(x), CHANNELS, 4 * CHANNELS))
        return self.op("Add", x, self.dense(y, 4 * CHANNELS, CHANNELS))

    def network(self, shifts: list[int]) -> onnx.ModelProto:
        """Patches, blocks, and a classifier of the mean of all tokens."""
        patches = self.rng.normal(size=(CHANNELS, 3, 4, 4)) / 7
        x = self.op(
            "Conv",
            self.input("x", (1, 3, 32, 32)),
            self.constant(np.float32(patches)),
            strides=[4, 4],
        )
        x = self.op("Transpose", self.reshaped(x, 1, CHANNELS, SIDE**2), perm=[0, 2, 1])
        for shift in shifts:
            x = self.block(x, shift)
        x = self.op("ReduceMean", self.norm(x), axes=[1], keepdims=0)
        return self.model(self.dense(x, CHANNELS, 10))


@pytest.mark.parametrize("shifts", [[0], [0, 2]], ids=["plain", "shifted"])
def test_windows_run_in_one_launch(shifts: list[int], rng: np.random.Generator) -> None:
    model = Swin(rng).network(shifts)
    samples = {"x": rng.normal(size=(8, 3, 32, 32)).astype(np.float32)}
    quantized = daedal.quantize(model.SerializeToString(), samples)
    artifact = daedal.compile(quantized, "attention", host=None)
    assert len(artifact.launches) == 1
    on_host = {item.op for item in artifact.placements if item.where == "host"}
    assert on_host <= {"QuantizeLinear", "DequantizeLinear"}
    found = check_layers(artifact, quantized, {"x": samples["x"][:1]})
    assert found.passed, (found.first_difference, found.overwritten)
    compared = [item.difference is not None for item in found.tensors if item.layer is not None]
    assert all(compared) and len(compared) >= 20 * len(shifts)


def test_windows_are_close_to_the_float_model(rng: np.random.Generator) -> None:
    model = Swin(rng).network([2])
    samples = {"x": rng.normal(size=(16, 3, 32, 32)).astype(np.float32)}
    quantized = daedal.quantize(model.SerializeToString(), samples)
    feeds = {"x": samples["x"][:4]}
    (found,) = daedal.simulate(daedal.compile(quantized, "attention"), feeds).outputs.values()
    wanted = np.concatenate([run_onnxruntime(model, {"x": x[None]})[0] for x in feeds["x"]])
    assert np.abs(found - wanted).max() < 0.15 * np.abs(wanted).max()
