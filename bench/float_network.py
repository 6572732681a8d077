"""`FloatNetwork`: builds small float networks, to be quantized."""

from typing import Any

import numpy as np

from bench.qdq_model import QdqModel

__all__ = ["FloatNetwork"]


class FloatNetwork(QdqModel):
    """Collects float nodes; weights are drawn so that activations keep their size.

    ONNX's reference evaluator takes batch norms before opset 15 for training.
    """

    def __init__(self, rng: np.random.Generator, opset: int = 15) -> None:
        super().__init__(opset)
        self.rng = rng

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        """A constant of random values."""
        return self.constant(self.rng.normal(0, scale, shape).astype(np.float32))

    def positive(self, *shape: int) -> str:
        """A constant of random values between 0.5 and 2."""
        return self.constant(self.rng.uniform(0.5, 2, shape).astype(np.float32))

    def conv(self, x: str, inner: int, outer: int, kernel: int = 3, **attrs: Any) -> str:
        """A convolution with a bias that keeps the size of the map, unless `attrs` say else."""
        group = attrs.get("group", 1)
        fan_in = inner // group * kernel * kernel
        weights = self.normal(outer, inner // group, kernel, kernel, scale=(2 / fan_in) ** 0.5)
        attrs.setdefault("pads", [kernel // 2] * 4)
        return self.op("Conv", x, weights, self.normal(outer, scale=0.2), **attrs)

    def batch_norm(self, x: str, channels: int) -> str:
        """A batch norm whose scales have both signs."""
        parameters = [self.normal(channels), self.normal(channels), self.normal(channels)]
        return self.op("BatchNormalization", x, *parameters, self.positive(channels), epsilon=1e-3)

    def every_second(self, x: str, axes: tuple[int, int], *starts: tuple[int, int]) -> str:
        """Every second row and column of a map, from each of `starts` on, joined as channels."""
        parts = []
        for start in starts:
            part = x
            for axis, begin in zip(axes, start, strict=True):
                bounds = (np.array([value]) for value in (begin, np.iinfo(np.int64).max, axis, 2))
                part = self.op("Slice", part, *map(self.constant, bounds))
            parts.append(part)
        return self.op("Concat", *parts, axis=1 if axes == (2, 3) else -1)
