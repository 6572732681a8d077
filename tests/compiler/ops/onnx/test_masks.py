"""Operators that depend on places: tensor expressions against ONNX's reference evaluator."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from daedal.common.errors import UnsupportedError
from tests.support.onnx_operators import check_node, lowered_results

RNG = np.random.default_rng(6)

DTYPES = ["bool", "int8", "uint64", "float16", "float32"]


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(1, 1 + int(np.prod(shape))).astype(dtype).reshape(shape)


@pytest.mark.parametrize("k", [None, -9, -1, 0, 2, 9])
@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (2, 4, 3)])
def test_trilu(k: int | None, upper: int, shape: tuple[int, ...]) -> None:
    feeds = {"x": data(*shape)}
    if k is not None:
        feeds["k"] = np.array(k, np.int64)
        check_node("Trilu", feeds, constants=["k"], upper=upper)
    check_node("Trilu", feeds, upper=upper)


@pytest.mark.parametrize("dtype", DTYPES)
def test_trilu_of_dtypes(dtype: str) -> None:
    check_node("Trilu", {"x": data(3, 4, dtype=dtype)})


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_eye_like(k: int) -> None:
    check_node("EyeLike", {"x": data(3, 4)}, k=k)
    for kind in (TensorProto.BOOL, TensorProto.INT8, TensorProto.FLOAT16):
        check_node("EyeLike", {"x": data(3, 4, dtype="int32")}, k=k, dtype=kind)


@pytest.mark.parametrize("axis", [-1, 0, 1, -2])
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float32"])
def test_one_hot(axis: int, dtype: str) -> None:
    indices = np.array([[0, 4, 7], [2, 5, 1]]).astype(dtype)
    if not dtype.startswith("u"):
        indices[0, 2] = -2
    feeds = {"i": indices, "depth": np.array(5, np.int64), "values": np.array([2, 7], np.float32)}
    check_node("OneHot", feeds, constants=["depth"], axis=axis)
    check_node("OneHot", {**feeds, "i": indices[0, 1]}, constants=["depth"], axis=-1)


@pytest.mark.parametrize("dtype", ["int8", "int64", "float16"])
def test_one_hot_values(dtype: str) -> None:
    feeds = {"i": np.array([1, 0, 9]), "depth": np.array([3]), "v": np.array([0, 1], dtype)}
    node = helper.make_node("OneHot", list(feeds), ["y"])
    wanted = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], dtype)
    (found,) = lowered_results(node, 21, feeds, ["depth"], [wanted])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("opset", [7, 10, 12, 22])
def test_dropout(opset: int) -> None:
    attributes = {"ratio": 0.3} if opset < 12 else {}
    for shape in ((), (2, 3)):
        node = helper.make_node("Dropout", ["x"], ["y", "mask"], **attributes)
        x = data(*shape)
        types = [x, np.ones(shape, bool if opset >= 10 else np.float32)]
        found = lowered_results(node, opset, {"x": x}, (), types)
        for one, other in zip(found, types, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


def test_dropout_in_training() -> None:
    feeds = {"x": data(4), "ratio": np.array(0.5, np.float32), "training": np.array(False)}
    check_node("Dropout", feeds, constants=["training"])
    feeds["training"] = np.array(True)
    node = helper.make_node("Dropout", list(feeds), ["y"])
    with pytest.raises(UnsupportedError, match="training_mode must be false"):
        lowered_results(node, 21, feeds, ["training"], [data(4)])
    with pytest.raises(UnsupportedError, match="operand 2 must be constant"):
        lowered_results(node, 21, feeds, (), [data(4)])
