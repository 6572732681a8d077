"""GridSample: its tensor expressions against ONNX's reference evaluator."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from daedal.common.errors import ModelError, UnsupportedError
from tests.support.onnx_operators import check_node, lowered_results

RNG = np.random.default_rng(8)

PADDINGS = ["zeros", "border", "reflection"]


def check(x: np.ndarray, grid: np.ndarray, opset: int = 20, **attributes: Any) -> None:
    tolerance = 2e-3 if x.dtype == np.float16 else 1e-5
    feeds = {"x": x, "grid": grid}
    check_node("GridSample", feeds, opset=opset, rtol=tolerance, atol=1e-4, **attributes)


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RNG.normal(size=shape).astype(dtype)


def coordinates(*shape: int, reach: float = 1.8) -> np.ndarray:
    """Some of them outside."""
    return RNG.uniform(-reach, reach, shape).astype(np.float32)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("aligned", [0, 1])
def test_images(mode: str, padding: str, aligned: int) -> None:
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": aligned}
    check(data(2, 2, 4, 5), coordinates(2, 3, 6, 2), **attributes)
    check(data(1, 1, 3, 2), coordinates(1, 5, 5, 2, reach=6), **attributes)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("padding", PADDINGS)
def test_volumes(mode: str, padding: str) -> None:
    grid = coordinates(1, 2, 3, 2, 3)
    check(data(1, 2, 3, 4, 2), grid, mode=mode, padding_mode=padding)


def test_lines() -> None:
    check(data(2, 1, 5), coordinates(2, 7, 1), mode="linear")


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_dtypes(dtype: str) -> None:
    check(data(1, 1, 4, 4, dtype=dtype), coordinates(1, 3, 3, 2))
    check((data(1, 1, 4, 4) * 50).astype(np.int8), coordinates(1, 3, 3, 2), mode="nearest")


def lowered(x: np.ndarray, grid: np.ndarray, opset: int = 20, **attributes: Any) -> np.ndarray:
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], **attributes)
    like = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
    (found,) = lowered_results(node, opset, {"x": x, "grid": grid}, (), [like])
    return found


@pytest.mark.parametrize(("old", "new"), [("bilinear", "linear"), ("bicubic", "cubic")])
def test_names_of_opset_16(old: str, new: str) -> None:
    x, grid = data(1, 2, 4, 3), coordinates(1, 4, 4, 2)
    found = lowered(x, grid, opset=16, mode=old)
    np.testing.assert_array_equal(found, lowered(x, grid, mode=new))
    if new == "linear":
        np.testing.assert_array_equal(found, lowered(x, grid, opset=16))


@pytest.mark.parametrize("padding", PADDINGS)
def test_far_outside(padding: str) -> None:
    """Coordinates beyond any index, of which numpy's integers would wrap."""
    x = np.full((1, 1, 2, 2), 3, np.float32)
    grid = np.array([[[[1e30, 0], [-1e30, 0], [np.inf, -np.inf]]]], np.float32)
    found = lowered(x, grid, mode="linear", padding_mode=padding)
    assert found.reshape(-1).tolist() == [0.0 if padding == "zeros" else 3.0] * 3


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match="elements must be floats"):
        lowered(np.ones((1, 1, 2, 2), np.int32), coordinates(1, 1, 1, 2))
    with pytest.raises(ModelError, match="mode must be nearest, linear or cubic, not 'odd'"):
        lowered(data(1, 1, 2, 2), coordinates(1, 1, 1, 2), mode="odd")
    with pytest.raises(ModelError, match="padding_mode must be zeros, border or reflection"):
        lowered(data(1, 1, 2, 2), coordinates(1, 1, 1, 2), padding_mode="odd")
    with pytest.raises(ModelError, match=r"a grid of \[1, 1, 1, 3\] does not fit"):
        lowered(data(1, 1, 2, 2), coordinates(1, 1, 1, 3))


@pytest.mark.parametrize("aligned", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 3, 2, 4, 5)])
def test_affine_grids(aligned: int, shape: tuple[int, ...]) -> None:
    theta = data(2, len(shape) - 2, len(shape) - 1)
    feeds = {"theta": theta, "size": np.array(shape, np.int64)}
    check_node("AffineGrid", feeds, constants=["size"], opset=20, align_corners=aligned)


def test_damaged_affine_grid() -> None:
    node = helper.make_node("AffineGrid", ["theta", "size"], ["y"])
    feeds = {"theta": data(1, 2, 2), "size": np.array([1, 1, 2, 2])}
    with pytest.raises(ModelError, match=r"theta of \[1, 2, 2\] does not fit \[1, 2, 2, 2\]"):
        lowered_results(node, 20, feeds, ["size"], [np.zeros((1, 2, 2, 2), np.float32)])
