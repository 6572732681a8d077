"""Reductions as tensor expressions, against ONNX's reference evaluator."""

from typing import Any

import numpy as np
import pytest

from daedal.common.errors import ModelError, UnsupportedError
from tests.support.onnx_operators import check_node
from tests.support.onnx_values import check_values, floats, integers

FLOATS = [
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
]
INTEGERS = [
    *("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    *("ReduceSum", "ReduceSumSquare"),
]
AXES: list[tuple[tuple[int, ...], list[int] | None]] = [
    ((5,), None),
    ((5,), [0]),
    ((3, 1, 5), None),
    ((3, 1, 5), [1]),
    ((3, 4, 5), [-1]),
    ((3, 4, 5), [0, 2]),
    ((2, 3, 4, 5), [-1, 1]),
    ((2, 3, 4, 5), [2, 3]),
]


def operand(op_type: str, shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    x = floats(*shape, dtype=dtype)
    return np.abs(x) if op_type == "ReduceLogSum" else x


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("op_type", FLOATS)
@pytest.mark.parametrize(("shape", "axes"), AXES)
def test_reductions(
    op_type: str, shape: tuple[int, ...], axes: list[int] | None, keepdims: int
) -> None:
    x = operand(op_type, shape)
    feeds, given = {"x": x}, {} if axes is None else {"axes": axes}
    if op_type != "ReduceSum":
        check_node(op_type, feeds, opset=13, atol=1e-5, keepdims=keepdims, **given)
    else:
        check_node(op_type, feeds, opset=11, atol=1e-5, keepdims=keepdims, **given)
    if axes is not None:
        feeds["axes"] = np.asarray(axes)
    check_node(op_type, feeds, constants=["axes"], opset=18, atol=1e-5, keepdims=keepdims)


@pytest.mark.parametrize("op_type", FLOATS)
def test_no_axes_and_rank_0(op_type: str) -> None:
    check_node(op_type, {"x": operand(op_type, (2, 3))}, opset=18, noop_with_empty_axes=1)
    scalar = np.asarray(0.75, np.float32)
    if op_type != "ReduceLogSumExp":
        check_node(op_type, {"x": scalar}, opset=18, keepdims=0)
    else:
        check_values(op_type, {"x": scalar}, [scalar], opset=18)


@pytest.mark.parametrize("op_type", FLOATS)
def test_float16_and_float64(op_type: str) -> None:
    check_node(op_type, {"x": operand(op_type, (3, 5), "float16")}, opset=18, rtol=3e-3, atol=3e-3)
    check_node(op_type, {"x": operand(op_type, (3, 5), "float64")}, opset=18, rtol=1e-12)


@pytest.mark.parametrize("op_type", INTEGERS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
def test_integers(op_type: str, dtype: str) -> None:
    x = integers(3, 4, dtype=dtype, low=-4, high=4)
    feeds = {"x": x, "axes": np.asarray([1])}
    if op_type != "ReduceSumSquare":
        check_node(op_type, feeds, constants=["axes"], opset=18)
        return
    # ONNX's evaluator gives 64 bits here.
    wanted = np.square(x).sum(axis=1, keepdims=True).astype(dtype)
    check_values(op_type, feeds, [wanted], constants=["axes"], opset=18)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool"])
def test_extremes_of_small_types(op_type: str, dtype: str) -> None:
    x = integers(3, 3, 2, low=0, high=1).astype(dtype)
    check_node(op_type, {"x": x, "axes": np.asarray([2])}, constants=["axes"], opset=20)


def test_log_sum_exp_of_infinities_and_large_numbers() -> None:
    """ONNX's evaluator gives NaN where all are minus infinity."""
    x = np.asarray([[-np.inf, -np.inf], [-np.inf, 3], [np.inf, 2], [1000, 1000]], np.float32)
    wanted = np.asarray([[-np.inf], [3], [np.inf], [1000 + np.log(2)]], np.float32)
    feeds = {"x": x, "axes": np.asarray([1])}
    check_values("ReduceLogSumExp", feeds, [wanted], constants=["axes"], opset=18)


def test_logarithms_are_of_floats() -> None:
    for op_type in ("ReduceLogSum", "ReduceLogSumExp"):
        with pytest.raises(UnsupportedError, match="the operand must be a float"):
            check_values(op_type, {"x": integers(2, 3)}, [floats(1, 1)])


def test_axes_must_be_constant_and_there() -> None:
    feeds = {"x": floats(2, 3), "axes": np.asarray([1])}
    with pytest.raises(UnsupportedError, match="operand 1 must be constant"):
        check_values("ReduceSum", feeds, [floats(2, 1)])
    feeds["axes"] = np.asarray([2])
    with pytest.raises(ModelError, match="axis must be from -2 to 1, not 2"):
        check_values("ReduceSum", feeds, [floats(2, 1)], constants=["axes"])
    feeds["axes"] = np.asarray([1, -1])
    with pytest.raises(ModelError, match="axes must differ"):
        check_values("ReduceSum", feeds, [floats(2, 1)], constants=["axes"])


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 5), 0), ((3, 5), -1), ((2, 9, 4), 1)])
def test_places(op_type: str, shape: tuple[int, ...], axis: int, keepdims: int, last: int) -> None:
    attributes = {"axis": axis, "keepdims": keepdims, "select_last_index": last}
    for dtype in ("float32", "int8", "int32"):
        x = integers(*shape, low=-2, high=2).astype(dtype)
        check_node(op_type, {"x": x}, **attributes)
    check_node(op_type, {"x": floats(*shape)}, axis=axis, opset=11)


def test_argmax_finds_nan_and_infinity() -> None:
    x = np.asarray([[1, np.nan, 2], [-np.inf, -np.inf, -np.inf], [0, np.inf, 1]], np.float32)
    check_node("ArgMax", {"x": x}, axis=1)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5,), 0), ((2, 3), 1), ((2, 3, 4), 1), ((2, 3, 4), 2)]
)
def test_softmax(op_type: str, shape: tuple[int, ...], axis: int) -> None:
    # ONNX's evaluator takes the logarithm of what a softmax rounds to 0.
    x = floats(*shape) * (5 if op_type == "LogSoftmax" else 50)
    check_node(op_type, {"x": x}, axis=axis, atol=1e-5)
    check_node(op_type, {"x": x}, axis=axis - len(shape), atol=1e-5)
    check_node(op_type, {"x": x}, atol=1e-5)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
def test_softmax_before_opset_13_is_of_a_matrix(op_type: str, axis: int | None) -> None:
    """Against a reshaped operand: ONNX's evaluator has the newest version alone."""
    x = floats(2, 3, 4)
    split = (1 if axis is None else axis) % 3
    flat = x.reshape(int(np.prod(x.shape[:split])), -1).astype(np.float64)
    powers = np.exp(flat - flat.max(axis=1, keepdims=True))
    wanted = powers / powers.sum(axis=1, keepdims=True)
    if op_type == "LogSoftmax":
        wanted = np.log(wanted)
    if op_type == "Hardmax":
        wanted = np.eye(flat.shape[1])[flat.argmax(axis=1)]
    given: dict[str, Any] = {} if axis is None else {"axis": axis}
    result = wanted.reshape(x.shape).astype(np.float32)
    check_values(op_type, {"x": x}, [result], opset=11, **given)


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 4e-3), ("float64", 1e-12)])
def test_softmax_dtypes(op_type: str, dtype: str, tolerance: float) -> None:
    check_node(op_type, {"x": floats(3, 5, dtype=dtype)}, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((7,), 0), ((3, 5), 0), ((3, 5), -1), ((2, 4, 3), 1)])
def test_cumsum(shape: tuple[int, ...], axis: int, exclusive: int, reverse: int) -> None:
    attributes = {"exclusive": exclusive, "reverse": reverse}
    for dtype in ("float32", "float64", "int32", "int64"):
        x = integers(*shape).astype(dtype)
        feeds = {"x": x, "axis": np.asarray(axis)}
        check_node("CumSum", feeds, constants=["axis"], **attributes)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((65,), 0), ((2, 100), 1), ((71, 2), 0)])
def test_long_cumsum(shape: tuple[int, ...], axis: int, exclusive: int, reverse: int) -> None:
    """Axes that are scanned in blocks, the last of which is not full."""
    feeds = {"x": integers(*shape, dtype="int32"), "axis": np.asarray(axis)}
    check_node("CumSum", feeds, constants=["axis"], exclusive=exclusive, reverse=reverse)
    feeds["x"] = 1 + floats(*shape, dtype="float64") / 8
    check_node("CumProd", feeds, constants=["axis"], opset=26, exclusive=exclusive, reverse=reverse)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_cumprod(exclusive: int, reverse: int) -> None:
    feeds = {"x": integers(3, 7, dtype="int32", low=1, high=3), "axis": np.asarray(-1)}
    check_node("CumProd", feeds, constants=["axis"], opset=26, exclusive=exclusive, reverse=reverse)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(
    ("shape", "axis", "k"), [((7,), 0, 3), ((3, 5), 0, 3), ((3, 5), -1, 1), ((2, 9, 4), 1, 9)]
)
def test_topk(
    shape: tuple[int, ...], axis: int, k: int, largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ranks, and by rounds."""
    for x in (floats(*shape), integers(*shape, dtype="int32", low=-2, high=2)):
        feeds = {"x": x, "k": np.asarray([k])}
        check_node("TopK", feeds, constants=["k"], results=2, axis=axis, largest=largest)
        with monkeypatch.context() as patch:
            patch.setattr("daedal.compiler.ops.onnx.topk.MAX_PAIRS", 1)
            check_node("TopK", feeds, constants=["k"], results=2, axis=axis, largest=largest)


def test_topk_versions() -> None:
    x = floats(3, 6)
    check_node("TopK", {"x": x, "k": np.asarray([2])}, constants=["k"], results=2, opset=10)
    x[0, 2] = -np.inf
    order = np.argsort(-x, axis=1)[:, :4]
    wanted = [np.take_along_axis(x, order, axis=1), order]
    check_values("TopK", {"x": x}, wanted, opset=9, k=4)
    feeds = {"x": integers(1, 5000, dtype="int32", high=10_000), "k": np.asarray([2])}
    check_node("TopK", feeds, constants=["k"], results=2)
    feeds["k"] = np.asarray([65])
    with pytest.raises(UnsupportedError, match="at most 16777216 pairs"):
        check_values("TopK", feeds, [floats(1, 65)], constants=["k"])
