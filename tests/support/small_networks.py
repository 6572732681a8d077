"""Small networks: one in whose middle is something that only the host can do, and one with branches
that are joined."""

import numpy as np
import onnx

from bench.qdq_model import QdqModel

__all__ = ["branches", "island"]


def island(rng: np.random.Generator, dtype: str = "int8") -> onnx.ModelProto:
    """Two convolutions with a sigmoid between them, which the host computes: two launches.

    They have work enough for the way to the accelerator to pay.
    """
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 16, 12, 12)), 0.05, 3, dtype, output="x_q")
    for name, op in (("first", "Sigmoid"), ("second", "Relu")):
        weights = maker.weights(rng.integers(-128, 128, (16, 16, 3, 3)).astype(np.int8), 0.01)
        y = maker.op("Conv", x, weights, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        y = maker.requantized(y, 0.08, 4, dtype, output=f"{name}_q")
        x = maker.requantized(maker.op(op, y), 1 / 256, 7, dtype, output=f"{name}_{op}_q")
    return maker.model(x)


def branches(rng: np.random.Generator, *channels: int) -> onnx.ModelProto:
    """A convolution, several next to each other of so many channels, and one of all of theirs."""
    maker = QdqModel()

    def convolution(x: str, ins: int, outs: int, kernel: int, name: str) -> str:
        values = rng.integers(-128, 128, (outs, ins, kernel, kernel)).astype(np.int8)
        weights = maker.weights(values, 0.01)
        y = maker.op("Conv", x, weights, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4)
        return maker.requantized(y, 0.1, 3, output=name)

    x = maker.requantized(maker.input("x", (1, 16, 8, 8)), 0.05, 0, output="x_q")
    x = convolution(x, 16, 16, 1, "stem_q")
    parts = [
        convolution(x, 16, outs, 1 + 2 * (number % 2), f"branch{number}_q")
        for number, outs in enumerate(channels)
    ]
    x = maker.requantized(maker.op("Concat", *parts, axis=1), 0.1, 3, output="joined_q")
    return maker.model(convolution(x, sum(channels), 32, 3, "last_q"))
