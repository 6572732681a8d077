"""The table of operators says what the compiler does."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

from bench.qdq_model import QdqModel
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.frontend import load_onnx
from daedal.compiler.frontend.operators.table import OPERATORS
from daedal.compiler.frontend.qoperators import EXPANSIONS
from daedal.compiler.graph.ops.registry import runs_on
from daedal.compiler.ops.onnx.table import LOWERINGS
from daedal.compiler.pipeline import graph_passes
from daedal.compiler.supported import supported_operators
from daedal.compiler.targets.names import ACCELERATOR
from daedal.isa.variant import load_variant
from tests.compiler.graph.qdq_models import Array

VTA = load_variant("vta")
Maker = Callable[[QdqModel, str], str]


def whole(*values: int) -> Array:
    return np.array(values, dtype=np.int64)


def real(*values: float) -> Array:
    return np.array(values, dtype=np.float32)


def with_constants(op_type: str, *operands: Array | None, **attrs: object) -> Maker:
    def make(maker: QdqModel, x: str) -> str:
        names = ["" if value is None else maker.constant(value) for value in operands]
        return maker.op(op_type, x, *names, **attrs)

    return make


def with_weights(op_type: str, *shape: int) -> Maker:
    def make(maker: QdqModel, x: str) -> str:
        return maker.op(op_type, x, maker.weights(np.ones(shape, dtype=np.int8), 0.01))

    return make


def of_two(op_type: str) -> Maker:
    return lambda maker, x: maker.op(op_type, x, maker.requantized(x, 0.2, 1))


def batch_norm(maker: QdqModel, x: str) -> str:
    names = [maker.constant(np.full(8, value, dtype=np.float32)) for value in (2, 1, 0, 1)]
    return maker.op("BatchNormalization", x, *names)


def gemm(maker: QdqModel, x: str) -> str:
    return with_weights("Gemm", 96, 5)(maker, maker.op("Flatten", x))


def einsum(maker: QdqModel, x: str) -> str:
    weights = maker.weights(np.ones((96, 5), dtype=np.int8), 0.01)
    return maker.op("Einsum", maker.op("Flatten", x), weights, equation="ij,jk->ik")


def split(maker: QdqModel, x: str) -> str:
    maker.nodes.append(helper.make_node("Split", [x], ["first", "second"], axis=1))
    return "second"


def shuffle(maker: QdqModel, x: str) -> str:
    """Between two pools, as a transpose may move across elementwise operators."""
    x = maker.op("MaxPool", x, kernel_shape=[2, 1])
    parts = maker.op("Reshape", x, maker.constant(whole(1, 2, 4, 2, 4)))
    turned = maker.op("Transpose", parts, perm=[0, 2, 1, 3, 4])
    x = maker.op("Reshape", turned, maker.constant(whole(1, 8, 2, 4)))
    return maker.op("MaxPool", x, kernel_shape=[1, 2])


def in_blocks(op_type: str, channels: int) -> Maker:
    """Between two convolutions, as the border to the host moves the bytes anyway."""

    def make(maker: QdqModel, x: str) -> str:
        x = maker.requantized(with_weights("Conv", channels, 8, 2, 1)(maker, x), 0.1, 0)
        x = maker.requantized(maker.op(op_type, x, blocksize=2), 0.1, 0)
        inner = channels // 4 if op_type == "DepthToSpace" else 4 * channels
        return with_weights("Conv", 5, inner, 1, 1)(maker, x)

    return make


def constant(maker: QdqModel, x: str) -> str:
    value = onnx.numpy_helper.from_array(real(0.5))
    return maker.op("Mul", x, maker.op("Constant", value=value))


SAMPLES: dict[str, Maker] = {
    "Add": of_two("Add"),
    "AveragePool": with_constants("AveragePool", kernel_shape=[2, 2]),
    "BatchNormalization": batch_norm,
    "Clip": with_constants("Clip", np.float32(0), np.float32(2)),
    "Concat": lambda maker, x: maker.op("Concat", x, x, axis=1),
    "Constant": constant,
    "Conv": with_weights("Conv", 5, 8, 1, 1),
    "ConvTranspose": with_weights("ConvTranspose", 8, 5, 2, 2),
    "DepthToSpace": in_blocks("DepthToSpace", 64),
    "Div": with_constants("Div", np.float32(3)),
    "Einsum": einsum,
    "Gather": with_constants("Gather", whole(2, 3, 4), axis=1),
    "GatherND": with_constants("GatherND", np.array([[[0, 2], [0, 3], [0, 4]]])),
    "Gemm": gemm,
    "LayerNormalization": with_constants("LayerNormalization", real(1, 2, 3, 4), real(4, 3, 2, 1)),
    "MatMul": lambda maker, x: with_weights("MatMul", 96, 5)(maker, maker.op("Flatten", x)),
    "Max": with_constants("Max", np.float32(0)),
    "MaxPool": with_constants("MaxPool", kernel_shape=[2, 2]),
    "Min": with_constants("Min", np.float32(2)),
    "Mul": of_two("Mul"),
    "Pad": with_constants("Pad", whole(0, 0, 1, 1, 0, 0, 1, 1)),
    "RMSNormalization": with_constants("RMSNormalization", real(1, 2, 3, 4)),
    "ReduceMax": with_constants("ReduceMax", axes=[2, 3]),
    "ReduceMean": with_constants("ReduceMean", axes=[2, 3]),
    "Reshape": with_constants("Reshape", whole(1, 4, 6, 4)),
    "Resize": with_constants("Resize", None, real(1, 1, 2, 2), mode="nearest"),
    "Slice": with_constants("Slice", whole(0), whole(4), whole(1)),
    "SpaceToDepth": in_blocks("SpaceToDepth", 16),
    "Split": split,
    "Squeeze": with_constants("Squeeze", whole(0)),
    "Sub": of_two("Sub"),
    "Sum": of_two("Sum"),
    "Transpose": shuffle,
    "Unsqueeze": with_constants("Unsqueeze", whole(0)),
}
"""How operators are used that need more than one operand; DequantizeLinear and QuantizeLinear are
in all of them."""

OPSETS = {"Gelu": 20, "HardSwish": 14, "LayerNormalization": 17, "RMSNormalization": 23}


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "Upsample"])
def test_an_operator_runs_where_the_table_says(name: str) -> None:
    """Between two layers of the accelerator."""
    maker = QdqModel(OPSETS.get(name, 13))
    x = maker.requantized(maker.input("x", (1, 8, 3, 4)), 0.1, 3)
    x = maker.requantized(maker.op("LeakyRelu", x, alpha=0.5), 0.1, 3)
    if name not in ("DequantizeLinear", "QuantizeLinear"):
        make = SAMPLES.get(name, lambda maker, x: maker.op(name, x))
        x = maker.requantized(make(maker, x), 0.05, -4)
    x = maker.requantized(maker.op("LeakyRelu", x, alpha=0.25), 0.1, 3)
    model = maker.model(x)
    model.graph.output[0].type.tensor_type.shape.SetInParent()
    graph = load_onnx(model.SerializeToString())
    for step, run_pass in graph_passes(VTA, (), ()):
        if step == "to_blocked":
            break
        graph = run_pass(graph)
    first, *between, last = [node.op for node in graph.nodes if node.op != "reshape"][1:-1]
    # One that keeps the scale is a maximum.
    assert {first, last} <= {"q_leaky_relu", "q_max_requantized"}
    left = [op for op in between if not runs_on(op, ACCELERATOR)]
    match OPERATORS[name].where:
        case "host":
            assert left
        case "accelerator":
            assert between and not left
        case "folded":
            assert not left and set(between) <= {"q_requantize"}


def test_every_operator_is_listed_once() -> None:
    rows = supported_operators()
    names = [row.name for row in rows]
    assert len(set(names)) == len(names)
    assert set(OPERATORS) <= set(names)
    assert {f"{domain}.{name}" for domain, name in EXPANSIONS if domain} <= set(names)
    by_name = {row.name: row for row in rows}
    upsample = by_name["Upsample"]
    assert (upsample.first_opset, upsample.last_opset) == (7, 9)
    assert (by_name["Gelu"].first_opset, by_name["Gelu"].last_opset) == (20, None)
    assert by_name["QLinearConv"].where == by_name["com.microsoft.QGemm"].where == "accelerator"
    assert by_name["com.microsoft.QLinearWhere"].where == "host"


PROCESSOR = {
    "Add": "compiled",
    "BlackmanWindow": "expanded",
    "Constant": "folded",
    "Loop": "interpreted",
    "MaxRoiPool": "not run",
    "NonZero": "interpreted",
    "QLinearConv": "compiled",
    "com.microsoft.QGemm": "compiled",
}


def test_what_becomes_of_operators_on_a_processor() -> None:
    found = {row.name: row.processor for row in supported_operators()}
    assert {name: found[name] for name in PROCESSOR} == PROCESSOR
    assert {name for name in LOWERINGS if found[name] != "compiled"} == set()


def test_every_operator_of_onnx_is_listed() -> None:
    newest = {
        schema.name for schema in onnx.defs.get_all_schemas() if schema.domain in ("", "ai.onnx")
    }
    assert newest - {row.name for row in supported_operators()} == set()


@pytest.mark.parametrize("op_type", ["BlackmanWindow", "HammingWindow", "HannWindow"])
def test_expanded_operators_are_compiled(op_type: str) -> None:
    """What the table calls expanded leaves nothing to interpret."""
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [8])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [8])
    size = onnx.numpy_helper.from_array(np.array(8, np.int64), "size")
    nodes = [helper.make_node(op_type, ["size"], ["w"]), helper.make_node("Mul", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [size])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    assert build_host_code(model).interpreted == ()


def test_opsets_of_every_operator_are_in_order() -> None:
    """A version that is deprecated may come before one that is valid."""
    opsets = {item.name: (item.first_opset, item.last_opset) for item in supported_operators()}
    assert all(last is None or first <= last for first, last in opsets.values())
    assert opsets["GroupNormalization"] == (21, None)
    assert opsets["Upsample"] == (7, 9) and opsets["Scatter"] == (9, 10)
