"""Every integer operator, over random shapes, against onnxruntime: at most one last place apart."""

from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.common.errors import UnsupportedError
from daedal.compiler.graph import get_op, run
from daedal.compiler.targets.names import ACCELERATOR
from tests.compiler.graph.qdq_models import Array, lower

EXAMPLES = settings(max_examples=60)

scales = st.floats(1e-3, 0.5).map(lambda value: float(np.float32(value)))
zero_points = st.integers(-128, 127)
seeds = st.integers(0, 2**32 - 1)


def compare(model: onnx.ModelProto, inputs: dict[str, Array], *expected_ops: str) -> None:
    """The lowered model computes one of `expected_ops` on integers, within one unit of
    onnxruntime."""
    graph = lower(model)
    operators = [node.op for node in graph.nodes]
    assert not set(operators).isdisjoint(expected_ops), f"{expected_ops} not in {operators}"
    assert not any(op in ("dequantize", "conv2d", "dense", "add", "relu") for op in operators)
    found = run(graph, inputs)
    for name, expected in zip(graph.outputs, run_onnxruntime(model, inputs), strict=True):
        actual = found[name]
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
        difference = np.abs(actual.astype(int) - expected.astype(int))
        assert difference.max() <= 1, f"{difference.max()} apart"


def compare_sum(model: onnx.ModelProto, inputs: dict[str, Array], ratio: float) -> None:
    """As `compare` a sum. It may be refused where factors of 15 bits may be too coarse for 255
    steps of either input, 2 * 255 * ratio * 2**-15 > 1, and nowhere else.

    `ratio`: the larger scale of the inputs, divided by that of the result.
    """
    try:
        compare(model, inputs, "q_add")
    except UnsupportedError:
        assert ratio > 64


def int8(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "int8") -> Array:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


@st.composite
def windows(draw: st.DrawFn, dilated: bool) -> dict[str, Any]:
    """A map of height and width, and a window that fits into it with its pads."""
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    dilations = draw(st.tuples(st.integers(1, 2), st.integers(1, 2))) if dilated else (1, 1)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    # Convolutions may pad beyond their window, pools may not.
    limits = [extent + int(dilated) for extent in reach]
    pads = tuple(draw(st.integers(0, limits[axis % 2] - 1)) for axis in range(4))
    extents = tuple(
        draw(st.integers(max(1, reach[axis] - pads[axis] - pads[axis + 2]), 9)) for axis in range(2)
    )
    return {
        "extents": extents,
        "kernel": kernel,
        "pads": pads,
        "dilations": dilations,
        "strides": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
    }


def activation(
    draw: st.DrawFn,
    maker: QdqModel,
    name: str,
    shape: tuple[int, ...],
    scale: float | None = None,
) -> str:
    """A quantized model input of either signedness, dequantized."""
    dtype = draw(st.sampled_from(["int8", "uint8"]))
    zero_point = draw(zero_points) + (128 if dtype == "uint8" else 0)
    maker.input(name, shape, dtype)
    return maker.dequantize(name, draw(scales) if scale is None else scale, zero_point, dtype)


def result(draw: st.DrawFn, maker: QdqModel, x: str, scale: float | None = None) -> onnx.ModelProto:
    """Quantize `x` as the model's output, after a ReLU or Clip where drawn."""
    match draw(st.sampled_from(["none", "relu", "clip"])):
        case "relu":
            x = maker.op("Relu", x)
        case "clip":
            low, high = sorted((draw(st.floats(-4, 4)), draw(st.floats(-4, 4))))
            bounds = [maker.constant(np.array(b, dtype=np.float32)) for b in (low, high)]
            x = maker.op("Clip", x, *bounds)
    dtype = draw(st.sampled_from(["int8", "uint8"]))
    zero_point = draw(zero_points) + (128 if dtype == "uint8" else 0)
    y = maker.quantize(x, draw(scales) if scale is None else scale, zero_point, dtype, "y")
    return maker.model(y, dtype=dtype)


def feed(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, Array]:
    inputs = {}
    for value in model.graph.input:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        kind = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        inputs[value.name] = int8(rng, shape, kind.name)
    return inputs


@EXAMPLES
@given(st.data(), seeds)
def test_convolution(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    window = data.draw(windows(dilated=True))
    groups = data.draw(st.integers(1, 3))
    per_group, outs = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4)) * groups
    maker = QdqModel()
    x_shape = (data.draw(st.integers(1, 2)), per_group * groups, *window["extents"])
    x_scale = data.draw(scales)
    x = activation(data.draw, maker, "x", x_shape, x_scale)
    w_scales = rng.uniform(1e-3, 0.1, outs).astype(np.float32)
    w = maker.weights(int8(rng, (outs, per_group, *window["kernel"])), w_scales)
    operands = [x, w]
    if data.draw(st.booleans()):
        # Source: ONNX QLinearConv-10: the scale of a bias is that of the products.
        operands.append(maker.bias(rng.integers(-5000, 5000, outs), w_scales * x_scale))
    y = maker.op(
        "Conv",
        *operands,
        kernel_shape=window["kernel"],
        strides=window["strides"],
        pads=window["pads"],
        dilations=window["dilations"],
        group=groups,
    )
    model = result(data.draw, maker, y)
    compare(model, feed(model, rng), "q_conv2d")


@EXAMPLES
@given(st.data(), seeds)
def test_dense(data: st.DataObject, seed: int) -> None:
    """Gemm both ways round, and MatMul with its bias in an Add."""
    rng = np.random.default_rng(seed)
    n, k, o = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 9)))
    form = data.draw(st.sampled_from(["gemm", "gemm_t", "matmul"]))
    maker = QdqModel()
    x_scale = data.draw(scales)
    x = activation(data.draw, maker, "x", (n, k), x_scale)
    shape, axis = ((o, k), 0) if form == "gemm_t" else ((k, o), 1)
    per_tensor = data.draw(st.booleans())
    w_scales = np.float32(0.02) if per_tensor else rng.uniform(1e-3, 0.1, o).astype(np.float32)
    w = maker.weights(int8(rng, shape), w_scales, axis)
    bias = maker.bias(rng.integers(-5000, 5000, o), w_scales * x_scale)
    if form == "matmul":
        y = maker.op("Add", maker.op("MatMul", x, w), bias)
    else:
        y = maker.op("Gemm", x, w, bias, transB=int(form == "gemm_t"))
    model = result(data.draw, maker, y)
    compare(model, feed(model, rng), "q_conv2d")


@EXAMPLES
@given(st.data(), seeds)
def test_addition(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = data.draw(st.tuples(*[st.integers(1, 6)] * 4))
    maker = QdqModel()
    first, second, of_sum = data.draw(st.tuples(scales, scales, scales))
    a = activation(data.draw, maker, "a", shape, first)
    b = activation(data.draw, maker, "b", shape, second)
    model = result(data.draw, maker, maker.op("Add", a, b), of_sum)
    compare_sum(model, feed(model, rng), max(first, second) / of_sum)


@EXAMPLES
@given(st.data(), seeds)
def test_maximum_pool(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    window = data.draw(windows(dilated=False))
    maker = QdqModel()
    shape = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 5)), *window["extents"])
    x = activation(data.draw, maker, "x", shape)
    y = maker.op(
        "MaxPool",
        x,
        kernel_shape=window["kernel"],
        strides=window["strides"],
        pads=window["pads"],
    )
    model = result(data.draw, maker, y)
    compare(model, feed(model, rng), "q_max_pool")


@EXAMPLES
@given(st.data(), seeds)
def test_average_pool(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    window = data.draw(windows(dilated=False))
    maker = QdqModel()
    shape = (data.draw(st.integers(1, 2)), data.draw(st.integers(1, 5)), *window["extents"])
    x = activation(data.draw, maker, "x", shape)
    y = maker.op(
        "AveragePool",
        x,
        kernel_shape=window["kernel"],
        strides=window["strides"],
        pads=window["pads"],
        count_include_pad=data.draw(st.integers(0, 1)),
    )
    model = result(data.draw, maker, y)
    compare(model, feed(model, rng), "q_avg_pool")


@EXAMPLES
@given(st.data(), seeds)
def test_global_pools(data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    form = data.draw(st.sampled_from(["GlobalAveragePool", "GlobalMaxPool"]))
    maker = QdqModel()
    x = activation(data.draw, maker, "x", data.draw(st.tuples(*[st.integers(1, 9)] * 4)))
    model = result(data.draw, maker, maker.op(form, x))
    expected = "q_avg_pool" if form == "GlobalAveragePool" else "q_max_pool"
    compare(model, feed(model, rng), expected)


@EXAMPLES
@given(st.data(), seeds)
def test_requantization(data: st.DataObject, seed: int) -> None:
    """A change of scale, with whatever bounds, of every value there is."""
    maker = QdqModel()
    x = activation(data.draw, maker, "x", (1, 1, 16, 16))
    model = result(data.draw, maker, x)
    kind = model.graph.input[0].type.tensor_type.elem_type
    values = np.arange(256, dtype=np.uint8).view(onnx.helper.tensor_dtype_to_np_dtype(kind))
    inputs = {"x": values.reshape(1, 1, 16, 16)}
    graph = lower(model)
    found, expected = run(graph, inputs)["y"], run_onnxruntime(model, inputs)[0]
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize("name", ["q_conv2d", "q_add", "q_max_pool", "q_avg_pool", "q_requantize"])
def test_operators_that_end_in_requantize_run_on_the_accelerator(name: str) -> None:
    definition = get_op(name)
    assert definition.targets == (ACCELERATOR,)
    assert definition.operands[-1] == "params"
    assert {"zero_point", "low", "high"} <= definition.attrs.keys()
