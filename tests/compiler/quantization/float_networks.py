"""Small float networks for the tests of the quantizer, and what they compute."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.float_model import FloatModel, read_float_model, simplified
from tests.compiler.graph.qdq_models import QdqModel

__all__ = ["FloatNetwork", "evaluate", "rewritten_model", "signal_to_noise_db", "simple_model"]

Array = npt.NDArray[Any]


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


def simple_model(model: onnx.ModelProto) -> FloatModel:
    """The model as the rewrites see it."""
    found = read_float_model(model)
    return found.with_graph(simplified(found.graph))


def rewritten_model(model: onnx.ModelProto, *rewrites: Callable[[Graph], Graph]) -> onnx.ModelProto:
    """The model after rewrites."""
    found = simple_model(model)
    for rewrite in rewrites:
        found = found.with_graph(simplified(rewrite(found.graph)))
    return found.to_onnx()


def evaluate(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Outputs by name, by ONNX's reference evaluator."""
    evaluator = ReferenceEvaluator(model)
    results = evaluator.run(None, dict(inputs))
    return dict(zip(evaluator.output_names, map(np.asarray, results), strict=True))


def signal_to_noise_db(expected: Array, found: Array) -> float:
    """Signal to noise ratio in decibels."""
    noise = np.square(expected.astype(np.float64) - found).sum()
    return float(10 * np.log10(np.square(expected.astype(np.float64)).sum() / max(noise, 1e-30)))
