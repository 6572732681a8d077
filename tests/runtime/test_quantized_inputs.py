"""Inputs that are quantized: NaN is refused; values are bounded where nothing else reads them."""

import numpy as np
import onnx
import pytest

from daedal.common.errors import ModelError
from daedal.runtime.quantized_inputs import QuantizedInputs

X = np.array([2.0**31, -np.inf, 1], np.float32)
STEPS = 2.0**30
NAN = np.full(3, np.nan, np.float32)


def inputs_of(nodes: str) -> QuantizedInputs:
    """Of a model with inputs x and z; `nodes` give q and y."""
    return QuantizedInputs(
        onnx.parser.parse_model(f"""
            <ir_version: 10, opset_import: ["": 21]>
            part (float[3] x, float[3] z) => (int8[3] q, float[3] y)
            <float one = {{1.0}}, float half = {{0.5}}, int8 zero = {{0}}> {{ {nodes} }}
        """)
    )


def test_only_what_is_quantized_must_be_without_nan() -> None:
    inputs = inputs_of("q = QuantizeLinear (x, one, zero) y = Relu (z)")
    inputs.check({"x": X, "z": NAN})
    inputs.check({"z": NAN})  # the run itself refuses the missing input
    with pytest.raises(ModelError, match="input 'x' is quantized, and must not have NaN"):
        inputs.check({"x": NAN, "z": X})


def test_the_largest_scale_bounds_an_input() -> None:
    inputs = inputs_of("""
        q = QuantizeLinear (x, half, zero)
        r = QuantizeLinear (x, one, zero)
        y = Relu (z)
    """)
    found = inputs.bounded({"x": X, "z": X})
    assert found["x"].tolist() == [STEPS, -STEPS, 1]
    assert found["z"] is X


@pytest.mark.parametrize("other", ["y = Relu (x)", "y = Mul (z, x)"])
def test_what_other_operators_read_is_not_bounded(other: str) -> None:
    inputs = inputs_of(f"q = QuantizeLinear (x, one, zero) {other}")
    assert inputs.bounded({"x": X, "z": X})["x"] is X
    with pytest.raises(ModelError, match="input 'x' is quantized"):
        inputs.check({"x": NAN})


def test_an_empty_scale_bounds_nothing() -> None:
    """Of a tensor without channels."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]>
        part (float[2,0] x) => (int8[2,0] q)
        <float[0] scale = {}, int8[0] zero = {}> { q = QuantizeLinear (x, scale, zero) }
    """)
    empty = np.zeros((2, 0), np.float32)
    assert QuantizedInputs(model).bounded({"x": empty})["x"].shape == (2, 0)
