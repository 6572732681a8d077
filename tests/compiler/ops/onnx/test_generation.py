"""Operators that depend on shapes: tensor expressions against ONNX's reference evaluator."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from daedal.common.errors import ModelError, UnsupportedError
from tests.support.onnx_operators import check_node, lowered_results


@pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "bool"])
def test_constant_of_shape(dtype: str) -> None:
    feeds = {"shape": np.array([2, 3], np.int64)}
    value = numpy_helper.from_array(np.array([1], dtype))
    check_node("ConstantOfShape", feeds, constants=["shape"], value=value)
    check_node("ConstantOfShape", feeds, constants=["shape"])
    check_node("ConstantOfShape", {"shape": np.array([], np.int64)}, constants=["shape"])


def test_constants_of_many_numbers() -> None:
    value = numpy_helper.from_array(np.array([1, 2], np.float32))
    node = helper.make_node("ConstantOfShape", ["shape"], ["y"], value=value)
    feeds = {"shape": np.array([2], np.int64)}
    with pytest.raises(ModelError, match="value must be one number, not 2"):
        lowered_results(node, 21, feeds, ["shape"], [np.zeros(2, np.float32)])


@pytest.mark.parametrize(
    ("start", "limit", "delta"), [(0, 5, 1), (-3, 8, 4), (7, -2, -3), (1.5, 3.0, 0.25)]
)
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "float32", "float64"])
def test_range(start: float, limit: float, delta: float, dtype: str) -> None:
    if dtype.startswith("int") and delta != int(delta):
        return
    values = {"start": start, "limit": limit, "delta": delta}
    check_node("Range", {name: np.array(value, dtype) for name, value in values.items()})


@pytest.mark.parametrize("bounds", [{}, {"start": 1}, {"start": -2, "end": 3}, {"end": -1}])
def test_shape(bounds: dict[str, int]) -> None:
    x = np.zeros((2, 3, 4), np.float32)
    check_node("Shape", {"x": x}, **bounds)
    check_node("Size", {"x": x})


def test_shape_of_rank_0() -> None:
    """There is nothing to compute."""
    node = helper.make_node("Shape", ["x"], ["y"])
    with pytest.raises(UnsupportedError, match="every dimension must be a positive integer"):
        lowered_results(node, 21, {"x": np.zeros(())}, (), [np.zeros(1, np.int64)])
