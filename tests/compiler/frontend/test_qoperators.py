"""Operators on quantized tensors: their expansion against what they compute, and networks that
onnxruntime quantized, through the whole compiler."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.checking.integer_reference import compare_operators, processor_graph, run_onnxruntime
from daedal.checking.onnxruntime_session import integer_products
from daedal.common.errors import ModelError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.frontend.cut import cut_model
from daedal.compiler.frontend.host_model import modern_model
from daedal.compiler.frontend.qoperators import EXPANSIONS, expand_qoperators
from daedal.compiler.frontend.reader import read_model
from daedal.compiler.graph import run
from daedal.isa.variant import load_variant
from daedal.runtime.host import HostModel
from tests.compiler.graph.qdq_models import Array
from tests.support.integer_kernels import pair_saturating, run_integer_kernel
from tests.support.quantized_models import (
    mixed_network,
    quantize_with_onnxruntime,
    random_feeds,
)

MICROSOFT = "com.microsoft"
VTA = load_variant("vta")


class IntegerModel:
    """One operator on quantized tensors: inputs, constants, and triples of both."""

    def __init__(self, dtype: str, opset: int = 13, seed: int = 1) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.opset = opset
        self.inputs: list[onnx.ValueInfoProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.feeds: dict[str, Array] = {}

    def constant(self, value: Any) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def integers(self, *shape: int, dtype: str = "") -> Array:
        info = np.iinfo(dtype or self.dtype)
        return self.rng.integers(info.min, info.max + 1, shape).astype(info.dtype)

    def input(self, *shape: int) -> str:
        """An input of random integers."""
        name = f"x{len(self.inputs)}"
        self.feeds[name] = self.integers(*shape)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def scale(self, real: Any, zero_point: Any = 0, dtype: str = "") -> list[str]:
        """Scale and zero point; the latter is one per scale."""
        dtype = dtype or self.dtype
        real = np.asarray(real, dtype=np.float32)
        return [self.constant(real), self.constant(np.full(real.shape, zero_point, dtype=dtype))]

    def zero(self) -> int:
        """A zero point in the middle of the range, but not quite."""
        return 131 if self.dtype == "uint8" else 3

    def model(
        self, op_type: str, operands: list[str], domain: str = "", rank: int = 4, **attrs: Any
    ) -> bytes:
        node = helper.make_node(op_type, operands, ["y"], name="n", domain=domain, **attrs)
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        output = helper.make_tensor_value_info("y", kind, [None] * rank)
        graph = helper.make_graph([node], "one", self.inputs, [output], self.initializers)
        domains = [helper.make_opsetid("", self.opset), helper.make_opsetid(MICROSOFT, 1)]
        model = helper.make_model(graph, opset_imports=domains, ir_version=8)
        return bytes(model.SerializeToString())


def conv(it: IntegerModel, columns: Any = 0.02, bias: bool = True, **attrs: Any) -> bytes:
    weights = it.constant(it.integers(4, 3, 3, 3, dtype="int8"))
    operands = [it.input(1, 3, 7, 6), *it.scale(0.05, it.zero()), weights]
    operands += [*it.scale(columns, 0, "int8"), *it.scale(0.9, it.zero())]
    more = [it.constant(it.rng.integers(-3000, 3000, 4).astype(np.int32))] if bias else []
    return it.model("QLinearConv", [*operands, *more], pads=[1, 0, 1, 2], **attrs)


def gemm(it: IntegerModel, scales: Any, transposed: int, **attrs: Any) -> bytes:
    weights = it.constant(it.integers(*((5, 9) if transposed else (9, 5)), dtype="int8"))
    operands = [it.input(2, 9), *it.scale(0.05, it.zero()), weights, *it.scale(scales, 0, "int8")]
    bias = it.constant(it.rng.integers(-3000, 3000, 5).astype(np.int32))
    operands += [bias, *it.scale(0.7, it.zero())]
    return it.model("QGemm", operands, MICROSOFT, rank=2, transB=transposed, **attrs)


def matmul(it: IntegerModel, scales: Any, computed: bool = False) -> bytes:
    b = it.input(9, 5) if computed else it.constant(it.integers(9, 5, dtype="int8"))
    columns = it.scale(scales, it.zero() if computed else 0, it.dtype if computed else "int8")
    operands = [it.input(2, 9), *it.scale(0.05, it.zero()), b, *columns]
    return it.model("QLinearMatMul", [*operands, *it.scale(0.7, it.zero())], rank=2)


def binary(it: IntegerModel, op_type: str, shape: tuple[int, ...]) -> bytes:
    operands = [it.input(1, 3, 4, 5), *it.scale(0.05, it.zero()), it.input(*shape)]
    operands += [*it.scale(0.03, 7), *it.scale(0.06, it.zero())]
    return it.model(op_type, operands, MICROSOFT)


def unary(it: IntegerModel, op_type: str, scale: float = 0.04, **attrs: Any) -> bytes:
    operands = [it.input(1, 3, 6, 5), *it.scale(0.05, it.zero()), *it.scale(scale, it.zero())]
    return it.model(op_type, operands, MICROSOFT, **attrs)


def concat(it: IntegerModel) -> bytes:
    operands = [*it.scale(0.06, it.zero()), it.input(1, 3, 4, 5), *it.scale(0.05, it.zero())]
    return it.model("QLinearConcat", [*operands, it.input(1, 2, 4, 5), *it.scale([0.08], 1)],
                    MICROSOFT, axis=1)  # fmt: skip


def plain(it: IntegerModel, op_type: str, *more: Any, **attrs: Any) -> bytes:
    """An operator of ONNX on integers themselves."""
    operands = [it.input(1, 3, 6, 5), *("" if v is None else it.constant(v) for v in more)]
    return it.model(op_type, operands, **attrs)


def number(it: IntegerModel, value: int) -> Array:
    return np.array(value, dtype=it.dtype)


FOUR = [0.01, 0.03, 0.02, 0.04]
FIVE = [*FOUR, 0.05]

OPERATORS = {
    "conv": conv,
    "conv per channel": lambda it: conv(it, FOUR),
    "conv without bias": lambda it: conv(it, [0.02], bias=False, strides=[2, 1]),
    "gemm": lambda it: gemm(it, 0.02, 1),
    "gemm per column": lambda it: gemm(it, FIVE, 0),
    "gemm per row": lambda it: gemm(it, FIVE, 1, alpha=0.5),
    "matmul": lambda it: matmul(it, 0.02),
    "matmul per column": lambda it: matmul(it, FIVE),
    "matmul of two": lambda it: matmul(it, 0.02, computed=True),
    "add": lambda it: binary(it, "QLinearAdd", (1, 3, 4, 5)),
    "add broadcast": lambda it: binary(it, "QLinearAdd", (3, 1, 1)),
    "mul": lambda it: binary(it, "QLinearMul", (1, 3, 1, 1)),
    "leaky": lambda it: unary(it, "QLinearLeakyRelu", alpha=0.2),
    "sigmoid": lambda it: unary(it, "QLinearSigmoid", 1 / 250),
    "softmax": lambda it: unary(it, "QLinearSoftmax", 1 / 250, axis=1, opset=13),
    "average": lambda it: unary(
        it, "QLinearAveragePool", kernel_shape=[3, 2], pads=[1, 0, 0, 1], count_include_pad=1
    ),
    "global average": lambda it: unary(it, "QLinearGlobalAveragePool", channels_last=0),
    "concat": concat,
    "max pool": lambda it: plain(it, "MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "reshape": lambda it: plain(it, "Reshape", np.array([1, -1]), rank=2),
    "transpose": lambda it: plain(it, "Transpose", perm=[0, 2, 3, 1]),
    "clip": lambda it: plain(it, "Clip", number(it, 5), number(it, 100)),
    "pad": lambda it: plain(it, "Pad", np.array([0, 0, 1, 2, 0, 0, 3, 0]), number(it, 9)),
    "resize": lambda it: plain(
        it, "Resize", None, np.array([1, 1, 2, 2], np.float32),
        mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
    ),
    "squeeze": lambda it: plain(it, "Squeeze", np.array([0]), rank=3),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_expansion_computes_what_the_operator_does(name: str, dtype: str) -> None:
    """The expanded model, in onnxruntime and in ONNX's reference evaluator, against sums of whole
    numbers, or, without sums of products, against onnxruntime's own kernel."""
    it = IntegerModel(dtype)
    data = OPERATORS[name](it)
    expanded = read_model(data)
    assert {node.domain for node in expanded.graph.node} == {""}
    quantized = {name for (_, name), item in EXPANSIONS.items() if item.becomes != name}
    assert quantized.isdisjoint(node.op_type for node in expanded.graph.node)
    if next(integer_products(onnx.ModelProto.FromString(data)), None):
        expected = run_integer_kernel(data, it.feeds)
    else:
        (expected,) = run_onnxruntime(data, it.feeds)
    (found,) = run_onnxruntime(expanded, it.feeds)
    part = modern_model(cut_model(expanded, list(it.feeds), ["y"]))
    host = HostModel(part.SerializeToString(), "host part")
    for result in (found, host.run(it.feeds)["y"]):
        assert result.dtype == expected.dtype and result.shape == expected.shape
        assert np.abs(result.astype(int) - expected.astype(int)).max() <= 1


EXTREME_DEPTH = 576
"""Products of an output: those of a 3 x 3 convolution of 64 channels."""


@pytest.mark.parametrize("weight", [127, -128])
@pytest.mark.parametrize("kind", ["conv", "gemm", "matmul"])
def test_extreme_products_are_summed_exactly(kind: str, weight: int) -> None:
    """Kernels that saturate pairs of products would find half of every sum here, or less."""
    it = IntegerModel("uint8")
    scale, weights = it.scale(2.0**-6, 0), np.full((EXTREME_DEPTH, 16), weight, np.int8)
    weights[:, 1::2] //= 2
    # The largest sum is 100 steps of the output.
    last = it.scale(EXTREME_DEPTH * 255 * abs(weight) * 2.0**-12 / 100, 128)
    columns = it.scale(2.0**-6, 0, "int8")
    if kind == "conv":
        x = it.input(1, EXTREME_DEPTH // 9, 3, 3)
        w = it.constant(weights.T.reshape(16, -1, 3, 3).copy())
        data = it.model("QLinearConv", [x, *scale, w, *columns, *last])
    elif kind == "gemm":
        x, w = it.input(2, EXTREME_DEPTH), it.constant(weights)
        data = it.model("QGemm", [x, *scale, w, *columns, "", *last], MICROSOFT, rank=2)
    else:
        x, w = it.input(2, EXTREME_DEPTH), it.constant(weights)
        data = it.model("QLinearMatMul", [x, *scale, w, *columns, *last], rank=2)
    feeds = {x: np.full_like(it.feeds[x], 255)}
    expected = run_integer_kernel(data, feeds).reshape(-1, 16)
    steps = np.array([1, weights[0, 1] / weight] * 8) * np.sign(weight) * 100
    np.testing.assert_array_equal(expected[0], 128 + np.rint(steps))
    saturated = pair_saturating(feeds[x].reshape(-1, EXTREME_DEPTH), weights)
    exact = feeds[x].reshape(-1, EXTREME_DEPTH).astype(int) @ weights.astype(int)
    assert (np.abs(saturated[:, ::2]) < 0.51 * np.abs(exact[:, ::2])).all(), "the case has teeth"
    (reals,) = run_onnxruntime(read_model(data), feeds)
    (graph_result,) = run(processor_graph(data, VTA), feeds).values()
    (machine,) = daedal.simulate(daedal.compile(data, "vta"), feeds).outputs.values()
    for found in (reals, graph_result, machine):
        np.testing.assert_array_equal(found.reshape(-1, 16), expected)


def test_a_zero_point_left_out_is_zero() -> None:
    results = []
    for missing in (True, False):
        it = IntegerModel("uint8")
        x, (scale, zero) = it.input(1, 3, 4, 5), it.scale(0.05)
        zero = "" if missing else zero
        operands = [x, scale, zero, x, scale, zero, scale, zero]
        model = read_model(it.model("QLinearMul", operands, MICROSOFT))
        results.append(run_onnxruntime(model, it.feeds)[0])
    assert results[0].dtype == np.uint8
    np.testing.assert_array_equal(*results)


def test_expanding_again_changes_nothing() -> None:
    model = read_model(conv(IntegerModel("uint8"), FOUR))
    before = model.SerializeToString(deterministic=True)
    expand_qoperators(model)
    assert model.SerializeToString(deterministic=True) == before


def test_a_tensor_is_dequantized_once_for_all_readers() -> None:
    it = IntegerModel("int8")
    x, scale = it.input(1, 3, 4, 5), it.scale(0.05, 3)
    model = read_model(it.model("QLinearAdd", [x, *scale, x, *scale, *scale], MICROSOFT))
    assert [node.op_type for node in model.graph.node] == [
        "DequantizeLinear",
        "Add",
        "QuantizeLinear",
    ]


def test_results_that_stay_real() -> None:
    """QGemm without an output scale, as the last layer of a classifier has it."""
    it = IntegerModel("uint8")
    weights = it.constant(it.integers(9, 5, dtype="int8"))
    operands = [it.input(2, 9), *it.scale(0.05, 131), weights, *it.scale(FIVE, 0, "int8")]
    model = onnx.ModelProto.FromString(it.model("QGemm", operands, MICROSOFT, rank=2))
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    expected = run_integer_kernel(model.SerializeToString(), it.feeds)
    (found,) = run_onnxruntime(read_model(model.SerializeToString()), it.feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def computed_scale() -> bytes:
    it = IntegerModel("int8")
    it.inputs.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, []))
    weights = it.constant(it.integers(4, 3, 1, 1))
    bias = it.constant(np.zeros(4, dtype=np.int32))
    scale, zero = it.scale(0.05, 3)
    operands = [it.input(1, 3, 4, 5), "s", zero, weights, scale, zero, scale, zero, bias]
    return it.model("QLinearConv", operands)


@pytest.mark.parametrize(
    ("data", "operator"),
    [
        (unary(IntegerModel("int8"), "QLinearSoftmax", opset=11), "Softmax"),
        (computed_scale(), "Conv"),
        (IntegerModel("int8").model("QLinearAdd", ["x"], MICROSOFT), "Add"),
    ],
    ids=["softmax of another opset", "computed scale", "too few operands"],
)
def test_what_has_no_expansion_stays(data: bytes, operator: str) -> None:
    model = onnx.ModelProto.FromString(data)
    expand_qoperators(model)
    assert [node.op_type.startswith(f"QLinear{operator}") for node in model.graph.node] == [True]


def test_an_attribute_of_the_wrong_type_is_refused() -> None:
    data = unary(IntegerModel("int8"), "QLinearGlobalAveragePool", channels_last="yes")
    with pytest.raises(ModelError) as error:
        read_model(data)
    assert str(error.value) == (
        "attribute 'channels_last' has the wrong type (node 'n', operator "
        "QLinearGlobalAveragePool); export the model again"
    )


QUANTIZERS: dict[str, tuple[int, dict[str, Any]]] = {
    "uint8": (18, {"activation_type": "QUInt8"}),
    "int8 per channel": (13, {"activation_type": "QInt8", "per_channel": True}),
    "symmetric": (11, {"activation_type": "QInt8", "extra_options": {"ActivationSymmetric": True}}),
}


@pytest.mark.parametrize("name", QUANTIZERS)
def test_networks_of_onnxruntimes_quantizer(
    name: str, rng: np.random.Generator, tmp_path: Path
) -> None:
    """Every operator within one of onnxruntime; the machine's bytes are the reference's."""
    opset, options = QUANTIZERS[name]
    network = mixed_network(rng, opset)
    *samples, feeds = random_feeds(rng, 5)
    model = quantize_with_onnxruntime(network, tmp_path, samples, "QOperator", **options)
    assert {node.op_type for node in model.graph.node} >= {"QLinearConv", "QLinearAdd", "QGemm"}
    data = model.SerializeToString()
    graph = processor_graph(data, VTA)
    differences = compare_operators(model, graph, feeds)
    assert len(differences) >= 11
    assert max(item.largest for item in differences) <= 1, differences
    (found,) = daedal.simulate(daedal.compile(data, "vta"), feeds).outputs.values()
    (reference,) = run(graph, feeds).values()
    np.testing.assert_array_equal(found, reference)
    (expected,) = run_onnxruntime(read_model(data), feeds)
    assert np.abs(found - expected).max() < 0.1


def test_both_formats_give_one_result(rng: np.random.Generator, tmp_path: Path) -> None:
    """The QDQ twin of a model, quantized with the same images, computes the same numbers."""
    network = mixed_network(rng, head=False)
    options = {"activation_type": "QInt8", "per_channel": True}
    *samples, feeds = random_feeds(rng, 5)
    results = []
    for form in ("QOperator", "QDQ"):
        model = quantize_with_onnxruntime(network, tmp_path, samples, form, **options)
        (result,) = run(processor_graph(model.SerializeToString(), VTA), feeds).values()
        results.append(result)
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
def test_a_trained_network(kind: str, shared: Path, tmp_path: Path) -> None:
    """ResNet-8 in QOperator format: one launch, and onnxruntime's predictions from its reals."""
    folder = shared / "models" / "mlperf_tiny_resnet8"
    data = np.load(folder / "inputs.npz")
    reals = (data["x_q"][:40].astype(np.float32) - data["zero_point"]) * data["scale"]
    feeds = [{"input": image[None].astype(np.float32)} for image in reals]
    network = onnx.load(folder / "model.onnx")
    assert network.graph.input[0].name == "input"
    model = quantize_with_onnxruntime(
        network, tmp_path, feeds[:20], "QOperator", activation_type=kind, weight_type=kind
    )
    artifact = daedal.compile(model.SerializeToString(), "vta")
    assert len(artifact.launches) == 1
    graph = processor_graph(model.SerializeToString(), VTA)
    assert max(item.largest for item in compare_operators(model, graph, feeds[0])) <= 1
    agree, reals = 0, read_model(model.SerializeToString())
    for feed in feeds[20:]:
        (found,) = daedal.simulate(artifact, feed).outputs.values()
        agree += int(found.argmax() == run_onnxruntime(reals, feed)[0].argmax())
    assert agree >= 19


@pytest.mark.parametrize(
    "op_type", ["QLinearAveragePool", "QLinearConv", "QLinearGlobalAveragePool"]
)
@pytest.mark.parametrize("rank", [3, 4])
def test_channels_may_come_last(op_type: str, rank: int) -> None:
    """The same operator between transposes of its operand and its result."""

    def expanded(last: int) -> onnx.ModelProto:
        it = IntegerModel("uint8")
        shape = [1, 3, 6, 5][:rank]
        x = it.input(*([shape[0], *shape[2:], shape[1]] if last else shape))
        operands = [x, *it.scale(0.05, 131)]
        attrs: dict[str, Any] = {"channels_last": 1} if last else {}
        if op_type == "QLinearConv":
            weights = it.integers(4, 3, *[3] * (rank - 2), dtype="int8")
            operands += [it.constant(weights), *it.scale(FOUR, 0, "int8")]
        elif op_type == "QLinearAveragePool":
            attrs["kernel_shape"] = [2] * (rank - 2)
        operands += it.scale(0.4, 131)
        return read_model(it.model(op_type, operands, MICROSOFT, rank, **attrs))

    x = np.random.default_rng(0).integers(0, 256, [1, 3, 6, 5][:rank]).astype(np.uint8)
    (wanted,) = run_onnxruntime(expanded(0), {"x0": x})
    (found,) = run_onnxruntime(expanded(1), {"x0": np.moveaxis(x, 1, -1)})
    np.testing.assert_array_equal(np.moveaxis(found, -1, 1), wanted)


def test_integers_of_constants_are_no_activations() -> None:
    """Weights that are quantized and clipped, as brevitas exports them, are still weights."""
    it = IntegerModel("int8")
    weights = np.random.default_rng(0).normal(size=(4, 3, 1, 1)).astype(np.float32)
    scale, zero = it.scale(0.01)
    nodes = [
        helper.make_node("QuantizeLinear", [it.constant(weights), scale, zero], ["q"]),
        helper.make_node("Clip", ["q", *map(it.constant, np.int8([-7, 7]))], ["c"]),
        helper.make_node("DequantizeLinear", ["c", scale, zero], ["w"]),
        helper.make_node("DequantizeLinear", [it.input(1, 3, 2, 2), scale, zero], ["x"]),
        helper.make_node("Conv", ["x", "w"], ["r"]),
    ]
    model = onnx.ModelProto.FromString(it.model("QuantizeLinear", ["r", scale, zero]))
    last = onnx.NodeProto()
    last.CopyFrom(model.graph.node[0])
    del model.graph.node[:]
    model.graph.node.extend([*nodes, last])
    graph = load_onnx(model.SerializeToString())
    (made,) = (node for node in graph.nodes if node.op == "conv2d")
    producer = graph.producers[made.inputs[1]]
    assert producer.op == "dequantize" and graph.is_constant(producer.inputs[0])
    assert np.abs(graph.constant(producer.inputs[0])).max() == 7
