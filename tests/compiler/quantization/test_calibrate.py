"""Ranges of a network's tensors over samples: of most values, or of all where asked for."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler.quantization.calibration.calibrate import calibrate
from daedal.compiler.quantization.calibration.ranges import Method, Range
from daedal.compiler.quantization.float_model import read_float_model

OUTLIER = 64.0


@pytest.mark.parametrize("method", list(Method))
def test_an_outlier_is_clipped_unless_all_values_are_asked_for(
    method: Method, rng: np.random.Generator
) -> None:
    maker = QdqModel()
    maker.op("Neg", maker.input("x", (1, 20_000)), output="y")
    values = rng.uniform(-1, 1, (2, 1, 20_000)).astype(np.float32)
    values[1, 0, :2] = -1, OUTLIER
    samples = [{"x": value} for value in values]
    model = read_float_model(maker.model("y"))
    found = calibrate(model, ("x", "y"), samples, method, whole=("y",))
    assert found["y"] == Range(-OUTLIER, 1.0)
    assert (found["x"].high < OUTLIER) == (method != Method.MINMAX)
