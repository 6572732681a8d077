"""Each pass: the text before and after, and what it refuses."""

import numpy as np
import pytest

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.common.errors import ModelError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.graph import Graph, GraphBuilder, TensorType, run, verify
from daedal.compiler.graph.passes import (
    eliminate_dead_code,
    flatten_dense_to_conv,
    fold_bias,
    fold_constants,
    lower_qdq,
    partition,
    simplify_reshapes,
    to_blocked,
)
from daedal.compiler.targets.names import ACCELERATOR, CPU
from tests.compiler.graph.qdq_models import Array, lower, passes

REQUANTIZE = {"zero_point": 0, "low": -128, "high": 127}


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def conv_model(rng: np.random.Generator, weights: Array | None = None, **attrs: object) -> QdqModel:
    """x (int8) -> Conv -> y (int8), by the names x, w, y."""
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 3, 5, 5), "int8"), 0.5, 3)
    values = rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8) if weights is None else weights
    y = maker.op("Conv", x, maker.weights(values, 0.25), **attrs)
    maker.quantize(y, 8.0, -7, output="y")
    return maker


def test_eliminate_dead_code_keeps_what_outputs_need() -> None:
    builder = GraphBuilder("g")
    builder.input("x", TensorType((2,), "float32"))
    builder.constant("c", np.zeros(2, dtype=np.float32))
    builder.add("relu", ["x"], output="y")
    builder.add("add", ["y", "c"], output="z")
    graph = eliminate_dead_code(builder.finish(["y"]))
    verify(graph)
    assert str(graph) == (
        "graph g {\n  input x: float32[2]\n  y: float32[2] = relu(x)\n  output y\n}\n"
    )


def test_fold_constants_keeps_the_integers_of_weights() -> None:
    builder = GraphBuilder("g")
    builder.input("x", TensorType((1, 2), "float32"))
    builder.constant("w", np.array([[1.0, -2.0]], dtype=np.float32))
    builder.constant("s", np.array(0.5, dtype=np.float32))
    builder.constant("z", np.array(0, dtype=np.int8))
    builder.add("quantize", ["w", "s", "z"], {"axis": 0}, output="w_q")
    builder.add("dequantize", ["w_q", "s", "z"], {"axis": 0}, output="w_dq")
    builder.add("add", ["x", "w_dq"], output="y")
    graph = builder.finish(["y"])
    kept = fold_constants(graph)
    verify(kept)
    assert ops(kept) == ["dequantize", "add"]
    np.testing.assert_array_equal(kept.constant("w_q"), [[2, -4]])
    folded = fold_constants(graph, keep_quantized=False)
    verify(folded)
    assert ops(folded) == ["add"]
    np.testing.assert_array_equal(folded.constant("w_dq"), [[1.0, -2.0]])


def test_fold_bias_moves_an_added_constant_into_the_layer(rng: np.random.Generator) -> None:
    maker = QdqModel()
    w = maker.constant(rng.normal(size=(4, 3, 1, 1)).astype(np.float32))
    b = maker.constant(rng.normal(size=(1, 4, 1, 1)).astype(np.float32))
    x = maker.input("x", (1, 3, 2, 2))
    maker.op("Add", b, maker.op("Conv", x, w), output="y")
    graph = fold_bias(load_onnx(maker.model("y").SerializeToString()))
    verify(graph)
    assert ops(graph) == ["reshape", "conv2d"]
    inputs: dict[str, Array] = {"x": rng.normal(size=(1, 3, 2, 2)).astype(np.float32)}
    expected = run_onnxruntime(maker.model("y"), inputs)[0]
    np.testing.assert_allclose(run(graph, inputs)["y"], expected, rtol=1e-4, atol=1e-5)


def test_fold_bias_leaves_a_constant_that_is_not_per_channel(rng: np.random.Generator) -> None:
    maker = QdqModel()
    w = maker.constant(rng.normal(size=(4, 3, 1, 1)).astype(np.float32))
    b = maker.constant(rng.normal(size=(1, 1, 2, 2)).astype(np.float32))
    maker.op("Add", maker.op("Conv", maker.input("x", (1, 3, 2, 2)), w), b, output="y")
    assert ops(fold_bias(load_onnx(maker.model("y").SerializeToString()))) == ["conv2d", "add"]


def test_lower_qdq_folds_the_zero_point_and_pads_with_it() -> None:
    weights = np.ones((4, 3, 3, 3), dtype=np.int8)
    maker = conv_model(np.random.default_rng(0), weights, pads=[1, 1, 1, 1])
    graph = lower(maker.model("y", dtype="int8"))
    (node,) = graph.nodes
    assert (node.op, node.output) == ("q_conv2d", "y")
    assert (node.attrs["pad_value"], node.attrs["zero_point"]) == (3, -7)
    # bias = -3 * 27 ones; 0.5 * 0.25 / 8 = 2**-6 = 65536 * 2**-22, exact with 17 bits
    np.testing.assert_array_equal(graph.constant("y.params"), [[-81, 1 << 16, 22]] * 4)


def test_lower_qdq_uses_the_multiplier_bits_it_is_given(rng: np.random.Generator) -> None:
    model = conv_model(rng).model("y", dtype="int8")
    for bits in (8, 17, 26):
        multipliers = lower(model, bits).constant("y.params")[:, 1]
        assert np.all((1 << (bits - 1) <= multipliers) & (multipliers < 1 << bits))


def test_lower_qdq_turns_uint8_activations_into_int8(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 1, 2, 2)), 0.1, 130, "uint8", output="x_q")
    y = maker.requantized(maker.op("Relu", x), 0.2, 10, "uint8", output="y_q")
    maker.op("Identity", y, output="y")
    model = maker.model("y")
    graph = lower(model)
    assert graph.types["x_q"].dtype == graph.types["y_q"].dtype == "int8"
    inputs: dict[str, Array] = {"x": rng.normal(size=(1, 1, 2, 2)).astype(np.float32)}
    expected = run_onnxruntime(model, inputs)[0]
    assert np.abs(run(graph, inputs)["y"] - expected).max() <= 0.2 + 1e-6


def test_lower_qdq_drops_a_requantization_that_changes_nothing() -> None:
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 2), "int8"), 0.1, 4)
    maker.quantize(maker.requantized(x, 0.1, 4), 0.1, 4, output="y")
    graph = lower(maker.model("y", dtype="int8"))
    values = np.array([[-128, 127]], dtype=np.int8)
    assert ops(graph) == ["reshape"], "only the output's name is left"
    np.testing.assert_array_equal(run(graph, {"x": values})["y"], values)


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1 / 3, 0.1, 7.7, 1e30])
def test_quantize_of_dequantize_is_the_identity(scale: float) -> None:
    """The ground on which `lower_qdq` drops the pair: all 256 values, at several zero points."""
    values = np.arange(-128, 128, dtype=np.int8).reshape(1, 256)
    for zero_point in (-128, -1, 0, 127):
        maker = QdqModel()
        x = maker.dequantize(maker.input("x", (1, 256), "int8"), scale, zero_point)
        maker.quantize(x, scale, zero_point, output="y")
        graph = load_onnx(maker.model("y", dtype="int8").SerializeToString())
        np.testing.assert_array_equal(run(graph, {"x": values})["y"], values)


def test_lower_qdq_pulls_exact_operators_through_missing_pairs(rng: np.random.Generator) -> None:
    """Conv -> MaxPool -> Reshape -> Gemm with only one quantization between the two layers."""
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 3, 6, 6), "int8"), 0.5, 3)
    w = maker.weights(rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8), 0.01)
    t = maker.op("MaxPool", maker.op("Conv", x, w), kernel_shape=[2, 2], strides=[2, 2])
    t = maker.op("Flatten", maker.op("Relu", maker.requantized(t, 0.2, 5)))
    v = maker.weights(rng.integers(-128, 128, (16, 7)).astype(np.int8), 0.01)
    maker.quantize(maker.op("MatMul", t, v), 0.5, 0, output="y")
    model = maker.model("y", dtype="int8")
    graph = lower(model)
    assert [op for op in ops(graph) if op != "reshape"] == [
        "q_conv2d",
        "q_max_pool",
        "q_requantize",
        "q_conv2d",
    ]
    inputs: dict[str, Array] = {"x": rng.integers(-128, 128, (1, 3, 6, 6)).astype(np.int8)}
    expected = run_onnxruntime(model, inputs)[0]
    # Two layers in a row: one unit of the first may move the second by more than one.
    assert np.abs(run(graph, inputs)["y"].astype(int) - expected.astype(int)).max() <= 2


def test_lower_qdq_leaves_float_tails_to_the_host(rng: np.random.Generator) -> None:
    maker = conv_model(rng)
    y = maker.dequantize("y", 8.0, -7)
    maker.op("Softmax", maker.op("Flatten", y), output="p")
    graph = lower(maker.model("p"))
    assert ops(graph) == ["q_conv2d", "dequantize", "reshape", "softmax"]


def refusal(maker: QdqModel, *outputs: str, dtype: str = "int8") -> str:
    with pytest.raises(ModelError) as error:
        lower(maker.model(*outputs, dtype=dtype))
    return str(error.value)


def test_lower_qdq_refuses_a_float_model(rng: np.random.Generator) -> None:
    maker = QdqModel()
    maker.op("Relu", maker.input("x", (1, 2)), output="y")
    assert refusal(maker, "y", dtype="float32") == (
        "models must be quantized to int8 (QDQ), and 'small' has no QuantizeLinear node; quantize "
        "it with `daedal quantize`, or compile it for processors with --target cpu"
    )


def test_lower_qdq_refuses_float_weights(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 3, 5, 5), "int8"), 0.5, 3)
    w = maker.constant(np.ones((4, 3, 3, 3), dtype=np.float32), "w")
    maker.quantize(maker.op("Conv", x, w, output="t"), 0.1, 0, output="y")
    assert refusal(maker, "y") == (
        "weights of a quantized layer must be constant and quantized, not 'w' (node 't/Conv', "
        "operator conv2d); quantize the weights to int8"
    )


def test_lower_qdq_refuses_weights_quantized_along_the_wrong_axis() -> None:
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 3), "int8"), 0.5, 3)
    w = maker.weights(np.ones((3, 4), dtype=np.int8), np.ones(3), axis=0)
    maker.quantize(maker.op("MatMul", x, w, output="t"), 0.1, 0, output="y")
    assert refusal(maker, "y") == (
        "weights must be quantized per tensor or per output channel, not along axis 0 (node "
        "'t/MatMul', operator dense); quantize the model again"
    )


def test_lower_qdq_refuses_wide_weights_of_transposed_convolutions() -> None:
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 3, 2, 2), "int8"), 0.5, 3)
    scale, zero_point = np.array(0.1, dtype=np.float32), np.array(10, dtype=np.uint8)
    w = maker.constant(np.full((3, 4, 1, 1), 255, dtype=np.uint8))
    w = maker.op("DequantizeLinear", w, maker.constant(scale), maker.constant(zero_point))
    maker.quantize(maker.op("ConvTranspose", x, w, output="t"), 0.1, 0, output="y")
    assert refusal(maker, "y") == (
        "weights must fit into int8 once their zero point is subtracted, not 245 to 245 (node "
        "'t/ConvTranspose', operator conv_transpose2d); quantize them symmetrically"
    )


def test_lower_qdq_refuses_sums_that_could_wrap(rng: np.random.Generator) -> None:
    graph = fold_constants(load_onnx(conv_model(rng).model("y", dtype="int8").SerializeToString()))
    with pytest.raises(ModelError, match=r"sums of products must stay below 2\*\*15, but they"):
        lower_qdq(graph, multiplier_bits=17, accumulator_bits=16)


@pytest.mark.parametrize(("depth", "wraps"), [(8, False), (9, True)])
def test_lower_qdq_refuses_products_of_matrices_that_could_wrap(depth: int, wraps: bool) -> None:
    """A sum of 8 products of int8 numbers less their zero points stays below 2**19."""
    maker = QdqModel()
    shapes = {"a": (2, depth), "b": (depth, 3)}
    a, b = (
        maker.dequantize(maker.input(name, shape, "int8"), 0.5, 3) for name, shape in shapes.items()
    )
    maker.quantize(maker.op("MatMul", a, b, output="t"), 8.0, -7, output="y")
    graph = fold_constants(load_onnx(maker.model("y", dtype="int8").SerializeToString()))
    if not wraps:
        lowered = lower_qdq(graph, multiplier_bits=17, accumulator_bits=20)
        assert "q_matmul" in ops(lowered)
        return
    with pytest.raises(ModelError) as error:
        lower_qdq(graph, multiplier_bits=17, accumulator_bits=20)
    assert str(error.value) == (
        "sums of products must stay below 2**19, but they may reach 585225 (node 't/MatMul', "
        "operator matmul); split the layer or use a variant with wider accumulators"
    )


def test_lower_qdq_keeps_the_products_of_a_pool_within_their_bits() -> None:
    """Of the largest sum of a window, less its zero points, and the multiplier."""
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 4, 6, 4), "int8"), 0.5, -100)
    maker.quantize(maker.op("AveragePool", x, kernel_shape=[3, 2]), 0.347, 7, output="y")
    graph = fold_constants(load_onnx(maker.model("y", dtype="int8").SerializeToString()))
    lowered = lower_qdq(graph, multiplier_bits=30, product_bits=27)
    (node,) = lowered.nodes
    ((bias, multiplier, _),) = lowered.constant(node.inputs[-1])
    largest = 3 * 2 * 127 + bias
    assert node.op == "q_avg_pool" and largest == 3 * 2 * (127 + 100)
    assert 1 << 25 <= largest * multiplier < 1 << 27, "as many bits as there are, and no more"


@pytest.mark.parametrize("op", ["Relu", "MaxPool"])
def test_lower_qdq_leaves_a_layer_of_floats_in_float(op: str) -> None:
    """Nothing quantizes what the ReLU or the pool selects from."""
    maker = QdqModel()
    attrs = {"kernel_shape": [2, 2]} if op == "MaxPool" else {}
    selected = maker.op(op, maker.input("x", (1, 3, 5, 5)), **attrs)
    weights = maker.weights(np.ones((4, 3, 1, 1), dtype=np.int8), 0.25)
    maker.quantize(maker.op("Conv", selected, weights), 0.5, 3, output="y")
    graph = lower(maker.model("y", dtype="int8"))
    assert ops(graph)[1:] == ["relu" if op == "Relu" else "max_pool", "conv2d", "quantize"]


def test_lower_qdq_refuses_a_scale_ratio_beyond_the_multiplier(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 3), "int8"), 1e9, 3)
    maker.quantize(maker.op("Relu", x), 1e-3, 0, output="y")
    assert "a scale ratio must be below 2**17" in refusal(maker, "y")


def dense_graph() -> Graph:
    """Two dense layers after a map, then an addition of matrices."""
    builder = GraphBuilder("g")
    builder.input("x", TensorType((1, 2, 3, 1), "int8"))
    builder.constant("w", np.arange(24, dtype=np.int8).reshape(4, 6))
    builder.constant("v", np.arange(16, dtype=np.int8).reshape(4, 4))
    builder.constant("p", np.array([[0, 1, 3]] * 4))
    builder.constant("q", np.array([[0, 1, 1]]))
    builder.add("reshape", ["x"], {"shape": (1, 6)}, output="f")
    builder.add("q_dense", ["f", "w", "p"], REQUANTIZE, output="y")
    builder.add("q_dense", ["y", "v", "p"], REQUANTIZE, output="z")
    factors = {"multiplier_a": 1, "multiplier_b": 2}
    builder.add("q_add", ["y", "z", "q"], {**factors, **REQUANTIZE}, output="s")
    return builder.finish(["s"])


def test_flatten_dense_to_conv_needs_no_data_movement(rng: np.random.Generator) -> None:
    before = dense_graph()
    after = eliminate_dead_code(simplify_reshapes(flatten_dense_to_conv(before)))
    verify(after)
    assert ops(after) == ["q_conv2d", "q_conv2d", "q_add", "reshape"]
    assert after.nodes[0].inputs[0] == "x"
    assert after.types["w.map"].shape == (4, 2, 3, 1)
    assert after.types["y"].shape == (1, 4, 1, 1)
    assert after.types["s"].shape == (1, 4)
    for _ in range(5):
        x = rng.integers(-128, 128, (1, 2, 3, 1)).astype(np.int8)
        np.testing.assert_array_equal(run(after, {"x": x})["s"], run(before, {"x": x})["s"])


def test_simplify_reshapes_merges_and_drops() -> None:
    builder = GraphBuilder("g")
    builder.input("x", TensorType((1, 4), "float32"))
    builder.add("reshape", ["x"], {"shape": (2, 2)}, output="a")
    builder.add("reshape", ["a"], {"shape": (1, 4)}, output="b")
    builder.add("relu", ["b"], output="y")
    builder.add("reshape", ["a"], {"shape": (4, 1)}, output="c")
    graph = eliminate_dead_code(simplify_reshapes(builder.finish(["y", "c"])))
    verify(graph)
    assert str(graph) == (
        "graph g {\n"
        "  input x: float32[1,4]\n"
        "  y: float32[1,4] = relu(x)\n"
        "  c: float32[4,1] = reshape(x) shape=4,1\n"
        "  output y\n"
        "  output c\n"
        "}\n"
    )


def test_to_blocked_packs_at_the_borders_and_keeps_names(rng: np.random.Generator) -> None:
    graph = lower(conv_model(rng).model("y", dtype="int8"))
    blocked = to_blocked(graph, block_in=4, block_out=8)
    verify(blocked)
    assert ops(blocked) == ["pack", "q_conv2d", "unpack"]
    assert str(blocked.types["x.blocked"]) == "int8[1,3,5,5]:NCHW1n8c"
    assert blocked.types["y.blocked"].physical_shape == (1, 1, 3, 3, 1, 8)
    assert blocked.types["y"].is_plain
    conv = blocked.nodes[1]
    weights, params = (blocked.constant(name) for name in conv.inputs[1:])
    assert weights.shape == (1, 2, 3, 3, 8, 4)
    assert params.shape == (1, 8, 3)
    assert not params[0, 4:].any(), "parameters of pad channels are zero"
    x = rng.integers(-128, 128, (1, 3, 5, 5)).astype(np.int8)
    values = run(blocked, {"x": x}, ["y", "y.blocked"])
    np.testing.assert_array_equal(values["y"], run(graph, {"x": x})["y"])
    assert np.all(values["y.blocked"][..., 4:] == -7), "pad lanes hold the zero point"


def test_to_blocked_expands_groups(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 4, 5, 5), "int8"), 0.5, 3)
    w = maker.weights(rng.integers(-128, 128, (6, 2, 3, 3)).astype(np.int8), 0.25)
    maker.quantize(maker.op("Conv", x, w, group=2), 8.0, -7, output="y")
    graph = lower(maker.model("y", dtype="int8"))
    blocked = to_blocked(graph, block_in=4, block_out=4)
    verify(blocked)
    assert str(blocked.types[blocked.nodes[1].inputs[1]]) == "int8[6,2,3,3]:1gOIHW4o4i"
    values = rng.integers(-128, 128, (1, 4, 5, 5)).astype(np.int8)
    np.testing.assert_array_equal(run(blocked, {"x": values})["y"], run(graph, {"x": values})["y"])


@pytest.mark.parametrize(
    ("taps", "attrs", "weights"),
    [
        (1, {}, "int8[6,1,3,2]:CHW1t4c"),
        (3, {}, "int8[6,1,3,2]:CHW3t4c"),
        (3, {"dilations": [2, 1]}, "int8[6,1,3,2]:CHW3t4c"),
        (3, {"dilations": [1, 2]}, "int8[6,1,3,2]:CHW1t4c"),
    ],
)
def test_to_blocked_keeps_channels_apart_for_the_depthwise_modes(
    taps: int, attrs: dict[str, object], weights: str, rng: np.random.Generator
) -> None:
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 6, 7, 5), "int8"), 0.5, 3)
    w = maker.weights(rng.integers(-128, 128, (6, 1, 3, 2)).astype(np.int8), 0.25)
    y = maker.op("Conv", x, w, group=6, pads=[1, 0, 1, 1], strides=[2, 1], **attrs)
    maker.quantize(y, 8.0, -7, output="y")
    graph = lower(maker.model("y", dtype="int8"))
    blocked = to_blocked(graph, block_in=4, block_out=4, depthwise_taps=taps)
    verify(blocked)
    conv = blocked.nodes[1]
    assert conv.attrs["groups"] == 6
    assert str(blocked.types[conv.inputs[1]]) == weights
    values = rng.integers(-128, 128, (1, 6, 7, 5)).astype(np.int8)
    np.testing.assert_array_equal(run(blocked, {"x": values})["y"], run(graph, {"x": values})["y"])


def test_to_blocked_expands_several_outputs_of_a_channel(rng: np.random.Generator) -> None:
    """Lane o of the result would need another lane of the input."""
    maker = QdqModel()
    x = maker.dequantize(maker.input("x", (1, 3, 5, 5), "int8"), 0.5, 3)
    w = maker.weights(rng.integers(-128, 128, (6, 1, 3, 3)).astype(np.int8), 0.25)
    maker.quantize(maker.op("Conv", x, w, group=3), 8.0, -7, output="y")
    graph = lower(maker.model("y", dtype="int8"))
    blocked = to_blocked(graph, block_in=4, block_out=4, depthwise_taps=1)
    assert str(blocked.types[blocked.nodes[1].inputs[1]]) == "int8[6,1,3,3]:1gOIHW4o4i"
    values = rng.integers(-128, 128, (1, 3, 5, 5)).astype(np.int8)
    np.testing.assert_array_equal(run(blocked, {"x": values})["y"], run(graph, {"x": values})["y"])


def test_to_blocked_refuses_matrices() -> None:
    with pytest.raises(ModelError) as error:
        to_blocked(dense_graph(), block_in=4, block_out=4)
    assert str(error.value) == (
        "tensors on the accelerator must be maps (N, C, H, W), not int8[1,6] (node 'y', operator "
        "q_dense); reshape it in the model"
    )


def test_partition_cuts_before_the_first_and_after_the_last_integer_operator(
    rng: np.random.Generator,
) -> None:
    maker = QdqModel()
    x = maker.requantized(maker.input("x", (1, 3, 5, 5)), 0.5, 3, output="x_q")
    w = maker.weights(rng.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8), 0.25)
    y = maker.requantized(maker.op("Conv", x, w), 8.0, -7, output="y_q")
    maker.op("Softmax", maker.op("Flatten", y), output="p")
    graph = to_blocked(lower(maker.model("p")), block_in=4, block_out=4)
    parts = partition(graph)
    assert [part.target for part in parts] == [CPU, ACCELERATOR, CPU]
    before, accelerator, after = (part.graph for part in parts)
    for part in (before, accelerator, after):
        verify(part)
    assert ops(before) == ["quantize", "pack"]
    assert ops(accelerator) == ["q_conv2d"]
    assert ops(after) == ["unpack", "dequantize", "reshape", "softmax"]
    assert before.outputs == accelerator.inputs == ("x_q.blocked",)
    assert accelerator.outputs == after.inputs == ("y_q",)


def test_partition_returns_to_the_accelerator_after_a_float_operator(
    rng: np.random.Generator,
) -> None:
    maker = conv_model(rng)
    soft = maker.op("Softmax", maker.dequantize("y", 8.0, -7), output="soft")
    w = maker.weights(np.ones((2, 4, 1, 1), dtype=np.int8), 0.25)
    side = maker.requantized(maker.op("Conv", maker.dequantize("y", 8.0, -7), w), 4.0, 0)
    after = maker.requantized(maker.op("Conv", maker.requantized(soft, 0.01, 0), w), 1.0, 0)
    maker.quantize(maker.op("Add", side, after), 1.0, 0, output="z")
    graph = to_blocked(
        passes(load_onnx(maker.model("z", dtype="int8").SerializeToString())),
        block_in=4,
        block_out=4,
    )
    parts = partition(graph)
    assert [part.target for part in parts] == [CPU, ACCELERATOR, CPU, ACCELERATOR, CPU]
    # What needs no float operator runs in the first launch, and waits for the second.
    assert ops(parts[1].graph) == ["q_conv2d", "q_conv2d"]
    assert ops(parts[3].graph) == ["q_conv2d", "q_add"]
    assert len(parts[3].graph.inputs) == 2
    inputs = {"x": rng.integers(-128, 128, (1, 3, 5, 5)).astype(np.int8)}
    values: dict[str, Array] = dict(inputs)
    for part in parts:
        values.update(run(part.graph, {name: values[name] for name in part.graph.inputs}))
    np.testing.assert_array_equal(values["z"], run(graph, inputs)["z"])


def test_partition_refuses_a_graph_without_integer_operators() -> None:
    maker = QdqModel()
    maker.op("Softmax", maker.requantized(maker.input("x", (1, 2)), 0.1, 0), output="y")
    with pytest.raises(ModelError) as error:
        partition(lower(maker.model("y")))
    assert str(error.value) == (
        "at least one layer must run on the accelerator, but 'small' has no integer operator "
        "between QuantizeLinear nodes; quantize its layers to int8 (QDQ), or compile it with "
        "--target cpu"
    )
