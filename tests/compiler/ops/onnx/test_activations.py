"""Activation functions: their tensor expressions against ONNX's reference evaluator."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from daedal.common.errors import ModelError
from tests.support.onnx_operators import check_node, lowered_results

RNG = np.random.default_rng(2)

CASES: list[tuple[str, int, dict[str, Any]]] = [
    ("Celu", 21, {}),
    ("Celu", 21, {"alpha": 0.4}),
    ("Elu", 7, {}),
    ("Elu", 21, {"alpha": 0.7}),
    ("Gelu", 20, {}),
    ("Gelu", 20, {"approximate": "tanh"}),
    ("HardSigmoid", 7, {}),
    ("HardSigmoid", 21, {"alpha": 0.4, "beta": 0.3}),
    ("HardSwish", 14, {}),
    ("LeakyRelu", 7, {}),
    ("LeakyRelu", 21, {"alpha": 0.3}),
    ("Mish", 18, {}),
    ("Relu", 7, {}),
    ("Selu", 7, {}),
    ("Selu", 21, {"alpha": 1.5, "gamma": 0.9}),
    ("Shrink", 9, {}),
    ("Shrink", 9, {"bias": 0.4, "lambd": 1.1}),
    ("Sigmoid", 7, {}),
    ("Softplus", 7, {}),
    ("Softsign", 7, {}),
    ("Swish", 24, {}),
    ("Swish", 24, {"alpha": 1.7}),
    ("Tanh", 7, {}),
    ("ThresholdedRelu", 10, {}),
    ("ThresholdedRelu", 10, {"alpha": 0.3}),
]
IDS = [f"{op_type}-{opset}-{len(attributes)}" for op_type, opset, attributes in CASES]


@pytest.mark.parametrize(("op_type", "opset", "attributes"), CASES, ids=IDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 4e-3), ("float32", 1e-5)])
def test_activations(
    op_type: str, opset: int, attributes: dict[str, Any], dtype: str, tolerance: float
) -> None:
    # The reference's Softsign does not take rank 0.
    for shape in ((1,) if op_type == "Softsign" else (), (7,), (2, 3, 4)):
        x = np.asarray(RNG.normal(size=shape) * 4).astype(dtype)
        check_node(op_type, {"x": x}, opset=opset, rtol=tolerance, atol=tolerance / 2, **attributes)


@pytest.mark.parametrize(("op_type", "opset", "attributes"), CASES, ids=IDS)
def test_float64(op_type: str, opset: int, attributes: dict[str, Any]) -> None:
    x = np.linspace(-6, 6, 25)
    # The reference has some of its constants in float32.
    check_node(op_type, {"x": x}, opset=opset, rtol=1e-6, atol=1e-7, **attributes)


LIMITS = {
    "Celu": (-1.0, np.inf),
    "Elu": (-1.0, np.inf),
    "HardSigmoid": (0.0, 1.0),
    "LeakyRelu": (-np.inf, np.inf),
    "Relu": (0.0, np.inf),
    "Selu": (-1.7580993, np.inf),
    "Shrink": (-np.inf, np.inf),
    "Sigmoid": (0.0, 1.0),
    "Softplus": (0.0, np.inf),
    "Tanh": (-1.0, 1.0),
}


@pytest.mark.parametrize("op_type", LIMITS)
def test_ends(op_type: str) -> None:
    """Infinities have the limits of the function, and not-a-number stays."""
    x = np.array([-np.inf, np.inf, np.nan], np.float32)
    (found,) = lowered_results(helper.make_node(op_type, ["x"], ["y"]), 21, {"x": x}, (), [x])
    nothing = 0.0 if op_type == "Shrink" else np.nan
    np.testing.assert_allclose(found, [*LIMITS[op_type], nothing], rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_integers(dtype: str) -> None:
    x = np.arange(10).astype(dtype) - np.array(4).astype(dtype)
    check_node("Shrink", {"x": x}, bias=1.0, lambd=1.5)
    if dtype in ("int32", "int64"):
        check_node("Relu", {"x": x})
        check_node("PRelu", {"x": x, "slope": np.array([3], dtype)})


@pytest.mark.parametrize("slope", [(), (4,), (3, 1), (2, 3, 4)])
def test_slopes_broadcast(slope: tuple[int, ...]) -> None:
    x = RNG.normal(size=(2, 3, 4)).astype(np.float32)
    feeds = {"x": x, "slope": np.asarray(RNG.normal(size=slope)).astype(np.float32)}
    check_node("PRelu", feeds)
    check_node("PRelu", feeds, opset=7)


def test_unknown_approximation() -> None:
    x = np.zeros(1, np.float32)
    node = helper.make_node("Gelu", ["x"], ["y"], approximate="sine")
    with pytest.raises(ModelError, match="approximate must be none or tanh, not 'sine'"):
        lowered_results(node, 21, {"x": x}, (), [x])
