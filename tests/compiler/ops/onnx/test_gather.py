"""Gathers and scatters: their tensor expressions against ONNX's reference evaluator."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from daedal.common.errors import ModelError, UnsupportedError
from tests.support.onnx_operators import check_node, lowered_results

RNG = np.random.default_rng(5)

REDUCTIONS = ["none", "add", "mul", "max", "min"]
DTYPES = ["int8", "uint16", "int32", "uint64", "float16", "float32", "float64"]


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.asarray(RNG.integers(1, 9, shape)).astype(dtype)


def indices(extent: int, *shape: int, dtype: str = "int64") -> np.ndarray:
    """Any that are allowed, half of them negative."""
    return np.asarray(RNG.integers(-extent, extent, shape)).astype(dtype)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3)])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_gather(axis: int, shape: tuple[int, ...], dtype: str) -> None:
    x = data(4, 5, 6)
    feeds = {"x": x, "i": indices(x.shape[axis], *shape, dtype=dtype)}
    check_node("Gather", feeds, axis=axis)


@pytest.mark.parametrize("dtype", ["bool", *DTYPES])
def test_gather_from_one_axis(dtype: str) -> None:
    x = data(7, dtype=dtype)
    check_node("Gather", {"x": x, "i": indices(7)}, opset=7)
    check_node("Gather", {"x": x, "i": indices(7, 3, 2)}, opset=7)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_gather_elements(axis: int) -> None:
    """Against numpy: the reference does not take negative axes."""
    x = data(4, 5, 6)
    shape = [4, 5, 6]
    shape[axis] = 3
    feeds = {"x": x, "i": indices(x.shape[axis], *shape)}
    wanted = np.take_along_axis(x, feeds["i"], axis)
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=axis)
    (found,) = lowered_results(node, 21, feeds, (), [wanted])
    np.testing.assert_array_equal(found, wanted)
    check_node("GatherElements", {"x": data(4), "i": indices(4, 9)})


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("outer", [(), (5,), (2, 3)])
def test_gather_nd(depth: int, outer: tuple[int, ...]) -> None:
    feeds = {"x": data(4, 4, 4), "i": indices(4, *outer, depth)}
    check_node("GatherND", feeds)
    if not outer:
        check_node("GatherND", feeds, opset=11)


@pytest.mark.parametrize(("batch", "shape"), [(1, (2, 2)), (1, (2, 5, 1)), (2, (2, 3, 1))])
def test_gather_nd_in_batches(batch: int, shape: tuple[int, ...]) -> None:
    check_node("GatherND", {"x": data(2, 3, 4), "i": indices(3, *shape)}, batch_dims=batch)


def test_indices_outside_read_the_nearest_element() -> None:
    feeds = {"x": np.arange(4, dtype=np.float32), "i": np.array([9, -9, 4, -5])}
    node = helper.make_node("Gather", ["x", "i"], ["y"])
    (found,) = lowered_results(node, 21, feeds, (), [np.zeros(4, np.float32)])
    assert found.tolist() == [3, 0, 3, 0]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_elements(reduction: str, axis: int, dtype: str) -> None:
    x = data(4, 5, 3, dtype=dtype)
    for shape in ((4, 5, 3), (2, 3, 2), (1, 1, 1)):
        feeds = {"x": x, "i": indices(x.shape[axis], *shape), "u": data(*shape, dtype=dtype)}
        check_node("ScatterElements", feeds, axis=axis, reduction=reduction)


@pytest.mark.parametrize("op_type", ["Scatter", "ScatterElements"])
def test_scatter_without_reduction(op_type: str) -> None:
    feeds = {"x": data(5, 2), "i": indices(5, 3, 2), "u": data(3, 2)}
    for attributes in ({}, {"axis": 0}):
        lowered: dict[str, Any] = attributes
        opset = 10 if op_type == "Scatter" else 11
        node = helper.make_node(op_type, ["x", "i", "u"], ["y"], **lowered)
        (found,) = lowered_results(node, opset, feeds, (), [feeds["x"]])
        wanted = feeds["x"].copy()
        for row, column in np.ndindex(3, 2):
            wanted[feeds["i"][row, column], column] = feeds["u"][row, column]
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["bool", *DTYPES])
def test_scatter_of_dtypes(dtype: str) -> None:
    feeds = {"x": data(6, dtype=dtype), "i": indices(6, 3), "u": data(3, dtype=dtype)}
    check_node("ScatterElements", feeds)
    check_node("ScatterND", {**feeds, "i": feeds["i"].reshape(3, 1)})


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("outer", [(4,), (2, 3), ()])
def test_scatter_nd(reduction: str, depth: int, outer: tuple[int, ...]) -> None:
    x = data(3, 3, 3)
    updates = data(*outer, *x.shape[depth:])
    feeds = {"x": x, "i": indices(3, *outer, depth), "u": updates}
    check_node("ScatterND", feeds, reduction=reduction)


def test_updates_outside_are_dropped() -> None:
    feeds = {"x": data(4), "i": np.array([[9], [-9], [4]]), "u": data(3)}
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"])
    (found,) = lowered_results(node, 21, feeds, (), [feeds["x"]])
    assert found.tolist() == feeds["x"].tolist()


@pytest.mark.parametrize("mode", ["linear", "circular"])
@pytest.mark.parametrize(("axis", "shape"), [(-2, (3, 2, 6, 4)), (1, (3, 5, 2)), (2, (3, 2, 6))])
def test_cache_updates(mode: str, axis: int, shape: tuple[int, ...]) -> None:
    cache, update = data(*shape), list(shape)
    update[axis] = 2
    feeds = {"x": cache, "u": data(*update)}
    check_node("TensorScatter", feeds, opset=24, axis=axis, mode=mode)
    last = cache.shape[axis] - (1 if mode == "circular" else 2)
    feeds["starts"] = np.array([0, last, 1], np.int64)
    check_node("TensorScatter", feeds, opset=24, axis=axis, mode=mode)


def test_refusals() -> None:
    feeds = {"x": data(4097, 4097, dtype="bool"), "i": indices(4, 1, 1), "u": data(1, 4097)}
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction="add")
    with pytest.raises(UnsupportedError, match="at most 16777216 steps, not 16785409"):
        lowered_results(node, 21, feeds, (), [feeds["x"]])
    feeds = {"x": data(40), "i": indices(4, 33), "u": data(33)}
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="mul")
    with pytest.raises(UnsupportedError, match="at most 32 updates may be multiplied, not 33"):
        lowered_results(node, 21, feeds, (), [feeds["x"]])
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="sum")
    with pytest.raises(ModelError, match="reduction must be one of none, add, mul, max, min"):
        lowered_results(node, 21, feeds, (), [feeds["x"]])
