"""Padding and cropping: tensor expressions against ONNX's reference evaluator, and numpy."""

from typing import Any

import numpy as np
import pytest
from onnx import helper

from daedal.common.errors import ModelError
from tests.support.onnx_operators import check_node, lowered_results

MODES = ["constant", "edge", "reflect", "wrap"]
DTYPES = ["bool", "int8", "uint8", "int64", "uint64", "float16", "float64"]


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape))).astype(dtype).reshape(shape)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def lowered(x: np.ndarray, wanted: np.ndarray, pads: np.ndarray, **attributes: Any) -> np.ndarray:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], **attributes)
    (found,) = lowered_results(node, 21, {"x": x, "pads": pads}, ["pads"], [wanted])
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 2, 0, 1), (0, 3, 2, 0), (1, 1, 1, 1)])
def test_modes(mode: str, pads: tuple[int, ...]) -> None:
    feeds = {"x": data(3, 4), "pads": ints(*pads)}
    check_node("Pad", feeds, constants=["pads"], mode=mode)
    if mode != "wrap":
        check_node("Pad", feeds, constants=["pads"], mode=mode, opset=11)
        check_node("Pad", {"x": data(3, 4)}, mode=mode, opset=7, pads=list(pads))


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_more_than_the_extent(mode: str) -> None:
    check_node("Pad", {"x": data(3), "pads": ints(8, 7)}, constants=["pads"], mode=mode)
    check_node("Pad", {"x": data(1), "pads": ints(2, 3)}, constants=["pads"], mode=mode)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values(dtype: str) -> None:
    for value in (0, 1, 77):
        feeds = {"x": data(2, 3, dtype=dtype), "pads": ints(1, 0, 2, 1)}
        feeds["value"] = np.array(value).astype(dtype)
        check_node("Pad", feeds, constants=["pads", "value"])
        check_node("Pad", feeds, constants=["pads"])
    check_node("Pad", {"x": data(2)}, opset=7, pads=[1, 2], value=2.5)


def test_chosen_axes() -> None:
    feeds = {"x": data(2, 3, 4), "pads": ints(1, 0, 2, 3), "axes": ints(-1, 0)}
    inputs = ["x", "pads", "", "axes"]
    for mode in MODES:
        check_node("Pad", feeds, constants=["pads", "axes"], inputs=inputs, mode=mode)


def test_rank_0() -> None:
    x = np.full((), 3, np.float32)
    for mode in MODES:
        np.testing.assert_array_equal(lowered(x, x, ints(), mode=mode), x)


@pytest.mark.parametrize("mode", MODES)
def test_negative_pads_crop(mode: str) -> None:
    x = data(5, 4)
    wanted = x[1:, :-2]
    np.testing.assert_array_equal(lowered(x, wanted, ints(-1, 0, 0, -2), mode=mode), wanted)


def test_negative_pads_beside_positive_ones() -> None:
    x = data(5, 4)
    wanted = np.pad(x[2:, :-1], ((0, 3), (1, 0)))
    np.testing.assert_array_equal(lowered(x, wanted, ints(-2, 1, 3, -1)), wanted)
    wanted = np.pad(x[:-1], ((2, 0), (0, 0)), mode="edge")
    np.testing.assert_array_equal(lowered(x, wanted, ints(2, 0, -1, 0), mode="edge"), wanted)


def test_damaged() -> None:
    with pytest.raises(ModelError, match="pads must be two per axis"):
        lowered(data(2, 2), data(2, 2), ints(1, 2))
    with pytest.raises(ModelError, match="mode must be constant, edge, reflect or wrap, not 'odd'"):
        lowered(data(2), data(4), ints(1, 1), mode="odd")


@pytest.mark.parametrize("shape", [(4, 5), (2, 8), (7, 4), (1, 1), (5, 6)])
def test_center_crop_pad(shape: tuple[int, ...]) -> None:
    feeds = {"x": data(4, 5), "shape": ints(*shape)}
    check_node("CenterCropPad", feeds, constants=["shape"])
    feeds = {"x": data(4, 5, 2), "shape": ints(*shape[::-1])}
    check_node("CenterCropPad", feeds, constants=["shape"], axes=[1, 0])
