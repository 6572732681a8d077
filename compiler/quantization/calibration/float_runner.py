"""Runs a float network in onnxruntime if it is installed, else in ONNX's reference evaluator."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

import numpy as np
import onnx

from daedal.compiler.onnxruntime_session import integer_products, open_session
from daedal.compiler.quantization.network import Array, Network
from daedal.isa.errors import ModelError
from daedal.isa.onnx_evaluator import evaluator_of

__all__ = ["FloatRunner", "make_runner"]


class FloatRunner(Protocol):
    """Computes tensors of a network, by name."""

    def __call__(self, feeds: Mapping[str, Array], /) -> dict[str, Array]:
        """Run once."""


def make_runner(network: Network, tensors: Sequence[str]) -> FloatRunner:
    """A runner that computes `tensors`, some of which may be inputs.

    This function and the runner raise ModelError for a model that does not run.
    """
    inputs = {item.name for item in network.inputs}
    outputs = [name for name in network.output_names if name in tensors]
    observed = [name for name in tensors if name not in inputs and name not in outputs]
    model = network.to_model(observe=observed)
    names = [*outputs, *observed]
    with _refusing():
        run = _session(model, names)

    def gather(feeds: Mapping[str, Array], /) -> dict[str, Array]:
        with _refusing():
            values = dict(zip(names, run(feeds), strict=True))
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


def _session(
    model: onnx.ModelProto, names: list[str]
) -> Callable[[Mapping[str, Array]], list[Array]]:
    if next(integer_products(model), None) is None:
        with suppress(ImportError):
            return open_session(model, names)
    evaluator = evaluator_of(model)
    return lambda feeds: [np.asarray(value) for value in evaluator.run(names, dict(feeds))]
