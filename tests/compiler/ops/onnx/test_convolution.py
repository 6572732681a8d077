"""Convolutions as tensor expressions, against ONNX's reference evaluator and scatter sums."""

import itertools
from typing import Any

import numpy as np
import pytest

from daedal.common.errors import UnsupportedError
from tests.support.onnx_operators import check_node
from tests.support.onnx_values import check_values, floats, integers


@pytest.mark.parametrize(
    ("x", "w", "attributes"),
    [
        ((1, 3, 7), (4, 3, 3), {}),
        ((2, 2, 9), (3, 2, 4), {"strides": [2], "pads": [1, 2], "dilations": [2]}),
        ((1, 3, 8, 7), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
        ((2, 3, 8, 7), (5, 3, 1, 1), {}),
        ((1, 4, 9, 6), (6, 2, 3, 2), {"group": 2, "strides": [2, 1], "pads": [0, 1, 2, 0]}),
        ((1, 4, 6, 5), (4, 1, 3, 3), {"group": 4, "pads": [1, 1, 1, 1]}),
        ((1, 3, 5, 5), (6, 1, 3, 3), {"group": 3, "kernel_shape": [3, 3]}),
        ((2, 3, 4, 4), (3, 1, 1, 1), {"group": 3}),
        ((1, 2, 9, 9), (3, 2, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
        ((1, 2, 9, 8), (3, 2, 3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
        ((1, 2, 9, 8), (3, 2, 2, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
        ((1, 2, 9, 8), (3, 2, 3, 3), {"auto_pad": "VALID", "strides": [4, 1]}),
        ((1, 2, 8, 8), (3, 2, 3, 3), {"strides": [4, 4], "pads": [1, 1, 0, 0]}),
        ((1, 2, 4, 5, 6), (3, 2, 2, 3, 3), {"pads": [0, 1, 1, 1, 1, 0], "strides": [1, 2, 1]}),
    ],
)
def test_conv(x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any]) -> None:
    feeds = {"x": floats(*x), "w": floats(*w), "b": floats(w[0])}
    check_node("Conv", feeds, rtol=1e-4, atol=1e-5, **attributes)
    del feeds["b"]
    check_node("Conv", feeds, opset=11, rtol=1e-4, atol=1e-5, **attributes)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 3e-3), ("float64", 1e-12)])
def test_conv_dtypes(dtype: str, tolerance: float) -> None:
    feeds = {
        "x": floats(1, 3, 6, 5, dtype=dtype),
        "w": floats(2, 3, 3, 3, dtype=dtype) / 4,
        "b": floats(2, dtype=dtype),
    }
    check_node("Conv", feeds, opset=22, rtol=tolerance, atol=tolerance, pads=[1, 1, 1, 1])


def test_conv_of_four_dimensions_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="one to three dimensions"):
        check_node("Conv", {"x": floats(1, 1, 2, 2, 2, 2), "w": floats(1, 1, 1, 1, 1, 1)})


def transposed(
    x: np.ndarray, w: np.ndarray, group: int, strides: Any, dilations: Any, pads: Any, out: Any
) -> np.ndarray:
    """Every product scattered to where it belongs; onnx.reference has groups and output_shape
    wrong."""
    dims, width = x.ndim - 2, w.shape[1]
    y = np.zeros((x.shape[0], width * group, *out), dtype=np.float64)
    depth = x.shape[1] // group
    for channel, *at in itertools.product(*(range(extent) for extent in x.shape[1:])):
        for tap in itertools.product(*(range(extent) for extent in w.shape[2:])):
            place = [at[d] * strides[d] + tap[d] * dilations[d] - pads[d] for d in range(dims)]
            if any(not 0 <= place[d] < out[d] for d in range(dims)):
                continue
            first = channel // depth * width
            y[(slice(None), slice(first, first + width), *place)] += np.outer(
                x[(slice(None), channel, *at)], w[(channel, slice(None), *tap)]
            )
    return y.astype(x.dtype)


TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], Any, Any]] = [
    ((2, 3, 5), (3, 2, 3), {}, (0,), (7,)),
    ((1, 2, 5), (2, 3, 4), {"strides": [3], "pads": [1, 2]}, (1,), (13,)),
    ((1, 3, 4, 5), (3, 2, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}, (1, 1), (7, 9)),
    (
        (1, 3, 4, 5),
        (3, 2, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        (1, 1),
        (8, 10),
    ),
    ((1, 4, 4, 3), (4, 3, 2, 2), {"strides": [2, 2], "group": 2}, (0, 0), (8, 6)),
    ((1, 2, 4, 4), (2, 2, 3, 2), {"dilations": [2, 3]}, (0, 0), (8, 7)),
    ((1, 2, 4, 4), (2, 2, 3, 2), {"dilations": [2, 3], "strides": [3, 2]}, (0, 0), (14, 10)),
    ((1, 2, 3, 3), (2, 1, 2, 2), {"strides": [3, 3]}, (0, 0), (8, 8)),
    ((1, 2, 4, 4), (2, 3, 3, 3), {"strides": [2, 2], "output_shape": [10, 8]}, (0, 1), (10, 8)),
    ((1, 2, 4, 4), (2, 3, 3, 4), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, (0, 1), (8, 8)),
    ((1, 2, 4, 4), (2, 3, 3, 4), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}, (1, 1), (8, 8)),
    ((1, 2, 3, 8), (2, 3, 2, 2), {"strides": [3, 3], "auto_pad": "SAME_UPPER"}, (0, 0), (8, 23)),
    ((1, 2, 4, 4), (2, 3, 2, 2), {"strides": [2, 2], "output_shape": [10, 8]}, (0, 0), (10, 8)),
    ((1, 2, 2, 3, 3), (2, 2, 2, 3, 2), {"strides": [1, 2, 1]}, (0, 0, 0), (3, 7, 4)),
]


@pytest.mark.parametrize(("x", "w", "attributes", "pads", "out"), TRANSPOSED)
def test_conv_transpose(
    x: tuple[int, ...], w: tuple[int, ...], attributes: dict[str, Any], pads: Any, out: Any
) -> None:
    dims, group = len(x) - 2, attributes.get("group", 1)
    feeds = {"x": floats(*x), "w": floats(*w), "b": floats(w[1] * group)}
    strides = attributes.get("strides", [1] * dims)
    dilations = attributes.get("dilations", [1] * dims)
    plain = transposed(feeds["x"], feeds["w"], group, strides, dilations, pads, out)
    wanted = plain + feeds["b"].reshape(-1, *[1] * dims)
    check_values("ConvTranspose", feeds, [wanted], rtol=1e-4, atol=1e-5, **attributes)
    check_node("ConvTranspose", feeds, rtol=1e-4, atol=1e-5, **attributes)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("zero_points", [(), ("xz",), ("xz", "wz")])
def test_conv_integer(dtype: str, zero_points: tuple[str, ...]) -> None:
    feeds = {
        "x": integers(1, 2, 5, 6, dtype=dtype, high=100),
        "w": integers(3, 2, 3, 3, dtype="int8", low=-100, high=100),
        "xz": np.asarray(3, dtype),
        "wz": np.asarray(-2, "int8"),
    }
    kept = {name: feeds[name] for name in ("x", "w", *zero_points)}
    check_node("ConvInteger", kept, pads=[1, 0, 1, 1])
    check_node("ConvInteger", kept, constants=zero_points, strides=[2, 1])


def test_conv_integer_with_a_zero_point_per_channel() -> None:
    x, w = integers(1, 2, 5, 5, dtype="uint8", high=200), integers(3, 2, 3, 3, low=-100, high=100)
    zero = np.asarray([1, -2, 3], "int8")
    wanted = exact_sums(x, w.astype(np.int32) - zero.reshape(-1, 1, 1, 1), 7)
    feeds = {"x": x, "w": w, "xz": np.asarray(7, "uint8"), "wz": zero}
    check_values("ConvInteger", feeds, [wanted.astype(np.int32)])


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_qlinear_conv(dtype: str, per_channel: bool) -> None:
    feeds = {
        "x": integers(1, 2, 6, 5, dtype=dtype, high=100),
        "xs": np.asarray(0.0371, "float32"),
        "xz": np.asarray(3, dtype),
        "w": integers(3, 2, 3, 3, dtype="int8", low=-100, high=100),
        "ws": np.asarray([0.013, 0.021, 0.0171] if per_channel else 0.013, "float32"),
        "wz": np.asarray([3, 0, -4] if per_channel else 0, "int8"),
        "ys": np.asarray(0.0973, "float32"),
        "yz": np.asarray(5, dtype),
    }
    check_node("QLinearConv", feeds, pads=[1, 1, 0, 0])
    # A bias is a multiple of the scale of the products.
    bias = integers(3, dtype="int32", low=-500, high=500)
    weights = feeds["w"].astype(np.int32) - feeds["wz"].reshape(-1, 1, 1, 1)
    sums = exact_sums(feeds["x"], weights, int(feeds["xz"])) + bias.reshape(1, -1, 1, 1)
    scale = feeds["xs"] * feeds["ws"] / feeds["ys"]
    value = np.rint(sums * np.float64(scale.reshape(-1, 1, 1))) + int(feeds["yz"])
    info = np.iinfo(dtype)
    wanted = np.clip(value, info.min, info.max).astype(dtype)
    check_values("QLinearConv", {**feeds, "b": bias}, [wanted])


def exact_sums(x: np.ndarray, w: np.ndarray, zero_point: int) -> np.ndarray:
    """The sums of a 3x3 convolution without pads."""
    windows = np.lib.stride_tricks.sliding_window_view(
        x.astype(np.int64) - zero_point, (3, 3), axis=(2, 3)
    )
    return np.einsum("nchwij,mcij->nmhw", windows, w.astype(np.int64))


@pytest.mark.parametrize(
    ("x", "w", "out", "attributes"),
    [
        ((1, 2, 5, 6), (3, 2, 3, 3), (3, 4), {}),
        ((2, 2, 5, 6), (2, 2, 2, 2), (3, 3), {"strides": [2, 2], "pads": [1, 0, 0, 0]}),
        ((1, 4, 5, 5), (2, 2, 2, 3), (4, 5), {"group": 2, "offset_group": 2, "pads": [0, 1, 0, 1]}),
        ((1, 2, 6, 5), (1, 2, 2, 2), (4, 4), {"dilations": [2, 1], "offset_group": 2}),
    ],
)
def test_deform_conv(
    x: tuple[int, ...], w: tuple[int, ...], out: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    taps = w[2] * w[3] * attributes.get("offset_group", 1)
    feeds = {"x": floats(*x), "w": floats(*w), "offset": floats(x[0], 2 * taps, *out) * 1.5}
    check_node("DeformConv", feeds, rtol=1e-3, atol=1e-4, **attributes)
    feeds |= {"b": floats(w[0]), "mask": floats(x[0], taps, *out)}
    check_node("DeformConv", feeds, rtol=1e-3, atol=1e-4, **attributes)
