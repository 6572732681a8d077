"""Pools as tensor expressions, against ONNX's reference evaluator and against explicit windows."""

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import helper

from daedal.compiler.graph.ops.foreign import evaluate_onnx
from tests.support.onnx_operators import NEWEST, check_node, lowered_results
from tests.support.onnx_values import check_values, floats, integers

WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 2, 7), {"kernel_shape": [3]}),
    ((2, 3, 8), {"kernel_shape": [2], "strides": [2], "pads": [1, 0]}),
    ((1, 2, 8, 7), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ((1, 2, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ((1, 2, 8, 7), {"kernel_shape": [3, 2], "pads": [1, 1, 1, 1]}),
    ((1, 2, 8, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 1, 4, 4), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    ((1, 1, 2, 2), {"kernel_shape": [1, 1], "strides": [2, 2], "ceil_mode": 1}),
    (
        (1, 1, 7, 8),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
    ),
    ((1, 2, 8, 7), {"kernel_shape": [3, 2], "strides": [2, 3], "auto_pad": "SAME_UPPER"}),
    ((1, 2, 9, 7), {"kernel_shape": [2, 2], "strides": [2, 1], "auto_pad": "VALID"}),
    ((1, 2, 9, 11), {"kernel_shape": [5, 6], "pads": [2, 2, 2, 2]}),  # rows first
    ((1, 2, 9, 11), {"kernel_shape": [7, 5], "strides": [1, 2], "pads": [3, 2, 3, 2]}),
    ((1, 1, 12, 9), {"kernel_shape": [6, 6], "strides": [2, 2], "ceil_mode": 1}),
    (
        (1, 2, 4, 5, 6),
        {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [0, 1, 1, 1, 1, 0]},
    ),
]

DILATED: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((1, 1, 14, 15), {"kernel_shape": [4, 5], "dilations": [2, 3], "pads": [3, 6, 3, 6]}),
    ((1, 2, 9), {"kernel_shape": [3], "dilations": [2], "pads": [1, 2]}),
    ((1, 2, 9, 8), {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [2, 1, 1, 1]}),
    (
        (1, 1, 8, 9),
        {"kernel_shape": [2, 3], "dilations": [3, 2], "strides": [2, 2], "ceil_mode": 1},
    ),
]


@pytest.mark.parametrize(("shape", "attributes"), [*WINDOWS, *DILATED])
def test_max_pool(shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    check_node("MaxPool", {"x": floats(*shape) - 3}, **attributes)


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((2, 2, 7), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
        ((2, 3, 6, 5), {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1]}),
        ((1, 2, 6, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
        ((1, 2, 4, 5, 3), {"kernel_shape": [2, 2, 2], "strides": [2, 1, 1]}),
    ],
)
def test_max_pool_indices(
    shape: tuple[int, ...], attributes: dict[str, Any], storage_order: int
) -> None:
    # Few different values: the first of equal ones is meant.
    x = integers(*shape, low=-2, high=1).astype(np.float32)
    check_node("MaxPool", {"x": x}, results=2, storage_order=storage_order, **attributes)


def test_max_pool_finds_an_infinity_that_is_no_pad() -> None:
    x = np.full((1, 1, 3), -np.inf, np.float32)
    check_node("MaxPool", {"x": x}, results=2, kernel_shape=[2], pads=[1, 1], strides=[2])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "float64"])
def test_max_pool_dtypes(dtype: str) -> None:
    x = integers(1, 2, 7, 6, low=-100, high=100).astype(dtype)
    check_node("MaxPool", {"x": x}, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize(("shape", "attributes"), [*WINDOWS, *DILATED])
def test_average_pool(
    shape: tuple[int, ...], attributes: dict[str, Any], count_include_pad: int
) -> None:
    x = floats(*shape)
    check_node("AveragePool", {"x": x}, count_include_pad=count_include_pad, **attributes)
    if "dilations" not in attributes:
        check_node("AveragePool", {"x": x}, opset=10, **attributes)


def average(
    x: np.ndarray, kernel: int, stride: int, pads: tuple[int, int], out: int, include: bool
) -> np.ndarray:
    """Averages along the last axis, one window after the other."""
    found = np.zeros((*x.shape[:2], out), x.dtype)
    extent = x.shape[-1]
    for position in range(out):
        first = position * stride - pads[0]
        taps = range(first, first + kernel)
        inside = [at for at in taps if 0 <= at < extent]
        counted = [at for at in taps if -pads[0] <= at < extent + pads[1]]
        total = x[..., inside].sum(axis=-1)
        found[..., position] = total / len(counted if include else inside)
    return found


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize(
    ("extent", "kernel", "stride", "pads", "out"),
    [(6, 5, 4, (0, 0), 2), (7, 4, 4, (0, 0), 2), (8, 5, 3, (1, 0), 3), (8, 6, 5, (1, 1), 2)],
)
def test_ceil_mode_adds_behind_the_map(
    extent: int, kernel: int, stride: int, pads: tuple[int, int], out: int, count_include_pad: int
) -> None:
    """ONNX's evaluator puts half of what ceil_mode adds before the map, which moves all windows."""
    x = floats(1, 2, extent)
    wanted = average(x, kernel, stride, pads, out, bool(count_include_pad))
    check_values(
        "AveragePool",
        {"x": x},
        [wanted],
        kernel_shape=[kernel],
        strides=[stride],
        pads=list(pads),
        ceil_mode=1,
        count_include_pad=count_include_pad,
    )


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("float64", 1e-12)])
def test_average_pool_dtypes(dtype: str, tolerance: float) -> None:
    feeds = {"x": floats(1, 2, 7, 6, dtype=dtype)}
    check_node(
        "AveragePool", feeds, rtol=tolerance, atol=tolerance, kernel_shape=[3, 3], pads=[1, 1, 1, 1]
    )


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 2, 7), {"kernel_shape": [3]}),
        ((1, 2, 8, 7), {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}),
        ((1, 2, 8, 7), {"kernel_shape": [3, 2], "dilations": [2, 1]}),
        ((1, 1, 4, 5, 3), {"kernel_shape": [2, 2, 2]}),
    ],
)
def test_lp_pool(shape: tuple[int, ...], attributes: dict[str, Any], p: int) -> None:
    """Against sums over explicit windows: ONNX's evaluator multiplies averages by the kernel's
    size, which is another number where pads are not counted."""
    x = floats(*shape)
    dims = len(shape) - 2
    pads = attributes.get("pads", [0] * (2 * dims))
    padded = np.pad(np.abs(x) ** p, [(0, 0), (0, 0), *zip(pads[:dims], pads[dims:], strict=True)])
    total: Any = 0
    kernel, steps = attributes["kernel_shape"], attributes.get("dilations", [1] * dims)
    strides = attributes.get("strides", [1] * dims)
    for tap in itertools.product(*(range(extent) for extent in kernel)):
        window = [slice(None), slice(None)]
        for dim, at in enumerate(tap):
            size = padded.shape[2 + dim] - (kernel[dim] - 1) * steps[dim]
            window.append(slice(at * steps[dim], at * steps[dim] + size, strides[dim]))
        total = total + padded[tuple(window)]
    wanted = (total ** (1 / p)).astype(np.float32)
    check_values("LpPool", {"x": x}, [wanted], p=p, **attributes)


@pytest.mark.parametrize("shape", [(2, 3, 7), (1, 3, 5, 4), (2, 2, 3, 1, 4), (1, 2, 1, 1)])
def test_global_pools(shape: tuple[int, ...]) -> None:
    """The maximum against numpy: ONNX's evaluator gives another rank unless the rank is 4."""
    feeds = {"x": floats(*shape)}
    check_node("GlobalAveragePool", feeds)
    half = {"x": floats(*shape, dtype="float16")}
    check_node("GlobalAveragePool", half, rtol=2e-3, atol=1e-3)
    axes = tuple(range(2, len(shape)))
    check_values("GlobalMaxPool", feeds, [feeds["x"].max(axis=axes, keepdims=True)])


@pytest.mark.parametrize("p", [1, 2, 3])
def test_global_lp_pool(p: int) -> None:
    """ONNX's evaluator has none."""
    x = floats(2, 3, 4, 5)
    wanted = (np.abs(x) ** p).sum(axis=(2, 3), keepdims=True) ** (1 / p)
    check_values("GlobalLpPool", {"x": x}, [wanted.astype(np.float32)], p=p)


@pytest.mark.parametrize(("shape", "attributes"), [*WINDOWS, *DILATED])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_nan_is_no_maximum(
    shape: tuple[int, ...], attributes: dict[str, Any], dtype: str
) -> None:
    """Where a window has numbers, too: as if it were less than all of them."""
    small = -9
    x = floats(*shape).astype(dtype) - 3
    x[np.indices(shape).sum(0) % 3 == 1] = small
    node = helper.make_node("MaxPool", ["x"], ["y"], **attributes)
    wanted = evaluate_onnx(node, NEWEST, {"x": x})
    (found,) = lowered_results(
        node, NEWEST, {"x": np.where(x == small, np.nan, x).astype(dtype)}, (), wanted
    )
    some = wanted[0] > small
    assert some.any()
    np.testing.assert_array_equal(found[some], wanted[0][some])


def test_nothing_but_nan_is_nan() -> None:
    x = np.full((1, 1, 5, 7), np.nan, np.float32)
    x[..., 4:] = -np.inf
    attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    node = helper.make_node("MaxPool", ["x"], ["y"], **attributes)
    like = np.zeros((1, 1, 3, 4), np.float32)
    (found,) = lowered_results(node, NEWEST, {"x": x}, (), [like], loops=True)
    assert np.isnan(found[..., :2]).all() and (found[..., 3] == -np.inf).all()
