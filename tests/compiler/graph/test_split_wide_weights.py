"""uint8 weights whose zero point is not 128: 9 bits, on a machine that multiplies 8."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import compare_operators, processor_graph
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import run, verify
from daedal.compiler.graph.passes import split_wide_weights
from daedal.compiler.pipeline import compile_graph
from daedal.isa.variant import load_variant
from tests.support.networks import check_compiled

VTA = load_variant("vta")


def convolution(
    rng: np.random.Generator, groups: int, zero_point: int, inputs: int = 20
) -> QdqModel:
    """One with weights of every value, the extremes of uint8 among them."""
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, inputs, 6, 5), "int8"), 0.05, 3)
    values = rng.integers(0, 256, (20, inputs // groups, 3, 3)).astype(np.uint8)
    values.reshape(-1)[:2] = 0, 255
    scale, zero = maker.constant(np.float32(0.01)), maker.constant(np.uint8(zero_point))
    weights = maker.op("DequantizeLinear", maker.constant(values), scale, zero)
    attrs = {"kernel_shape": [3, 3], "group": groups, "pads": [1, 0, 1, 2]}
    maker.quantize(maker.op("Conv", x, weights, **attrs), 0.9, 5, output="y")
    return maker


@pytest.mark.parametrize("zero_point", [0, 100, 255])
@pytest.mark.parametrize("groups", [1, 4, 20])
def test_convolutions_with_wide_weights(
    groups: int, zero_point: int, rng: np.random.Generator
) -> None:
    """As onnxruntime, after the split as before, and on the machine."""
    model = convolution(rng, groups, zero_point).model("y", dtype="int8")
    graph = processor_graph(model.SerializeToString(), VTA)
    assert any(kind.dtype == "int16" for kind in graph.types.values())
    inputs = {"x": rng.integers(-128, 128, (1, 20, 6, 5)).astype(np.int8)}
    (difference,) = compare_operators(model, graph, inputs)
    assert difference.largest <= 1
    split = split_wide_weights(graph, block=VTA.block)
    verify(split)
    assert not any(kind.dtype == "int16" for kind in split.types.values())
    np.testing.assert_array_equal(run(split, inputs)["y"], run(graph, inputs)["y"])
    compiled = compile_graph(load_onnx(model.SerializeToString()), VTA)
    assert [layer.op for layer in compiled.launch.layers] == ["q_conv2d", "q_conv2d"]
    check_compiled(compiled, rng)


@pytest.mark.parametrize(("inputs", "widths"), [(20, [23, 20, 20]), (32, [3, 35, 20, 20])])
def test_only_channels_with_weights_beyond_int8_are_repeated(
    inputs: int, widths: list[int], rng: np.random.Generator
) -> None:
    """Two convolutions that read one map share the repetition of channels 3, 7 and 11; they are
    appended to whole blocks."""
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, inputs, 6, 5), "int8"), 0.05, 3)
    scale, zero = maker.constant(np.float32(0.01)), maker.constant(np.uint8(120))
    for output, channels in (("y", (3, 7)), ("z", (7, 11))):
        values = rng.integers(0, 248, (20, inputs, 3, 3)).astype(np.uint8)
        values[:2, channels] = 255
        weights = maker.op("DequantizeLinear", maker.constant(values), scale, zero)
        maker.quantize(maker.op("Conv", x, weights), 0.9, 5, output=output)
    model = maker.model("y", "z", dtype="int8")
    graph = processor_graph(model.SerializeToString(), VTA)
    feeds = {"x": rng.integers(-128, 128, (1, inputs, 6, 5)).astype(np.int8)}
    split = split_wide_weights(graph, block=VTA.block)
    verify(split)
    assert [split.types[node.output].shape[1] for node in split.nodes] == widths
    before, after = run(graph, feeds), run(split, feeds)
    for name in ("y", "z"):
        np.testing.assert_array_equal(after[name], before[name])
    check_compiled(compile_graph(load_onnx(model.SerializeToString()), VTA), rng)


def test_a_dense_layer_over_a_map(rng: np.random.Generator) -> None:
    """The map is repeated, not the flattened vector."""
    maker = convolution(rng, 1, 128)
    y = maker.dequantize("y", 0.9, 5)
    values = rng.integers(0, 256, (7, 600)).astype(np.uint8)
    scale, zero = maker.constant(np.float32(0.01)), maker.constant(np.uint8(90))
    weights = maker.op("DequantizeLinear", maker.constant(values), scale, zero)
    flat = maker.op("Flatten", y)
    maker.quantize(maker.op("Gemm", flat, weights, transB=1), 9.0, 0, output="z")
    model = maker.model("z", dtype="int8")
    compiled = compile_graph(load_onnx(model.SerializeToString()), VTA)
    assert [layer.op for layer in compiled.launch.layers] == ["q_conv2d"] * 3
    check_compiled(compiled, rng)
    graph = processor_graph(model.SerializeToString(), VTA)
    inputs = {"x": rng.integers(-128, 128, (1, 20, 6, 5)).astype(np.int8)}
    assert max(item.largest for item in compare_operators(model, graph, inputs)) <= 1
