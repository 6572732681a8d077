"""Observes the values of a model's tensors over samples, and picks the range of each."""

import math
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.graph import Array
from daedal.compiler.quantization.calibration.float_runner import (
    FloatRunner,
    OpenModel,
    evaluate,
    make_runner,
)
from daedal.compiler.quantization.calibration.ranges import Histogram, Method, Range, choose_range
from daedal.compiler.quantization.float_model import FloatModel

__all__ = ["calibrate"]

_BOUND_BITS = 12
"""A value beyond its rounded bound is clipped by a sixteenth of a step of 8 bits, at most."""


def calibrate(
    model: FloatModel,
    tensors: Sequence[str],
    samples: Sequence[Mapping[str, Array]],
    method: Method,
    whole: Collection[str] = (),
    open_model: OpenModel = evaluate,
) -> dict[str, Range]:
    """The range of every tensor, each at least [0, 0]; of those in `whole`, of all values.

    If the method needs histograms, there are two passes over the samples; the first finds their
    bounds. The bounds are rounded to `_BOUND_BITS` bits, because the last bits of a sum depend on
    the processor's vector width. The rounding almost always keeps this out of the scales.

    Raises
    ------
    ModelError
        For a tensor that becomes NaN or infinite.
    """
    runner = make_runner(model, tensors, open_model)
    bounds = _observe_bounds(runner, samples)
    ranges = {name: Range(low, high) for name, (low, high) in bounds.items()}
    if method == Method.MINMAX:
        return ranges
    histograms = {name: Histogram.empty(*bounds[name]) for name in tensors if name not in whole}
    for feeds in samples:
        values = runner(feeds)
        for name, histogram in histograms.items():
            histogram.add(values[name])
    return ranges | {name: choose_range(item, method) for name, item in histograms.items()}


def _observe_bounds(
    runner: FloatRunner, samples: Sequence[Mapping[str, Array]]
) -> dict[str, tuple[float, float]]:
    bounds: dict[str, tuple[float, float]] = {}
    for number, feeds in enumerate(samples):
        for name, value in runner(feeds).items():
            low, high = float(value.min(initial=0)), float(value.max(initial=0))
            if not (np.isfinite(low) and np.isfinite(high)):
                raise ModelError(
                    f"activations must be finite, and tensor {name!r} becomes NaN or infinite "
                    f"with sample {number}; scale the samples as the model wants them"
                )
            known = bounds.get(name, (0.0, 0.0))
            bounds[name] = (min(known[0], low), max(known[1], high))
    return {name: (_rounded(low), _rounded(high)) for name, (low, high) in bounds.items()}


def _rounded(value: float) -> float:
    """The nearest number with `_BOUND_BITS` significant bits."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * (1 << _BOUND_BITS)), exponent - _BOUND_BITS)
