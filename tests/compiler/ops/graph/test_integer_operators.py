"""Integer operators on processors: machine code against the graph's interpreter, byte for byte."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from bench.qdq_model import QdqModel
from daedal.artifact.host_code import HostBuffer, HostCode
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.cpu.graph import processor_graph
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.graph.graph import Graph
from daedal.compiler.graph.interpreter import run
from daedal.compiler.ops.cpu.reuse import TILED
from daedal.compiler.ops.graph import integer_convolution
from daedal.compiler.ops.graph.factors import (
    PAIRS,
    PAIRS_OR_REALS,
    QUADS,
    SINGLES,
    TILES,
    Factors,
)
from daedal.compiler.ops.graph.table import LOWERINGS
from daedal.native.levels import levels_to_run
from daedal.runtime.host_code import HostProgram
from tests.support.quantized_models import (
    mixed_network,
    quantize_with_onnxruntime,
    random_feeds,
)

Build = Callable[[QdqModel, np.random.Generator, str], str]
"""Adds an operator that reads a dequantized tensor; the name of its result."""


def quantized_model(
    shape: tuple[int, ...], build: Build, *, seed: int = 0, dtype: str = "int8"
) -> onnx.ModelProto:
    """A model with one operator between quantized tensors; its result is quantized."""
    rng = np.random.default_rng(seed)
    maker = QdqModel(opset=21)
    offset = 128 if dtype == "uint8" else 0
    x = maker.requantized(maker.input("x", shape), 0.05, 3 + offset, dtype)
    maker.quantize(build(maker, rng, x), 0.07, offset - 5, dtype, "y")
    return maker.model("y", dtype=dtype)


def check(model: onnx.ModelProto, op: str) -> Graph:
    """Compile and run: operator `op` is computed as integers, and as the interpreter does."""
    graph = processor_graph(model)
    assert graph is not None
    assert op in {node.op for node in graph.nodes}
    multiplies = op in ("q_conv2d", "q_dense")
    for factors in (PAIRS, PAIRS_OR_REALS, QUADS, SINGLES) if multiplies else (PAIRS,):
        _check_code(graph, HostProgram(build_host_code(model, factors=factors)))
    if multiplies:  # in tile registers, emulated where there are none
        _check_code(graph, HostProgram(build_host_code(model, factors=TILES, registers=TILED)))
    _check_code(graph, HostProgram(build_host_code(model, checked=True)))
    return graph


def _stored(model: onnx.ModelProto) -> list[HostBuffer]:
    """What each kernel stores."""
    code = build_host_code(model)
    return [code.buffers[call.buffers[-1]] for call in code.calls]


def _check_code(graph: Graph, program: HostProgram) -> None:
    for seed, spread in enumerate((1.0, 3.0, 100.0)):
        rng = np.random.default_rng(seed)
        feeds = {
            name: (rng.normal(size=graph.types[name].shape) * spread).astype(np.float32)
            for name in graph.inputs
        }
        wanted, found = run(graph, feeds), program.run(feeds)
        for name, array in wanted.items():
            assert found[name].dtype == array.dtype
            np.testing.assert_array_equal(found[name], array)


def conv(
    outs: int,
    ins: int,
    kernel: tuple[int, int],
    *,
    bias: bool = True,
    **attrs: object,
) -> Build:
    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        weights = rng.integers(-128, 128, (outs, ins, *kernel)).astype(np.int8)
        scales = rng.uniform(0.001, 0.01, outs).astype(np.float32)
        operands = [x, maker.weights(weights, scales)]
        if bias:
            steps = rng.integers(-3000, 3000, outs)
            operands.append(maker.bias(steps, scales * np.float32(0.05)))
        return maker.op("Conv", *operands, **attrs)

    return build


def dense(outs: int, ins: int) -> Build:
    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        weights = rng.integers(-128, 128, (outs, ins)).astype(np.int8)
        return maker.op("Gemm", x, maker.weights(weights, 0.004), transB=1)

    return build


def of_rows(outs: int, ins: int) -> Build:
    """A matrix product whose rows are an operand's last axis."""

    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        weights = rng.integers(-128, 128, (ins, outs)).astype(np.int8)
        return maker.op("MatMul", x, maker.weights(weights, 0.004))

    return build


def unary(op_type: str, **attrs: object) -> Build:
    return lambda maker, _rng, x: maker.op(op_type, x, **attrs)


def with_itself(op_type: str, other_scale: float = 0.02) -> Build:
    """Of a tensor and another quantization of it."""

    def build(maker: QdqModel, _rng: np.random.Generator, x: str) -> str:
        return maker.op(op_type, x, maker.requantized(x, other_scale, -9))

    return build


def gated(maker: QdqModel, _rng: np.random.Generator, x: str) -> str:
    """A map times one number per channel."""
    mean = maker.requantized(maker.op("GlobalAveragePool", x), 0.01, 4)
    return maker.op("Mul", x, mean)


def joined(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    parts = [x]
    for number, outs in enumerate((16, 5)):
        part = conv(outs, 32, (1, 1))(maker, rng, x)
        parts.append(maker.requantized(part, 0.03 + 0.01 * number, number))
    return maker.op("Concat", *parts, axis=1)


def joined_columns(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    parts = [maker.requantized(conv(21, 20, (1, n))(maker, rng, x), 0.07, -5) for n in (1, 2)]
    return maker.op("Concat", *parts, parts[0], axis=3)


def joined_within_blocks(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
    other = maker.requantized(conv(7, 5, (1, 1))(maker, rng, x), 0.03, 2)
    return maker.op("Concat", x, other, x, axis=1)


def sliced(begins: list[int], ends: list[int], axes: list[int], steps: list[int]) -> Build:
    def build(maker: QdqModel, _rng: np.random.Generator, x: str) -> str:
        given = [maker.constant(np.array(part)) for part in (begins, ends, axes, steps)]
        return maker.op("Slice", x, *given)

    return build


def padded(maker: QdqModel, _rng: np.random.Generator, x: str) -> str:
    return maker.op("Pad", x, maker.constant(np.array([0, 0, 1, 2, 0, 0, 3, 0])))


def enlarged(maker: QdqModel, _rng: np.random.Generator, x: str) -> str:
    scales = maker.constant(np.array([1, 1, 2, 3], np.float32))
    attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return maker.op("Resize", x, "", scales, mode="nearest", **attrs)


def after_another(outs: int, ins: int, **attrs: object) -> Build:
    """A 3x3 convolution of a map that has its channels last."""

    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        first = maker.requantized(conv(ins, ins, (1, 1))(maker, rng, x), 0.3, -7)
        return conv(outs, ins, (3, 3), bias=False, **attrs)(maker, rng, first)

    return build


CASES: dict[str, tuple[str, tuple[int, ...], Build]] = {
    "stem": ("q_conv2d", (1, 3, 11, 9), conv(16, 3, (7, 7), strides=[2, 2], pads=[3] * 4)),
    "3x3": ("q_conv2d", (1, 16, 7, 7), conv(33, 16, (3, 3), pads=[1] * 4)),
    "3x3, tiles": ("q_conv2d", (1, 32, 16, 12), after_another(48, 32, pads=[1] * 4)),
    "3x3, odd tiles": ("q_conv2d", (2, 37, 13, 10), after_another(33, 37, pads=[0, 2, 1, 0])),
    "1x1": ("q_conv2d", (2, 40, 5, 6), conv(17, 40, (1, 1), bias=False)),
    "dilated": ("q_conv2d", (1, 5, 9, 9), conv(4, 5, (3, 2), dilations=[2, 3])),
    "1x1 per channel": ("q_conv2d", (1, 40, 7, 5), conv(40, 1, (1, 1), group=40)),
    "1x1 apart": ("q_conv2d", (1, 32, 8, 8), conv(16, 32, (1, 1), strides=[2, 2])),
    "per channel": ("q_conv2d", (1, 20, 7, 9), conv(20, 1, (3, 3), group=20, pads=[1] * 4)),
    "per channel apart": ("q_conv2d", (1, 32, 9, 8), conv(32, 1, (5, 3), group=32, strides=[2, 1])),
    "in groups": ("q_conv2d", (1, 24, 7, 5), conv(68, 6, (3, 3), group=4, pads=[1] * 4)),
    "in groups of odd size": ("q_conv2d", (2, 20, 5, 6), conv(32, 5, (1, 1), group=4)),
    "in groups of blocks": ("q_conv2d", (1, 48, 5, 6), conv(64, 6, (1, 1), group=8)),
    "in groups, in order": ("q_conv2d", (1, 6, 5, 6), conv(16, 3, (2, 2), group=2)),
    "dense": ("q_dense", (3, 30), dense(21, 30)),
    "dense of odd depth": ("q_dense", (1, 7), dense(16, 7)),
    "dense of tokens": ("q_dense", (1, 10, 24), of_rows(48, 24)),
    "dense of maps": ("q_dense", (2, 3, 5, 21), of_rows(37, 21)),
    "sum": ("q_add", (1, 20, 5, 3), with_itself("Add")),
    "sum of rows": ("q_add", (4, 37), with_itself("Add")),
    "difference": ("q_add", (1, 8, 5, 3), with_itself("Sub", 0.3)),
    "product": ("q_mul", (1, 20, 5, 3), with_itself("Mul")),
    "product with channels": ("q_mul", (1, 20, 5, 3), gated),
    "leaky": ("q_leaky_relu", (1, 20, 5, 3), unary("LeakyRelu", alpha=0.1)),
    "bound": ("q_requantize", (1, 20, 5, 3), unary("Relu")),
    "largest": ("q_max_pool", (1, 20, 9, 8), unary("MaxPool", kernel_shape=[3, 2], pads=[1] * 4)),
    "largest, rows first": (
        "q_max_pool",
        (1, 20, 9, 8),
        unary("MaxPool", kernel_shape=[5, 5], pads=[2] * 4),
    ),
    "averages, rows first": (
        "q_avg_pool",
        (1, 20, 9, 8),
        unary("AveragePool", kernel_shape=[5, 6], pads=[2] * 4),
    ),
    "average": ("q_avg_pool", (1, 20, 9, 8), unary("GlobalAveragePool")),
    "averages": (
        "q_avg_pool",
        (1, 20, 9, 8),
        unary("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
    ),
    "join of blocks": ("q_concat", (1, 32, 4, 5), joined),
    "join within blocks": ("q_concat", (1, 5, 4, 3), joined_within_blocks),
    "joined columns": ("columns_view", (2, 20, 4, 5), joined_columns),
    "part": ("q_slice", (1, 40, 9, 8), sliced([16, 2], [40, 9], [1, 2], [1, 3])),
    "part of blocks": ("q_slice", (1, 40, 3, 3), sliced([3], [38], [1], [2])),
    "pad": ("q_pad", (1, 20, 4, 3), padded),
    "enlargement": ("q_resize", (1, 20, 4, 3), enlarged),
}
"""Operator, shape of the input, and what is built, by name."""


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_interpreter(name: str) -> None:
    op, shape, build = CASES[name]
    check(quantized_model(shape, build, seed=len(name)), op)


def test_unsigned_tensors() -> None:
    model = quantized_model((1, 3, 6, 5), conv(8, 3, (3, 3), pads=[1] * 4), dtype="uint8")
    check(model, "q_conv2d")


def test_every_operator_has_a_case() -> None:
    known = {op for op in LOWERINGS if op.startswith("q_") or op.endswith("_view")}
    assert {op for op, _, _ in CASES.values()} | {"q_max_requantized"} == known


def test_the_larger_of_a_map_and_its_requantization() -> None:
    """A leaky ReLU between equal quantizations."""
    maker = QdqModel(opset=21)
    x = maker.requantized(maker.input("x", (1, 20, 5, 3)), 0.05, 3)
    maker.quantize(maker.op("LeakyRelu", x, alpha=0.1), 0.05, 3, output="y")
    check(maker.model("y", dtype="int8"), "q_max_requantized")


def test_operators_on_quantized_tensors_are_integers(tmp_path: Path) -> None:
    """QLinearConv and its kin, as onnxruntime writes them, have the code of QDQ models."""
    rng = np.random.default_rng(0)
    network = mixed_network(rng, head=False)
    quantized = quantize_with_onnxruntime(network, tmp_path, random_feeds(rng, 2), "QOperator")
    model = modern_model(quantized)
    assert "QLinearConv" in {node.op_type for node in model.graph.node}
    graph = processor_graph(model)
    assert graph is not None
    ops = [node.op for node in graph.nodes]
    assert "q_conv2d" in ops and "onnx" not in ops
    _check_code(graph, HostProgram(build_host_code(model)))


def test_sums_that_float32_does_not_hold() -> None:
    """A depthwise convolution with a large bias multiplies integers."""

    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        weights = rng.integers(-128, 128, (20, 1, 3, 3)).astype(np.int8)
        bias = maker.bias(rng.integers(-(1 << 26), 1 << 26, 20), np.float32(1e-7 * 0.05))
        operands = (maker.weights(weights, 1e-7), bias)
        return maker.op("Conv", x, *operands, group=20, pads=[1] * 4)

    check(quantized_model((1, 20, 7, 9), build), "q_conv2d")


def test_maps_of_depthwise_convolutions_are_floats() -> None:
    """What a convolution stores for one is what it multiplies: nothing is converted in between."""

    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        first = maker.requantized(conv(32, 32, (1, 1))(maker, rng, x), 0.05, 1)
        return conv(32, 1, (3, 3), group=32, pads=[1] * 4)(maker, rng, first)

    model = quantized_model((1, 32, 6, 6), build)
    check(model, "q_conv2d")
    code = build_host_code(model)
    stored = [code.buffers[call.buffers[-1]] for call in code.calls]
    assert [item.dtype for item in stored if item.shape[1:3] == (8, 8)] == ["float32", "float32"]


def test_elements_times_a_number_of_their_channel_are_no_sums() -> None:
    """One multiply-add of float32 scales them; no map is stored as float32."""
    _, shape, build = CASES["1x1 per channel"]
    stored = _stored(quantized_model(shape, build))
    assert {item.dtype for item in stored} == {"int8"}


def test_joins_of_maps_with_one_scale_change_no_element() -> None:
    """With any zero point, the only kernels are those of the operand, the result and the two
    convolutions."""

    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        parts = [conv(16 * outs, 32, (1, 1))(maker, rng, x) for outs in (1, 2)]
        own = [maker.requantized(part, 0.07, -5) for part in parts]
        return maker.op("Concat", *own, own[0], axis=1)

    model = quantized_model((1, 32, 6, 6), build)
    check(model, "q_concat")
    assert len(_stored(model)) == 4


@pytest.mark.parametrize("stride", [1, 2])
def test_large_maps_whose_windows_share_little_stay_int8(
    stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each element is converted where it is read."""
    monkeypatch.setattr(integer_convolution, "LARGE_BYTES", 0)

    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        first = maker.requantized(conv(32, 32, (1, 1))(maker, rng, x), 0.05, 1)
        attrs = {"pads": [1] * 4, "strides": [stride] * 2}
        return conv(32, 1, (3, 3), group=32, **attrs)(maker, rng, first)

    model = quantized_model((1, 32, 6, 6), build)
    check(model, "q_conv2d")
    kinds = {item.dtype for item in _stored(model) if item.shape[1:3] == (8, 8)}
    assert kinds == {"float32" if stride == 1 else "int8"}


@pytest.mark.parametrize("level", levels_to_run())
def test_every_level_rounds_alike(level: str) -> None:
    """Those without multiply-adds that round once requantize in float64."""
    shape, build = (1, 20, 7, 9), conv(20, 1, (3, 3), group=20, pads=[1] * 4)
    model = quantized_model(shape, build)
    graph = processor_graph(model)
    assert graph is not None
    _check_code(graph, HostProgram(build_host_code(model, levels=[level])))


def test_products_of_tokens_are_computed_where_they_are_read() -> None:
    """Two dense layers of tokens, a bias behind each: a kernel for the operand, which both layers
    read, and one for each layer."""
    maker = QdqModel(opset=21)
    rng = np.random.default_rng(0)
    x = maker.requantized(maker.input("x", (1, 10, 24)), 0.05, 3)
    parts = []
    for outs in (48, 48):
        product = maker.requantized(of_rows(outs, 24)(maker, rng, x), 0.07, -5)
        bias = maker.constant(rng.normal(size=outs).astype(np.float32))
        parts.append(maker.op("Add", product, bias))
    maker.op("Mul", *parts, output="y")
    code = build_host_code(maker.model("y"))
    assert len(code.calls) == 3


def test_small_layers_are_multiplied_as_floats_where_that_is_exact() -> None:
    """And where each weight is used often enough to be worth its bytes."""
    cases = [
        (conv(32, 24, (3, 3), pads=[1] * 4), (1, 24, 6, 7), "float32"),
        (of_rows(48, 24), (1, 20, 24), "float32"),
        (of_rows(48, 24), (1, 2, 24), "int16"),  # two rows
        (conv(400, 400, (1, 1)), (1, 400, 4, 4), "int16"),  # 640,000 bytes of weights
        (conv(8, 1100, (4, 4)), (1, 1100, 7, 7), "int16"),  # sums beyond 2^24
    ]
    for build, shape, dtype in cases:
        model = quantized_model(shape, build)
        code = build_host_code(model, factors=PAIRS_OR_REALS)
        (product, *_) = (
            call for call in code.calls if any(_is_weight(code, n) for n in call.buffers)
        )
        assert code.buffers[product.buffers[0]].dtype == dtype


def _is_weight(code: HostCode, number: int) -> bool:
    """Whether a buffer holds a constant that is packed."""
    offset = code.buffers[number].offset
    return any(item.changes and item.offset == offset for item in code.constants)


def test_large_biases_of_float_sums_are_added_in_float64() -> None:
    """Sums are exact in float32, and biases are not."""
    maker = QdqModel(opset=21)
    rng = np.random.default_rng(0)
    x = maker.requantized(maker.input("x", (1, 20, 24)), 0.05, 3)
    weights = rng.integers(-128, 128, (24, 48)).astype(np.int8)
    bias = maker.constant(np.full(48, 0.05 * 1e-7 * ((1 << 24) + 12345), np.float32))
    product = maker.op("MatMul", x, maker.weights(weights, 1e-7))
    maker.quantize(maker.op("Add", product, bias), 1e-5, -5, output="y")
    check(maker.model("y", dtype="int8"), "q_dense")


@pytest.mark.parametrize(("factors", "dtype"), [(PAIRS, "int16"), (QUADS, "uint8")])
def test_operands_of_dense_layers_are_stored_as_they_are_multiplied(
    factors: Factors, dtype: str
) -> None:
    """Also where they only move what is there."""
    maker = QdqModel(opset=21)
    rng = np.random.default_rng(0)
    x = maker.requantized(maker.input("x", (1, 4, 10, 6)), 0.05, 3)
    turned = maker.op("Transpose", x, perm=[0, 2, 1, 3])
    rows = maker.op("Reshape", turned, maker.constant(np.array([1, 10, 24])))
    maker.quantize(of_rows(16, 24)(maker, rng, rows), 0.07, -5, output="y")
    model = maker.model("y", dtype="int8")
    check(model, "q_dense")
    code = build_host_code(model, factors=factors)
    product = code.calls[-1]
    assert code.buffers[product.buffers[0]].dtype == dtype


def test_what_has_no_integer_code_stays_float() -> None:
    """A grouped convolution between two that have it."""

    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        first = maker.requantized(conv(8, 8, (1, 1))(maker, rng, x), 0.04, 1)
        middle = conv(8, 2, (3, 3), bias=False, group=4)(maker, rng, first)
        last = maker.requantized(middle, 0.06, -2)
        return conv(4, 8, (1, 1), bias=False)(maker, rng, last)

    graph = processor_graph(quantized_model((1, 8, 6, 6), build))
    assert graph is not None
    ops = [node.op for node in graph.nodes]
    assert ops.count("q_conv2d") == 2 and ops.count("conv2d") == 1


def test_a_bias_that_is_no_multiple_of_the_products_scale_stays_float() -> None:
    def build(maker: QdqModel, rng: np.random.Generator, x: str) -> str:
        weights = rng.integers(-9, 9, (4, 3, 1, 1)).astype(np.int8)
        bias = maker.constant(np.array([0.0, 0.2501, 0.5, 0.1], np.float32))
        return maker.op("Conv", x, maker.weights(weights, 0.5), bias)

    graph = processor_graph(quantized_model((1, 3, 4, 4), build))
    assert graph is not None
    assert "conv2d" in {node.op for node in graph.nodes}


def test_models_without_quantized_operators_have_no_integer_graph() -> None:
    maker = QdqModel(opset=21)
    maker.op("Relu", maker.input("x", (1, 4)), output="y")
    assert processor_graph(maker.model("y")) is None
