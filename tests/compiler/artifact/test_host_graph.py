"""Host parts are cut from the imported graph, with what it cannot have, and written as ONNX."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import daedal
from bench.qdq_model import QdqModel
from daedal.artifact.artifact import Artifact, HostPart
from daedal.checking.onnxruntime_session import open_session
from daedal.compiler.artifact import build
from daedal.compiler.cpu import graph as processor
from daedal.compiler.cpu.importer import import_model
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.graph.graph import Graph

Maker = Callable[[QdqModel, str], Sequence[str]]
SHAPE = (1, 8, 4, 4)
STEP = 0.125
FLOAT = TensorProto.FLOAT


def layer(it: QdqModel, x: str) -> str:
    """A layer of the accelerator: every second channel, with the sign changed."""
    weights = it.weights(np.diag(np.tile([0, -64], 4)).astype(np.int8)[..., None, None], 1 / 64)
    return it.requantized(it.op("Conv", x, weights), STEP, 0)


def model_of(make: Maker, opset: int = 21) -> onnx.ModelProto:
    it = QdqModel(opset)
    outputs = make(it, layer(it, it.requantized(it.input("x", SHAPE), STEP, 0)))
    model = it.model(*outputs)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in outputs)
    return onnx.shape_inference.infer_shapes(model)


def compiled(model: onnx.ModelProto) -> Artifact:
    return daedal.compile(model.SerializeToString(), "tiny", host=None, cpu_levels=())


def on_host(artifact: Artifact) -> list[str]:
    models = [part.model for part in artifact.parts if isinstance(part, HostPart) and part.model]
    return [node.op_type for item in models for node in onnx.ModelProto.FromString(item).graph.node]


def several(it: QdqModel, op_type: str, reads: list[str], makes: list[str], **attrs: Any) -> None:
    it.nodes.append(helper.make_node(op_type, reads, makes, **attrs))


def lstm(it: QdqModel, x: str, makes: list[str]) -> None:
    rng = np.random.default_rng(1)
    rows = it.op("Reshape", x, it.constant(np.array([4, 1, 32])))
    weights = [it.constant(rng.normal(size=(1, 128, 32)).astype(np.float32) / 8) for _ in range(2)]
    several(it, "LSTM", [rows, *weights], makes, hidden_size=32)


def branches(it: QdqModel, x: str, opset: int) -> str:
    def branch(op_type: str, name: str) -> onnx.GraphProto:
        reduced = {"axes": [1]} if opset < 13 else {}
        nodes = [
            helper.make_node(op_type, [x], [f"{name}_x"]),
            helper.make_node("ReduceSum", [f"{name}_x"], [name], **reduced),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(name)])

    positive = it.op("Greater", it.op("ReduceSum", x, keepdims=0), it.constant(np.float32(0)))
    return it.op("If", positive, then_branch=branch("Exp", "a"), else_branch=branch("Neg", "b"))


def aliases(it: QdqModel, x: str) -> Sequence[str]:
    """Another name of a tensor is an output, and read in the graph and outside it."""
    other = it.op("Identity", it.op("Identity", it.op("Erf", x)))
    found = it.op("NonZero", it.op("Identity", other))
    return [it.op("Asin", other), it.op("ReduceMax", it.op("Cast", found, to=FLOAT)), other]


def constants(it: QdqModel, x: str) -> Sequence[str]:
    """Outputs that are constant: computed here, dequantized, by another name, and given."""
    value = it.constant(np.float32([1, 2]))
    weights = it.weights(np.eye(8, dtype=np.int8), 0.5)
    turned = it.op("Transpose", weights, perm=[1, 0])
    twice = it.op("Add", value, value)
    return [it.op("Erf", x), twice, it.op("Identity", twice), it.op("Identity", weights), turned]


def doubles(it: QdqModel, x: str) -> Sequence[str]:
    wide = it.op("Cast", x, to=TensorProto.DOUBLE)
    total = it.op("Add", wide, it.op("Cast", "x", to=TensorProto.DOUBLE))
    scaled = it.op("Mul", total, it.constant(np.float64([0.1])))
    return [scaled, it.op("Exp", it.op("Cast", scaled, to=FLOAT))]


def sequences(it: QdqModel, x: str) -> Sequence[str]:
    pieces = it.op("SplitToSequence", x, it.constant(np.array(4)), axis=1)
    return [it.op("SequenceAt", pieces, it.constant(np.array(1)))]


def four_bits(it: QdqModel, x: str) -> Sequence[str]:
    """A zero point that constant integers share, which have 8 bits in the graph."""
    it.initializers.append(helper.make_tensor("zero", TensorProto.INT4, (), [1]))
    it.initializers.append(helper.make_tensor("w", TensorProto.INT4, (8, 1, 1), range(-8, 8, 2)))
    scale = it.constant(np.float32(0.25))
    whole = it.op("DequantizeLinear", it.op("QuantizeLinear", x, scale, "zero"), scale, "zero")
    return [whole, it.op("Mul", it.op("Erf", x), it.op("DequantizeLinear", "w", scale, "zero"))]


def first_omitted(it: QdqModel, x: str) -> Sequence[str]:
    lstm(it, x, ["", "last"])
    return [it.requantized(it.op("Erf", "last"), 0.01, 0)]


def partly_outside(it: QdqModel, x: str) -> Sequence[str]:
    several(it, "TopK", [x, it.constant(np.array([2]))], ["v", "i"], axis=1)
    return ["v", it.op("Cast", "i", to=TensorProto.DOUBLE)]


def no_elements(it: QdqModel, x: str) -> Sequence[str]:
    none = it.op("Slice", x, *(it.constant(np.array([value])) for value in (3, 3, 1)))
    return [it.op("Concat", none, it.op("Erf", x), axis=1)]


def old_attributes(it: QdqModel, x: str) -> Sequence[str]:
    """What opset 21 has as operands."""
    return [it.op("ReduceL2", it.op("ReduceSum", x, axes=[1]), axes=[2])]


CASES: dict[str, tuple[Maker, int]] = {
    "aliases": (aliases, 21),
    "constants": (constants, 21),
    "doubles": (doubles, 21),
    "first output omitted": (first_omitted, 21),
    "four bits": (four_bits, 21),
    "no elements": (no_elements, 21),
    "old attributes": (old_attributes, 11),
    "old meaning": (lambda it, x: [it.op("Hardmax", it.op("Erf", x), axis=1)], 11),
    "old subgraphs": (lambda it, x: [branches(it, x, 11)], 11),
    "partly outside": (partly_outside, 21),
    "sequences": (sequences, 21),
    "subgraphs": (lambda it, x: [branches(it, it.op("Identity", x), 21)], 21),
}


@pytest.mark.parametrize("case", CASES)
def test_the_host_computes_what_the_model_does(case: str) -> None:
    model = model_of(*CASES[case])
    artifact = compiled(model)
    assert "Conv" not in on_host(artifact)
    # Multiples of the step, so that no rounding differs.
    x = np.random.default_rng(5).integers(-40, 40, SHAPE).astype(np.float32) * np.float32(STEP)
    found = daedal.simulate(artifact, {"x": x}).outputs
    wanted = open_session(model)({"x": x})
    for item, array in zip(model.graph.output, wanted, strict=True):
        assert found[item.name].dtype == array.dtype
        np.testing.assert_allclose(found[item.name], array, atol=0.0051, rtol=1e-5)


def test_what_only_gives_a_shape_is_not_computed_again() -> None:
    def make(it: QdqModel, x: str) -> Sequence[str]:
        return [it.op("Reshape", it.op("Erf", layer(it, x)), it.op("Shape", x))]

    artifact = compiled(model_of(make))
    assert on_host(artifact) == ["QuantizeLinear", "DequantizeLinear", "Erf", "Reshape"]
    assert {item.where for item in artifact.placements if item.op == "Conv"} == {"accelerator"}


def test_one_node_with_results_in_two_parts_runs_once() -> None:
    def make(it: QdqModel, x: str) -> Sequence[str]:
        lstm(it, x, ["y", "last", "state"])
        row = it.op("Reshape", "y", it.constant(np.array([1, 8, 4, 4])))
        return [layer(it, it.requantized(row, STEP, 0)), it.op("Exp", "last"), "state"]

    artifact = compiled(model_of(make))
    assert len(artifact.launches) == 2 and on_host(artifact).count("LSTM") == 1


def test_the_processor_gets_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """And its model is the same graph, for machines that compile it again."""

    def make(it: QdqModel, x: str) -> Sequence[str]:
        weights = it.constant(np.ones((2, 8, 1, 1), np.float32))
        return [it.op("Conv", it.op("Asin", it.op("Softmax", x, axis=1)), weights)]

    parts: list[tuple[bytes, Graph]] = []
    monkeypatch.setattr(build, "compile_host_model", lambda model, *_: parts.append((model, _[-1])))
    compiled(model_of(make))
    assert [node.op for _, graph in parts for node in graph.nodes] == [
        *("quantize", "dequantize", "softmax", "onnx", "conv2d"),
    ]
    models = [onnx.ModelProto.FromString(data) for data, _ in parts]
    for model, (_, graph) in zip(models, parts, strict=True):
        again = load_onnx(model)
        assert str(again).splitlines()[1:] == str(graph).splitlines()[1:]
    monkeypatch.setattr(processor, "load_onnx", None)
    for model, (_, graph) in zip(models, parts, strict=True):
        assert import_model(model, imported=graph).outputs
