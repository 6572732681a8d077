"""Runs a network to observe its tensors.

The compiler cannot run what it compiles, so a caller says how a model is run (`OpenModel`); without
one, ONNX's reference evaluator runs it.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import numpy as np
import onnx

from daedal.common.errors import ModelError
from daedal.common.onnx_evaluator import evaluator_of
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.graph.graph import Array
from daedal.compiler.quantization.float_model import FloatModel

__all__ = ["FloatRunner", "OpenModel", "evaluate", "make_runner"]

OpenModel = Callable[[onnx.ModelProto], Callable[[Mapping[str, Array]], Mapping[str, Array]]]
"""Makes of a model a function that gives its outputs, by name, for inputs by name."""


class FloatRunner(Protocol):
    """Computes tensors of a model, by name."""

    def __call__(self, feeds: Mapping[str, Array], /) -> dict[str, Array]:
        """Run once."""


def evaluate(model: onnx.ModelProto) -> Callable[[Mapping[str, Array]], Mapping[str, Array]]:
    """The model in ONNX's reference evaluator."""
    evaluator = evaluator_of(modern_model(model))

    def run(feeds: Mapping[str, Array]) -> dict[str, Array]:
        names = evaluator.output_names
        with warnings.catch_warnings():  # whoever reads the values looks for infinite ones
            warnings.simplefilter("ignore", RuntimeWarning)
            values = evaluator.run(names, dict(feeds))
        return {name: np.asarray(value) for name, value in zip(names, values, strict=True)}

    return run


def make_runner(
    model: FloatModel, tensors: Sequence[str], open_model: OpenModel = evaluate
) -> FloatRunner:
    """A runner that computes `tensors`, some of which may be inputs.

    This function and the runner raise ModelError for a model that does not run.
    """
    given = {*model.graph.inputs, *model.outputs}
    with _refusing():
        run = open_model(model.to_onnx([name for name in tensors if name not in given]))

    def gather(feeds: Mapping[str, Array], /) -> dict[str, Array]:
        with _refusing():
            values = run(feeds)
        return {name: values[name] if name in values else feeds[name] for name in tensors}

    return gather


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn the runners' many kinds of exceptions into a ModelError."""
    try:
        yield
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise ModelError(
            f"a model must run in float to be quantized, and this one does not: {reason}; export "
            "it again"
        ) from error
