"""A network in whose middle is something that only the host can do."""

import numpy as np
import onnx

from tests.compiler.graph.qdq_models import QdqModel

__all__ = ["island"]


def island(rng: np.random.Generator, dtype: str = "int8") -> onnx.ModelProto:
    """Two convolutions with a sigmoid between them, which the host computes: two launches."""
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 5, 6, 6)), 0.05, 3, dtype, output="x_q")
    for name, op in (("first", "Sigmoid"), ("second", "Relu")):
        weights = maker.weights(rng.integers(-128, 128, (5, 5, 1, 1)).astype(np.int8), 0.01)
        y = maker.op("Conv", x, weights, kernel_shape=[1, 1])
        y = maker.requantized(y, 0.08, 4, dtype, output=f"{name}_q")
        x = maker.requantized(maker.op(op, y), 1 / 256, 7, dtype, output=f"{name}_{op}_q")
    return maker.model(x)
