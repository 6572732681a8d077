"""The host's part of a model: cut, run by ONNX's reference evaluator, equal to the whole."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from daedal.checking.integer_reference import run_onnxruntime
from daedal.common.errors import ModelError
from daedal.compiler.artifact.host_parts import HostParts, HostTask
from daedal.compiler.frontend.cut import cut_model
from daedal.compiler.frontend.host_model import host_model
from daedal.compiler.frontend.importer import load_onnx
from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.runtime.host import HostModel

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"


def extract_host_model(model: onnx.ModelProto, inputs: list[str], outputs: list[str]) -> bytes:
    """The part of the imported graph as the host's ONNX model."""
    parts = HostParts(load_onnx(model), [HostTask(frozenset(inputs), tuple(outputs))])
    made = host_model(parts.graph(0), parts.outputs(0), model, tensor_types(model))
    onnx.checker.check_model(made, full_check=True)
    return bytes(made.SerializeToString(deterministic=True))


def digits() -> onnx.ModelProto:
    """The int8 network with its batch left open."""
    model = onnx.load(DIGITS)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    return model


def random_chain(rng: np.random.Generator) -> tuple[onnx.ModelProto, list[str]]:
    """A model of random unary and binary nodes; every tensor may be cut. Returns all tensors."""
    constants = [
        numpy_helper.from_array(rng.normal(size=(1, 3)).astype(np.float32), f"c{n}")
        for n in range(4)
    ]
    nodes, tensors = [], ["x"]
    for number in range(10):
        a, b = rng.choice(tensors), rng.choice(tensors)
        kind = ("Relu", "Neg", "Add", "Mul", "Max")[rng.integers(5)]
        second = f"c{rng.integers(4)}" if rng.random() < 0.5 else str(b)
        operands = [str(a)] if kind in ("Relu", "Neg") else [str(a), second]
        nodes.append(helper.make_node(kind, operands, [f"t{number}"]))
        tensors.append(f"t{number}")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "random",
        [value("x", TensorProto.FLOAT, ["N", 3])],
        [value(tensors[-1], TensorProto.FLOAT, ["N", 3])],
        constants,
    )
    opset = helper.make_opsetid("", 13)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8), tensors


def shape_of(value: onnx.ValueInfoProto) -> list[int]:
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def test_digits_prologue_and_epilogue_are_the_outer_nodes_with_batch_one() -> None:
    prologue = onnx.ModelProto.FromString(extract_host_model(digits(), ["input"], ["input_q"]))
    assert [node.op_type for node in prologue.graph.node] == ["QuantizeLinear"]
    assert shape_of(prologue.graph.input[0]) == shape_of(prologue.graph.output[0]) == [1, 1, 8, 8]
    assert prologue.graph.output[0].type.tensor_type.elem_type == TensorProto.INT8
    assert {item.name for item in prologue.graph.initializer} == {"input_scale", "input_zero_point"}
    epilogue = onnx.ModelProto.FromString(
        extract_host_model(digits(), ["fc0_q"], ["probabilities"])
    )
    assert [node.op_type for node in epilogue.graph.node] == ["DequantizeLinear", "Softmax"]
    assert shape_of(epilogue.graph.output[0]) == [1, 10]
    for part in (prologue, epilogue):
        onnx.checker.check_model(part, full_check=True)


def test_parts_in_a_row_compute_what_the_whole_does(rng: np.random.Generator) -> None:
    image = rng.uniform(0, 1, (1, 1, 8, 8)).astype(np.float32)
    (expected,) = run_onnxruntime(digits(), {"input": image})
    values: dict[str, np.ndarray] = {"input": image}
    edges = [["input"], ["input_q"], ["conv0_q"], ["add0_q"], ["fc0_q"], ["probabilities"]]
    for before, after in pairwise(edges):
        part = HostModel(extract_host_model(digits(), before, after), "part")
        values = part.run({name: values[name] for name in before})
    np.testing.assert_allclose(values["probabilities"], expected, atol=0.02)


def test_random_cuts_compute_the_same_and_give_the_same_bytes(rng: np.random.Generator) -> None:
    cuts = 0
    for _ in range(40):
        model, tensors = random_chain(rng)
        x = rng.normal(size=(1, 3)).astype(np.float32)
        computed = ReferenceEvaluator(model).run(tensors[1:], {"x": x})
        values = dict(zip(tensors, [x, *computed], strict=True))
        starts = [str(name) for name in rng.choice(tensors, size=3, replace=False)]
        ends = [str(name) for name in rng.choice(tensors, size=2, replace=False)]
        try:
            data = extract_host_model(model, starts, ends)
        except ModelError as error:
            assert "also needs the model's input 'x'" in str(error)
            continue
        ends = [name for name in ends if name not in starts]
        cuts += bool(ends)
        assert data == extract_host_model(model, starts, ends)
        found = HostModel(data, "part").run({name: values[name] for name in starts})
        assert list(found) == ends
        for name in ends:
            np.testing.assert_array_equal(found[name], values[name])
    assert cuts >= 5


def test_softmax_of_an_old_opset_keeps_its_meaning(rng: np.random.Generator) -> None:
    """Before opset 13 Softmax normalizes over all axes from `axis` on together."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Softmax", ["x"], ["y"], axis=1)],
        "old",
        [value("x", TensorProto.FLOAT, [2, 3, 4])],
        [value("y", TensorProto.FLOAT, [2, 3, 4])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)
    found = HostModel(extract_host_model(model, ["x"], ["y"]), "part").run({"x": x})["y"]
    np.testing.assert_allclose(found.sum(axis=(1, 2)), [1, 1], rtol=1e-6)


def test_extraction_leaves_the_model_alone() -> None:
    model = digits()
    before = model.SerializeToString(deterministic=True)
    extract_host_model(model, ["input"], ["input_q"])
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["fc0_q"], ["conv0_q"], "'conv0_q' also needs the model's input 'input'"),
        (["input"], ["nothing"], "tensors that the model computes, not 'nothing'"),
        (["nothing"], ["nothing", "input_q"], "also needs the model's input 'input'"),
    ],
)
def test_refusals(inputs: list[str], outputs: list[str], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        cut_model(digits(), inputs, outputs)


def test_a_part_may_have_one_result_of_a_node_as_its_input() -> None:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Split", ["x"], ["left", "right"], axis=0, num_outputs=2),
            helper.make_node("Sub", ["left", "right"], ["y"]),
        ],
        "one_known",
        [value("x", TensorProto.FLOAT, [4])],
        [value("y", TensorProto.FLOAT, [2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    part = cut_model(model, ["x", "left"], ["y"])
    feeds = {"x": np.arange(4, dtype=np.float32), "left": np.float32([10, 20])}
    found = HostModel(part.SerializeToString(), "part").run(feeds)["y"]
    np.testing.assert_array_equal(found, [8, 17])


def test_parts_need_only_what_is_known() -> None:
    message = "'conv0_q' also needs the model's input 'input'; name other tensors with --from"
    with pytest.raises(ModelError, match=message):
        extract_host_model(digits(), ["fc0_q"], ["conv0_q"])


def test_unknown_shape_is_refused() -> None:
    model, _ = random_chain(np.random.default_rng(0))
    with pytest.raises(ModelError, match="static shapes where it is cut, and 'ghost' has none"):
        cut_model(model, ["ghost"], ["ghost", "ghost"])
