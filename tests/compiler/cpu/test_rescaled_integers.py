"""Integers that only change their scale are those of DequantizeLinear and QuantizeLinear."""

import itertools

import numpy as np
import onnx
import pytest

from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.graph.passes.lowering.requantization import (
    Quantization,
    QuantizedTensor,
    rounds_as_floats,
)
from daedal.native.levels import levels_to_run
from daedal.runtime.host_code import HostProgram

MODEL = """
<ir_version: 8, opset_import: ["" : 21]>
rescaled (int8[256] x) => (int8[256] y)
<float s = {%r}, int8 z = {%d}, float t = {%r}, int8 u = {%d}> {
    d = DequantizeLinear (x, s, z)
    r = Relu (d)
    y = QuantizeLinear (r, t, u)
}
"""
TIES = [(0.03125, -7, 0.042, 74), (0.0625, 0, 0.025, -100), (0.05, 3, 0.04, 0)]
"""Scales whose quotient is a tie in float32 and none otherwise, or a tie in both."""


@pytest.mark.parametrize("given", [*TIES, (0.0123, 5, 0.0456, -3), (0.5, 0, 0.25, 0)])
def test_all_integers_are_rounded_as_floats_are(given: tuple[float, int, float, int]) -> None:
    scale, zero, other, after = given
    model = onnx.parser.parse_model(MODEL % given)
    x = np.arange(-128, 128).astype(np.int8)
    reals = np.maximum((x.astype(np.float32) - zero) * np.float32(scale), 0)
    wanted = (np.rint(reals / np.float32(other)) + after).clip(-128, 127)
    for level in levels_to_run():
        (found,) = HostProgram(build_host_code(model, levels=[level])).run({"x": x}).values()
        np.testing.assert_array_equal(found, wanted, level)


def test_which_scales_round_otherwise() -> None:
    """Those of which a multiple lies next to a tie, as decimal fractions have them."""
    odd = [
        (first, second)
        for first, second in itertools.product((0.03125, 0.05, 0.1, 0.07), (0.042, 0.04, 0.0123))
        if not rounds_as_floats(
            QuantizedTensor("x", float(np.float32(first)), 0),
            Quantization(float(np.float32(second)), 0),
        )
    ]
    assert (0.03125, 0.042) in odd and (0.03125, 0.0123) not in odd
