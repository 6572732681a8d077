"""Elementwise operators: their tensor expressions against ONNX's reference evaluator."""

import numpy as np
import pytest

from tests.support.onnx_operators import check_node

RNG = np.random.default_rng(1)


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("op_type", ["Relu", "Tanh"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3, 4)])
def test_unary(op_type: str, shape: tuple[int, ...]) -> None:
    check_node(op_type, {"x": floats(*shape)})


@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize(
    "shapes", [((), ()), ((2, 3), (2, 3)), ((2, 3), ()), ((2, 1, 4), (3, 1)), ((1, 3), (2, 1))]
)
def test_binary_broadcasts(op_type: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    check_node(op_type, {"a": floats(*shapes[0]), "b": floats(*shapes[1])})
