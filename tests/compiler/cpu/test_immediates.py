"""Kernels that differ in scales alone are one function."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.compiler import te
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.immediates import without_immediates
from daedal.compiler.tir.expr import Expr, FloatImm
from daedal.compiler.tir.visit import walk
from daedal.runtime.host_code import HostProgram


def quantized(x: te.Tensor, scale: float) -> Expr:
    (axis,) = te.compute(x.shape, lambda i: x[i], "y").axes
    return (te.round(x[axis] / scale) + 0.0).astype("int8")


def test_scales_are_read_and_bounds_stay() -> None:
    x = te.placeholder((4,), "float32", "x")
    (changed,), constants = without_immediates([quantized(x, 0.0123)])
    assert [node.value for node in walk(changed) if isinstance(node, FloatImm)] == [0.0]
    ((table, values),) = constants.items()
    assert (table.dtype, values.dtype, values.tolist()) == (
        "float32",
        np.float32,
        [np.float32(0.0123)],
    )


def test_bounds_stay_whatever_they_are() -> None:
    """Functions of limited arguments are written for them."""
    x = te.placeholder((4,), "float32", "x")
    limited = te.compute((4,), lambda i: te.exp(te.maximum(x[i], -87.25)), "y")
    assert limited.value is not None
    value = (te.round(te.select(x[0] < 0.75, 0.0, limited.value) / 0.0123) + 0.0).astype("int8")
    (changed,), constants = without_immediates([value])
    kept = {node.value for node in walk(changed) if isinstance(node, FloatImm)}
    assert kept == {-87.25, 0.75, 0.0}
    assert [values.tolist() for values in constants.values()] == [[np.float32(0.0123)]]


def test_floats_alone_stay() -> None:
    x = te.placeholder((4,), "float32", "x")
    y = te.compute((4,), lambda i: x[i] * 0.0123, "y")
    assert y.value is not None
    assert without_immediates([y.value]) == ([y.value], {})


@pytest.mark.parametrize("zero", [0, 7])
def test_layers_with_other_scales_share_their_functions(zero: int) -> None:
    maker = QdqModel(opset=21)
    rng = np.random.default_rng(0)
    name = maker.input("x", (5, 16))
    for number in range(3):
        scale = 0.03 + 0.01 * number
        x = maker.requantized(name, scale, zero)
        weights = maker.weights(rng.integers(-128, 128, (16, 16)).astype(np.int8), 0.004)
        name = maker.op("Tanh", maker.requantized(maker.op("MatMul", x, weights), 2 * scale, zero))
    model = maker.model(name)
    code = build_host_code(model)
    first, second, third, last = (call.symbol for call in code.calls)
    assert second == third  # the first one quantizes the input, the last one stores floats
    assert len({first, second, last}) == 3
    feeds = {"x": rng.normal(size=(5, 16)).astype(np.float32)}
    checked = HostProgram(build_host_code(model, checked=True)).run(feeds)
    for output, found in HostProgram(code).run(feeds).items():
        np.testing.assert_allclose(found, checked[output], rtol=1e-5)
