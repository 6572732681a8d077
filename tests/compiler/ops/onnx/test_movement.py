"""Operators that move elements: their tensor expressions against ONNX's reference evaluator."""

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import helper

from daedal.common.errors import ModelError, UnsupportedError
from tests.support.onnx_operators import check_node, lowered_results

RNG = np.random.default_rng(3)


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Elements that differ, so that each is recognized."""
    return np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_transpose(order: tuple[int, ...]) -> None:
    check_node("Transpose", {"x": data(2, 3, 4)}, perm=list(order))


@pytest.mark.parametrize("dtype", ["bool", "uint64", "int8", "float16"])
def test_transpose_reverses_axes(dtype: str) -> None:
    check_node("Transpose", {"x": data(2, 3, dtype=dtype)}, opset=7)
    check_node("Transpose", {"x": data(4, dtype=dtype)})


RESHAPES = [
    ((2, 3, 4), (2, 12)),
    ((2, 3, 4), (4, 6)),
    ((2, 3, 4), (24,)),
    ((2, 12), (2, 3, 4)),
    ((24,), (2, 3, 4)),
    ((6, 4), (3, 8)),
    ((1, 6, 1), (2, 1, 3)),
    ((6,), (1, 6, 1)),
    ((1, 1), (1,)),
    ((1, 1), ()),
    ((), (1, 1)),
    ((), ()),
    ((3, 1, 5), (1, 3, 5, 1, 1)),
    ((4, 6, 5), (2, 12, 5)),
]


@pytest.mark.parametrize(("old", "new"), RESHAPES)
def test_reshape(old: tuple[int, ...], new: tuple[int, ...]) -> None:
    check_node("Reshape", {"x": data(*old), "shape": ints(*new)}, constants=["shape"])


def test_reshape_of_inferred_extents() -> None:
    feeds = {"x": data(2, 3, 4), "shape": ints(0, -1)}
    check_node("Reshape", feeds, constants=["shape"], allowzero=0)
    check_node("Reshape", feeds, constants=["shape"], opset=7)


@pytest.mark.parametrize("axis", range(-3, 4))
def test_flatten(axis: int) -> None:
    check_node("Flatten", {"x": data(2, 3, 4)}, axis=axis)


@pytest.mark.parametrize("axes", [(0,), (-2,), (0, 2)])
def test_squeeze_and_unsqueeze(axes: tuple[int, ...]) -> None:
    x = data(1, 3, 1, 2)
    check_node("Squeeze", {"x": x, "axes": ints(*axes)}, constants=["axes"])
    check_node("Unsqueeze", {"x": x, "axes": ints(*axes)}, constants=["axes"])
    check_node("Unsqueeze", {"x": x, "axes": ints(-1, 1, -4)}, constants=["axes"])
    positive = [axis % 4 for axis in axes]
    check_node("Squeeze", {"x": x}, opset=11, axes=positive)
    check_node("Unsqueeze", {"x": x}, opset=11, axes=positive)
    check_node("Squeeze", {"x": x})


SLICES = [
    ((0, 0), (2, 3), (0, 1), (1, 1)),
    ((1, -3), (100, -1), (0, 1), (1, 1)),
    ((-1,), (-100,), (1,), (-1,)),
    ((4, 3), (0, 0), (1, 0), (-2, -3)),
    ((-100,), (100,), (-1,), (3,)),
    ((9,), (-(2**63),), (-1,), (-4,)),
    ((1,), (2**63 - 1,), (-2,), (2,)),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps"), SLICES)
def test_slice(
    starts: tuple[int, ...], ends: tuple[int, ...], axes: tuple[int, ...], steps: tuple[int, ...]
) -> None:
    feeds = {"x": data(4, 6), "starts": ints(*starts), "ends": ints(*ends), "axes": ints(*axes)}
    if set(steps) == {1}:
        check_node("Slice", feeds, constants=["starts", "ends", "axes"])
        positive = [axis % 2 for axis in axes]
        attributes = {"starts": list(starts), "ends": list(ends), "axes": positive}
        check_node("Slice", {"x": data(4, 6)}, opset=9, **attributes)
    feeds["steps"] = ints(*steps)
    check_node("Slice", feeds, constants=["starts", "ends", "axes", "steps"])


def test_slice_without_axes() -> None:
    feeds = {"x": data(4, 6, dtype="int8"), "starts": ints(1, 2), "ends": ints(3, 9)}
    check_node("Slice", feeds, constants=["starts", "ends"])
    check_node("Slice", {"x": data(4, 6)}, opset=7, starts=[1], ends=[-1])


def test_slice_of_values_known_at_run_time_only() -> None:
    feeds = {"x": data(4), "starts": ints(1), "ends": ints(3)}
    with pytest.raises(UnsupportedError, match="operand 1 must be constant"):
        check_node("Slice", feeds)


@pytest.mark.parametrize("axis", [0, 1, -1, -3])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_concat(axis: int, count: int) -> None:
    shape = [2, 3, 2]
    feeds = {}
    for number in range(count):
        shape[axis] = number % 3 + 1
        feeds[f"x{number}"] = data(*shape, dtype="int32") + 100 * number
    check_node("Concat", feeds, axis=axis)


@pytest.mark.parametrize("dtype", ["bool", "uint64", "float16"])
def test_concat_of_dtypes(dtype: str) -> None:
    check_node("Concat", {"a": data(2, dtype=dtype), "b": data(3, dtype=dtype)}, axis=0)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_split(axis: int) -> None:
    x = data(6, 6, 6)
    check_node("Split", {"x": x}, results=3, opset=13, axis=axis)
    check_node("Split", {"x": x}, results=3, opset=7, axis=axis)
    check_node("Split", {"x": x}, results=3, axis=axis, num_outputs=3)
    check_node("Split", {"x": x}, results=2, opset=11, axis=axis, split=[1, 5])
    feeds = {"x": x, "sizes": ints(2, 1, 3)}
    check_node("Split", feeds, results=3, constants=["sizes"], axis=axis)


def test_split_into_uneven_parts() -> None:
    check_node("Split", {"x": data(7)}, results=3, num_outputs=3)
    with pytest.raises(ModelError, match=r"sizes must sum up to 7, not be \[3, 5\]"):
        check_node("Split", {"x": data(7)}, results=2, opset=11, split=[3, 5])


@pytest.mark.parametrize("repeats", [(1, 1), (2, 1), (3, 2)])
def test_tile(repeats: tuple[int, ...]) -> None:
    feeds = {"x": data(2, 3), "repeats": ints(*repeats)}
    check_node("Tile", feeds, constants=["repeats"])
    check_node("Tile", feeds, constants=["repeats"], opset=7)


@pytest.mark.parametrize("shape", [(2, 3), (4, 2, 3), (2, 1), (1,), (5, 1, 1, 1)])
def test_expand(shape: tuple[int, ...]) -> None:
    for old in ((2, 1), (1, 3), (1,), ()):
        try:
            np.broadcast_shapes(old, shape)
        except ValueError:
            continue
        check_node("Expand", {"x": data(*old), "shape": ints(*shape)}, constants=["shape"])


@pytest.mark.parametrize("mode", [{}, {"mode": "DCR"}, {"mode": "CRD"}])
@pytest.mark.parametrize("block", [1, 2, 3])
def test_depth_and_space(mode: dict[str, Any], block: int) -> None:
    x = data(2, 2 * block**2, 2, 3)
    check_node("DepthToSpace", {"x": x}, blocksize=block, **mode)
    x = data(2, 3, 2 * block, 3 * block)
    check_node("SpaceToDepth", {"x": x}, opset=28 if mode else 13, blocksize=block, **mode)


@pytest.mark.parametrize(("batch", "time"), [(0, 1), (1, 0)])
def test_reverse_sequence(batch: int, time: int) -> None:
    x = data(4, 4, 2)
    feeds = {"x": x, "lengths": ints(1, 2, 4, 3)}
    check_node("ReverseSequence", feeds, batch_axis=batch, time_axis=time)


@pytest.mark.parametrize("axis", [2, -3])
def test_axes_outside(axis: int) -> None:
    x = data(2, 2)
    node = helper.make_node("Concat", ["x", "x"], ["y"], axis=axis)
    with pytest.raises(ModelError, match=f"an axis must be from -2 to 1, not {axis}"):
        lowered_results(node, 21, {"x": x}, (), [x])
