"""Quantization: tensor expressions against ONNX's reference evaluator."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from daedal.checking.onnxruntime_session import open_for_speed
from daedal.common.errors import ModelError, UnsupportedError
from daedal.isa import numerics
from tests.support.onnx_operators import check_node, lowered_results

RNG = np.random.default_rng(4)

DTYPES = ["int8", "uint8", "int16", "uint16"]


def values(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.asarray(RNG.normal(size=shape) * 20).astype(dtype)


def scales(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.asarray(RNG.uniform(0.05, 0.4, shape)).astype(dtype)


def whole(*shape: int, dtype: str) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.asarray(RNG.integers(info.min, info.max, shape, endpoint=True)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (7,), (2, 3, 4)])
def test_one_scale(dtype: str, shape: tuple[int, ...]) -> None:
    zero = np.asarray(whole(dtype=dtype))
    check_node("QuantizeLinear", {"x": values(*shape), "scale": scales(), "zero": zero})
    x = whole(*shape, dtype=dtype)
    check_node("DequantizeLinear", {"x": x, "scale": scales(), "zero": zero})
    check_node("DequantizeLinear", {"x": x, "scale": scales(1)})


@pytest.mark.parametrize("opset", [10, 13, 19, 21, 25])
def test_opsets(opset: int) -> None:
    feeds = {"x": values(5), "scale": scales(), "zero": whole(dtype="int8")}
    check_node("QuantizeLinear", feeds, opset=opset)
    check_node("QuantizeLinear", {"x": values(5), "scale": scales()}, opset=opset)
    if opset >= 19:
        feeds["x"] = whole(5, dtype="int8")
        check_node("DequantizeLinear", feeds, opset=opset)


@pytest.mark.parametrize("opset", [10, 13])
def test_dequantize_in_opsets_that_the_reference_lacks(opset: int) -> None:
    x, zero = whole(5, dtype="int8"), np.array(-7, np.int8)
    feeds = {"x": x, "scale": scales(), "zero": zero}
    node = helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["y"])
    (found,) = lowered_results(node, opset, feeds, (), [np.zeros(5, np.float32)])
    np.testing.assert_array_equal(found, (x.astype(np.float32) + 7) * feeds["scale"])


@pytest.mark.parametrize("axis", [0, 1, -1, -2])
def test_scales_of_an_axis(axis: int) -> None:
    count = (2, 3, 4)[axis]
    feeds = {"x": values(2, 3, 4), "scale": scales(count), "zero": whole(count, dtype="int8")}
    check_node("QuantizeLinear", feeds, axis=axis)
    feeds["x"] = whole(2, 3, 4, dtype="int8")
    check_node("DequantizeLinear", feeds, axis=axis)


@pytest.mark.parametrize(("axis", "block"), [(0, 2), (1, 4), (-1, 2), (1, 3), (2, 3)])
def test_scales_of_blocks(axis: int, block: int) -> None:
    shape = (2, 6, 5)
    blocked = list(shape)
    blocked[axis] = -(-shape[axis] // block)
    zero = whole(*blocked, dtype="uint8")
    feeds = {"x": values(*shape), "scale": scales(*blocked), "zero": zero}
    check_node("QuantizeLinear", feeds, axis=axis, block_size=block)
    feeds["x"] = whole(*shape, dtype="uint8")
    check_node("DequantizeLinear", feeds, axis=axis, block_size=block)


@pytest.mark.parametrize("dtype", DTYPES)
def test_halves_and_ends(dtype: str) -> None:
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1e6, -1e6], np.float32)
    for zero in (0, 3, np.iinfo(dtype).max, np.iinfo(dtype).min):
        feeds = {"x": x, "scale": np.float32(1).reshape(()), "zero": np.array(zero, dtype)}
        check_node("QuantizeLinear", feeds)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_far_outside_saturates(dtype: str) -> None:
    """The reference converts to int32 first, and wraps."""
    x = np.array([3e38, -3e38, np.inf, -np.inf], np.float32)
    feeds = {"x": x, "scale": np.full((), 1e-3, np.float32), "zero": np.array(1, dtype)}
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    (found,) = lowered_results(node, 21, feeds, (), [np.zeros(4, dtype)])
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    assert found.tolist() == [high, low, high, low]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [3, 64])
def test_what_is_no_number_becomes_what_onnxruntime_makes_of_it(dtype: str, count: int) -> None:
    """The lowest integer, whatever the zero point is; ONNX says nothing."""
    x = np.where(np.arange(count) % 3, np.float32(np.nan), np.float32(-0.5))
    feeds = {"x": x, "scale": np.full((), 0.25, np.float32), "zero": np.array(7, dtype)}
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    (found,) = lowered_results(node, 21, feeds, (), [np.zeros(count, dtype)])
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    result = helper.make_tensor_value_info("y", kind, [count])
    graph = helper.make_graph([node], "quantize", inputs, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (wanted,) = open_for_speed(model.SerializeToString(), 1)(feeds)
    np.testing.assert_array_equal(found, wanted)
    evaluated = numerics.quantize(x, feeds["scale"], feeds["zero"], np.dtype(dtype))
    np.testing.assert_array_equal(evaluated, wanted)


def test_output_dtype() -> None:
    feeds = {"x": values(9), "scale": scales()}
    check_node("QuantizeLinear", feeds, output_dtype=TensorProto.INT16)
    feeds["x"] = whole(9, dtype="int8")
    check_node("DequantizeLinear", feeds, opset=23, output_dtype=TensorProto.FLOAT16, rtol=1e-3)


def test_dtypes() -> None:
    x, scale = values(30, dtype="float16"), scales(dtype="float16")
    zero = np.array(3, np.int8)
    check_node("QuantizeLinear", {"x": x, "scale": scale, "zero": zero})
    x16 = whole(30, dtype="int8")
    check_node("DequantizeLinear", {"x": x16, "scale": scale, "zero": zero}, rtol=1e-3)
    large = RNG.integers(-1000, 1000, 30).astype(np.int32)
    check_node("QuantizeLinear", {"x": large, "scale": np.full((), 8, np.float32), "zero": zero})
    check_node("DequantizeLinear", {"x": large, "scale": scales(1)})


def test_precision_of_the_division() -> None:
    """In float16 the quotient of these is 2.5 and not above it."""
    feeds = {"x": np.full(2, 2.501, np.float32), "scale": np.ones((), np.float32)}
    for kind in (TensorProto.FLOAT, TensorProto.FLOAT16):
        check_node("QuantizeLinear", feeds, opset=23, precision=kind)


@pytest.mark.parametrize("shape", [(6,), (2, 3), (1, 2, 2)])
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (1.0, 5.0), (1.0, -5.0), (0.0, 0.0)])
def test_dynamic(shape: tuple[int, ...], scale: float, shift: float) -> None:
    x = (RNG.normal(size=shape) * scale + shift).astype(np.float32)
    check_node("DynamicQuantizeLinear", {"x": x}, results=3)


def test_refusals() -> None:
    feeds = {"x": values(2, 3), "scale": scales()}
    node = helper.make_node("QuantizeLinear", ["x", "scale"], ["y"], output_dtype=TensorProto.INT4)
    with pytest.raises(UnsupportedError, match=r"output_dtype must be one of .*, not INT4"):
        lowered_results(node, 21, feeds, (), [np.zeros((2, 3), np.int8)])
    feeds["scale"] = scales(4)
    node = helper.make_node("QuantizeLinear", ["x", "scale"], ["y"])
    with pytest.raises(ModelError, match=r"not \[4\] of them for \[2, 3\]"):
        lowered_results(node, 21, feeds, (), [np.zeros((2, 3), np.uint8)])
