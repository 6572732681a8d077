"""What small float networks compute, for the tests of the quantizer."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator

from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.float_model import FloatModel, read_float_model, simplified

__all__ = ["evaluate", "rewritten_model", "signal_to_noise_db", "simple_model"]

Array = npt.NDArray[Any]


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
