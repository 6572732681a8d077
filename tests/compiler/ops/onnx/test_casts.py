"""Conversions: their tensor expressions against ONNX's reference evaluator."""

import itertools

import numpy as np
import pytest
from onnx import TensorProto, helper

from daedal.common.errors import ModelError, UnsupportedError
from daedal.compiler.tir.dtype import DTYPES
from tests.support.onnx_operators import check_node, lowered_results

KIND = {dtype: helper.np_dtype_to_tensor_dtype(np.dtype(dtype)) for dtype in DTYPES}

PAIRS = list(itertools.product(DTYPES, repeat=2))


def numbers(source: str, target: str) -> np.ndarray:
    """Numbers of one type whose conversion to another is defined."""
    values = [0, 1, 2, 77, 127]
    if source.startswith("float") and target != "bool":
        values += [0.25, 0.5, 1.75, 99.99]
    if not source.startswith(("u", "b")) and not target.startswith("u"):
        values += [-value for value in values]
    if source.startswith("float") and not target.startswith(("int", "uint")):
        values += [np.nan, np.inf, -np.inf, 1e-4]
    return np.array(values).astype(source)


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=["-".join(pair) for pair in PAIRS])
def test_casts(source: str, target: str) -> None:
    x = numbers(source, target)
    check_node("Cast", {"x": x}, to=KIND[target])
    check_node("CastLike", {"x": x[:2].reshape(2, 1), "like": np.zeros((3, 1, 1), target)})
    check_node("Cast", {"x": x[3]}, to=KIND[target], opset=9)


@pytest.mark.parametrize("source", ["int32", "int64", "uint16", "uint64"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "uint32"])
def test_integers_wrap(source: str, target: str) -> None:
    info = np.iinfo(source)
    values = np.array([info.min, info.max, 200, 300, 70000 % info.max], dtype=source)
    check_node("Cast", {"x": values}, to=KIND[target])


def test_floats_saturate() -> None:
    """ONNX leaves it undefined."""
    x = np.array([300.0, -300.0, np.inf, np.nan, -1.5], np.float32)
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT8)
    (found,) = lowered_results(node, 21, {"x": x}, (), [np.zeros(5, np.int8)])
    assert found.tolist() == [127, -128, 127, 0, -1]


def test_float_to_float16_overflows() -> None:
    x = np.array([70000.0, -70000.0, 65519.0, 1e-9], np.float32)
    check_node("Cast", {"x": x}, to=TensorProto.FLOAT16, saturate=1)


@pytest.mark.parametrize("kind", [TensorProto.STRING, TensorProto.BFLOAT16, TensorProto.FLOAT8E5M2])
def test_types_that_expressions_lack(kind: int) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=kind)
    with pytest.raises(UnsupportedError, match=r"to must be one of int8, .*, not [A-Z0-9]*"):
        lowered_results(node, 21, {"x": np.zeros(2, np.float32)}, (), [np.zeros(2)])


@pytest.mark.parametrize("attributes", [{}, {"to": 999}])
def test_damaged(attributes: dict[str, int]) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], **attributes)
    with pytest.raises(ModelError, match="to must be"):
        lowered_results(node, 21, {"x": np.zeros(2, np.float32)}, (), [np.zeros(2)])
