"""Importing ONNX: what each operator becomes, and every refusal."""

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from bench.qdq_model import QdqModel
from daedal.checking.integer_reference import run_onnxruntime
from daedal.common.errors import ModelError
from daedal.compiler.frontend import load_onnx
from daedal.compiler.frontend.attributes import default_attributes
from daedal.compiler.graph import Graph, run, verify
from tests.compiler.graph.qdq_models import Array

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_qdq.onnx"


def import_model(maker: QdqModel, *outputs: str) -> Graph:
    graph = load_onnx(maker.model(*outputs).SerializeToString())
    verify(graph)
    return graph


def single(op_type: str, shape: tuple[int, ...], opset: int = 13, **attrs: object) -> QdqModel:
    """A model of one float operator over one input; its output is ``y``."""
    maker = QdqModel(opset)
    maker.op(op_type, maker.input("x", shape), output="y", **attrs)
    return maker


def check_against_onnxruntime(maker: QdqModel, rng: np.random.Generator) -> Graph:
    """Import a float model, interpret it and compare with onnxruntime."""
    graph = import_model(maker, "y")
    inputs: dict[str, Array] = {
        name: rng.normal(size=graph.types[name].shape).astype(np.float32) for name in graph.inputs
    }
    expected = run_onnxruntime(maker.model("y"), inputs)[0]
    found = run(graph, inputs)["y"]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    return graph


@pytest.mark.parametrize(
    "maker",
    [
        single("Relu", (2, 3)),
        single("Softmax", (2, 3, 4), axis=1),
        single("Softmax", (2, 3, 4), opset=11, axis=1),
        single("LogSoftmax", (2, 3)),
        single("Flatten", (2, 3, 4)),
        single("Flatten", (2, 3, 4), axis=0),
        single("Flatten", (2, 3, 4), axis=-1),
        single("Transpose", (2, 3, 4), perm=[2, 0, 1]),
        single("Transpose", (2, 3, 4)),
        single("Squeeze", (2, 1, 4), opset=11, axes=[1]),
        single("Unsqueeze", (2, 4), opset=11, axes=[0, 3]),
        single("Identity", (2, 3)),
        single("GlobalAveragePool", (1, 2, 3, 5)),
        single("GlobalMaxPool", (1, 2, 3, 5)),
        single("Clip", (2, 3), opset=7, min=-0.5, max=0.25),
        single("MaxPool", (1, 2, 7, 7), kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2]),
        single("MaxPool", (1, 2, 8, 8), kernel_shape=[3, 3], auto_pad="SAME_LOWER", strides=[2, 2]),
        single("AveragePool", (1, 2, 7, 6), kernel_shape=[2, 3], pads=[1, 0, 0, 2]),
        single(
            "AveragePool", (1, 2, 7, 6), kernel_shape=[2, 3], pads=[1, 0, 0, 2], count_include_pad=1
        ),
        single("AveragePool", (1, 2, 7, 6), kernel_shape=[2, 3], auto_pad="VALID"),
    ],
    ids=lambda maker: maker.nodes[0].op_type,
)
def test_float_operators_compute_what_onnxruntime_computes(
    maker: QdqModel, rng: np.random.Generator
) -> None:
    check_against_onnxruntime(maker, rng)


@pytest.mark.parametrize("axis", [-1, 2])
@pytest.mark.parametrize("num_parameters", [1, 2])
def test_layer_norm(axis: int, num_parameters: int, rng: np.random.Generator) -> None:
    maker = QdqModel(17)
    x = maker.input("x", (2, 3, 5))
    names = [maker.constant(rng.normal(size=5).astype(np.float32)) for _ in range(num_parameters)]
    maker.op("LayerNormalization", x, *names, output="y", axis=axis, epsilon=0.01)
    graph = check_against_onnxruntime(maker, rng)
    assert [node.op for node in graph.nodes] == ["layer_norm"]


def test_a_layer_norm_over_several_axes_runs_on_the_host(rng: np.random.Generator) -> None:
    maker = QdqModel(17)
    scale = maker.constant(rng.normal(size=(3, 5)).astype(np.float32))
    maker.op("LayerNormalization", maker.input("x", (2, 3, 5)), scale, output="y", axis=1)
    graph = check_against_onnxruntime(maker, rng)
    assert [node.op for node in graph.nodes] == ["onnx"]


def test_rms_norm(rng: np.random.Generator) -> None:
    maker = QdqModel(23)
    scale = maker.constant(rng.normal(size=5).astype(np.float32))
    maker.op("RMSNormalization", maker.input("x", (2, 3, 5)), scale, output="y", epsilon=0.01)
    graph = import_model(maker, "y")
    assert [node.op for node in graph.nodes] == ["rms_norm"]
    x = rng.normal(size=(2, 3, 5)).astype(np.float32)
    (expected,) = ReferenceEvaluator(maker.model("y")).run(None, {"x": x})
    np.testing.assert_allclose(run(graph, {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


def test_convolution_with_same_padding(rng: np.random.Generator) -> None:
    maker = QdqModel()
    w = maker.constant(rng.normal(size=(4, 1, 3, 3)).astype(np.float32))
    b = maker.constant(rng.normal(size=4).astype(np.float32))
    x = maker.input("x", (1, 2, 7, 8))
    maker.op("Conv", x, w, b, output="y", group=2, auto_pad="SAME_UPPER", strides=[2, 2])
    graph = check_against_onnxruntime(maker, rng)
    assert graph.nodes[0].attrs["pads"] == (1, 0, 1, 1)


def test_gemm_bias_of_shape_one_by_n(rng: np.random.Generator) -> None:
    maker = QdqModel()
    w = maker.constant(rng.normal(size=(3, 5)).astype(np.float32))
    b = maker.constant(rng.normal(size=(1, 5)).astype(np.float32))
    maker.op("Gemm", maker.input("x", (2, 3)), w, b, output="y")
    check_against_onnxruntime(maker, rng)


def test_reshape_squeeze_and_unsqueeze_with_operands(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.input("x", (2, 3, 1, 4))
    shape = maker.constant(np.array([0, -1, 2], dtype=np.int64))
    axes = maker.constant(np.array([-1], dtype=np.int64))
    y = maker.op("Reshape", x, shape)
    y = maker.op("Unsqueeze", y, axes)
    maker.op("Squeeze", y, axes, output="y")
    assert check_against_onnxruntime(maker, rng).types["y"].shape == (2, 6, 2)


def test_constant_nodes_clip_bounds_and_dropout(rng: np.random.Generator) -> None:
    maker = QdqModel()
    x = maker.input("x", (2, 3))
    low = maker.op("Constant", value_float=-0.5)
    high = maker.op("Constant", value=onnx.numpy_helper.from_array(np.array(0.5, dtype=np.float32)))
    clipped = maker.op("Clip", x, low, high)
    maker.op("Dropout", clipped, output="y")
    graph = check_against_onnxruntime(maker, rng)
    assert [node.op for node in graph.nodes] == ["clip", "reshape"]


def test_quantization_without_zero_point_and_with_vectors_of_one(
    rng: np.random.Generator,
) -> None:
    maker = QdqModel()
    scale = maker.constant(np.array([0.1], dtype=np.float32))
    zero_point = maker.constant(np.array([3], dtype=np.int8))
    q = maker.op("QuantizeLinear", maker.input("x", (2, 3)), scale, zero_point)
    real = maker.op("DequantizeLinear", q, scale, zero_point)
    scalar = maker.constant(np.array(0.05, dtype=np.float32))
    q = maker.op("QuantizeLinear", real, scalar)
    maker.op("DequantizeLinear", q, scalar, output="y")
    graph = check_against_onnxruntime(maker, rng)
    assert [graph.types[node.output].dtype for node in graph.nodes] == [
        "int8",
        "float32",
        "uint8",
        "float32",
    ]


def test_symbolic_batch_becomes_one() -> None:
    maker = QdqModel()
    maker.op("Relu", maker.input("x", ("batch", 3)), output="y")
    assert import_model(maker, "y").types["x"].shape == (1, 3)


def test_imports_a_path_and_bytes_alike() -> None:
    assert (
        str(load_onnx(DIGITS)) == str(load_onnx(str(DIGITS))) == str(load_onnx(DIGITS.read_bytes()))
    )


def refusal(data: bytes | Path) -> str:
    """Why a model is refused, or why its only node is left to the host."""
    try:
        (node,) = load_onnx(data).nodes
    except ModelError as error:
        message = str(error)
    else:
        assert node.op == "onnx"
        message = node.note
    assert "\n" not in message
    return message


def refused(maker: QdqModel) -> str:
    return refusal(maker.model("y").SerializeToString())


def test_refuses_a_file_that_is_not_there(tmp_path: Path) -> None:
    message = refusal(tmp_path / "none.onnx")
    assert message.startswith("a model must be a readable file; ")
    assert message.endswith("is not: No such file or directory; check the path")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_refuses_a_truncated_file(share: float) -> None:
    data = DIGITS.read_bytes()
    message = refusal(data[: int(len(data) * share)])
    assert message.startswith("a model must be ")
    assert message.endswith(("export or download it again", "export it again"))


def test_damaged_files_never_raise_anything_else(rng: np.random.Generator) -> None:
    data = DIGITS.read_bytes()
    outcomes = {"imported": 0, "refused": 0}
    for _ in range(300):
        damaged = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            damaged[int(rng.integers(5000))] = int(rng.integers(256))
        try:
            load_onnx(bytes(damaged))
            outcomes["imported"] += 1
        except ModelError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 10, outcomes


def test_leaves_an_unknown_operator_to_the_host(rng: np.random.Generator) -> None:
    graph = load_onnx(single("Erf", (2, 3)).model("y").SerializeToString())
    (node,) = graph.nodes
    assert (node.op, node.attrs["op_type"], node.note) == ("onnx", "Erf", "")
    x = rng.normal(size=(2, 3)).astype(np.float32)
    expected = np.vectorize(math.erf)(x)
    np.testing.assert_allclose(run(graph, {"x": x})["y"], expected, rtol=1e-6)
    (other,) = load_onnx(single("Det", (2, 2)).model("y").SerializeToString()).nodes
    assert (other.op, other.note) == ("onnx", "the accelerator has no such operator")


def test_refuses_an_operator_of_another_domain() -> None:
    maker = single("Relu", (2, 3))
    model = maker.model("y")
    model.graph.node[0].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    message = refusal(model.SerializeToString())
    assert message == (
        "operators must be ONNX's own, not com.example.Relu (node 'y/Relu'): neither accelerator "
        "nor host can run it; replace it in the model"
    )


def test_refuses_a_dynamic_shape() -> None:
    maker = QdqModel()
    maker.op("Relu", maker.input("x", (1, 3, "height")), output="y")
    assert refused(maker) == (
        "shapes must be static except for the batch, but dimension 2 of input 'x' is 'height'; "
        "give the shape with --shape NAME=1x3x224x224 (shapes= in Python)"
    )


def test_leaves_a_computed_reshape_outside_the_graph() -> None:
    maker = QdqModel()
    x = maker.input("x", (2, 3))
    y = maker.op("Relu", x)
    maker.op("Reshape", y, maker.input("shape", (2,), "int64"), output="z")
    model = maker.model("z")
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, ["n", "m"])
    model.graph.output[0].CopyFrom(out)
    graph = load_onnx(model.SerializeToString())
    assert [node.op for node in graph.nodes] == ["relu"]
    assert graph.outputs == (y,)


def test_refuses_old_opsets() -> None:
    assert refused(single("Relu", (2, 3), opset=6)).startswith(
        "a model must use one ONNX opset from 7 to "
    )


def test_refuses_external_data() -> None:
    maker = QdqModel()
    w = maker.constant(np.zeros((3, 3), dtype=np.float32), "w")
    maker.op("MatMul", maker.input("x", (2, 3)), w, output="y")
    model = maker.model("y")
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL
    assert refusal(model.SerializeToString()).startswith(
        "weights must lie inside the file, but 'w' is external data; "
    )


def test_refuses_other_element_types() -> None:
    maker = QdqModel()
    maker.op("Relu", maker.input("x", (2, 3), "float64"), output="y")
    model = maker.model("y", dtype="float64")
    assert refusal(model.SerializeToString()) == (
        "model inputs must be one of float32, int8, uint8, int16, int32, int64, bool, not DOUBLE "
        "(input 'x'); convert the input in the model's export"
    )


@pytest.mark.parametrize(
    ("maker", "message"),
    [
        (
            single("MaxPool", (1, 1, 4, 4), kernel_shape=[2, 2], storage_order=1),
            "attribute storage_order must be 0, not 1 (node 'y/MaxPool', operator MaxPool); "
            "export the model without it",
        ),
        (
            single("MaxPool", (1, 1, 4, 4), kernel_shape=[2, 2], dilations=[2, 2]),
            "dilations of a pooling must be 1, not [2, 2] (node 'y/MaxPool', operator MaxPool); "
            "export the model without them",
        ),
        (
            single("MaxPool", (1, 1, 4, 4, 4), kernel_shape=[2, 2, 2]),
            "pooling must be of a sequence (N, C, L) or a map (N, C, H, W), not over "
            "float32[1,1,4,4,4] (node 'y/MaxPool', operator MaxPool); reshape it",
        ),
        (
            single("AveragePool", (1, 1, 4, 4), kernel_shape=[2, 2], pads=[2, 0, 0, 0]),
            "pads of a pooling must be smaller than its kernel [2, 2], not [2, 0, 0, 0]; pad the "
            "map by an operator of its own (node 'y/AveragePool', operator avg_pool)",
        ),
        (
            single("Relu", (1 << 15, 1 << 15)),
            "a tensor must have at most 268435456 elements, not [32768, 32768]; use smaller inputs",
        ),
    ],
    ids=["storage_order", "dilations", "rank", "pads", "size"],
)
def test_refuses_what_it_cannot_represent(maker: QdqModel, message: str) -> None:
    assert refused(maker) == message


def test_refuses_to_compute_what_is_not_as_inferred() -> None:
    """ONNX's inference takes a pool over a matrix for one that keeps its rank."""
    maker = single("GlobalMaxPool", (6, 8))
    graph = import_model(maker, "y")
    assert graph.nodes[0].op == "onnx"
    with pytest.raises(ModelError) as error:
        run(graph, {"x": np.zeros((6, 8), np.float32)})
    assert str(error.value) == (
        "a node must give what ONNX infers for it, float32[6,8], and GlobalMaxPool gives "
        "float32[] ('y/GlobalMaxPool'); repair the model"
    )


def _small(op_type: str, *shapes: tuple[int, ...], **attrs: object) -> QdqModel:
    """A model of one operator on an input and constants."""
    maker = QdqModel(19)
    constants = [maker.constant(np.full(shape, 0.5, np.float32)) for shape in shapes[1:]]
    maker.op(op_type, maker.input("x", shapes[0]), *constants, output="y", **attrs)
    return maker


def _resized(op_type: str, *operands: Array | None) -> QdqModel:
    maker = QdqModel(19)
    names = [maker.constant(np.asarray(item)) if item is not None else "" for item in operands]
    modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    attrs = modes if op_type == "Resize" else {}
    maker.op(op_type, maker.input("x", (1, 2, 4, 4)), *names, output="y", **attrs)
    return maker


DEFAULTS = {
    "AveragePool": _small("AveragePool", (1, 2, 4, 4), kernel_shape=[2, 2]),
    "BatchNormalization": _small("BatchNormalization", (1, 2, 4, 4), *[(2,)] * 4, epsilon=0.125),
    "Concat": _small("Concat", (1, 2), (1, 2), axis=0),
    "Conv": _small("Conv", (1, 2, 4, 4), (2, 2, 3, 3)),
    "ConvTranspose": _small("ConvTranspose", (1, 2, 4, 4), (2, 2, 2, 2), strides=[2, 2]),
    "Flatten": _small("Flatten", (1, 2, 4)),
    "Gather": _resized("Gather", np.array([0])),
    "Gemm": _small("Gemm", (1, 2), (2, 3)),
    "HardSigmoid": _small("HardSigmoid", (1, 2)),
    "LeakyRelu": _small("LeakyRelu", (1, 2), alpha=0.25),
    "MaxPool": _small("MaxPool", (1, 2, 4, 4), kernel_shape=[2, 2]),
    "Pad": _resized("Pad", np.array([0, 0, 1, 1, 0, 0, 1, 1])),
    "QuantizeLinear": _resized("QuantizeLinear", np.float32(0.5), np.int8(3)),
    "Reshape": _resized("Reshape", np.array([1, 2, 16])),
    "Resize": _resized("Resize", None, np.array([1, 1, 2, 2], np.float32)),
    "Resize to sizes": _resized("Resize", None, None, np.array([1, 2, 8, 8])),
    "Softmax": _small("Softmax", (1, 2)),
    "Split": _small("Split", (2, 2), num_outputs=1),
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_attributes_with_their_default_are_as_if_absent(name: str) -> None:
    """Exporters write them: torch `keep_aspect_ratio_policy`, others `auto_pad`."""
    dtype = "int8" if name == "QuantizeLinear" else "float32"
    model = DEFAULTS[name].model("y", dtype=dtype)
    absent = load_onnx(model.SerializeToString())
    (node,) = model.graph.node
    given = {item.name for item in node.attribute}
    for key, default in default_attributes(node.op_type, 19).items():
        if key not in given:
            node.attribute.append(default)
            node.attribute[-1].name = key
    assert len(node.attribute) > len(given) or name in ("Concat", "LeakyRelu", "Split")
    assert str(load_onnx(model.SerializeToString())) == str(absent)
    assert "onnx" not in {item.op for item in absent.nodes}


def test_an_attribute_that_is_not_its_default_is_refused_or_left_to_the_host() -> None:
    model = DEFAULTS["Resize to sizes"].model("y")
    for dim in model.graph.output[0].type.tensor_type.shape.dim[2:]:
        dim.dim_value = 4
    model.graph.node[0].attribute.append(
        helper.make_attribute("keep_aspect_ratio_policy", "not_larger")
    )
    assert {node.op for node in load_onnx(model.SerializeToString()).nodes} == {"onnx"}
