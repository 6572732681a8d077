"""What a model's file may not ask for: every refusal, before anything else reads the file."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from bench.qdq_model import QdqModel
from daedal.common.errors import ModelError, first_line
from daedal.compiler.frontend import load_onnx
from daedal.compiler.frontend.bounds import MAX_NAME_LENGTH

Change = Callable[[onnx.ModelProto], None]


def relu() -> onnx.ModelProto:
    maker = QdqModel()
    maker.op("Relu", maker.input("x", (2, 3)), output="y")
    return maker.model("y")


def refusal(change: Change) -> str:
    model = relu()
    change(model)
    with pytest.raises(ModelError) as error:
        load_onnx(model.SerializeToString())
    assert str(error.value).isprintable()
    return str(error.value)


def name_node(name: str) -> Change:
    def change(model: onnx.ModelProto) -> None:
        model.graph.node[0].name = name

    return change


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "a\0", "\u202eabc", "\x9b"])
def test_names_must_be_printable(name: str) -> None:
    assert refusal(name_node(name)) == (
        f"names must be printable text, not {name!r}; rename it in the model"
    )


@pytest.mark.parametrize("extents", [(1 << 54,), (0, 1 << 62, 1 << 62), (1 << 30, 1 << 30, 0)])
def test_tensors_must_be_of_a_size(extents: tuple[int, ...]) -> None:
    """Also empty ones: arrays and artifacts have no larger extents."""

    def change(model: onnx.ModelProto) -> None:
        dims = model.graph.input[0].type.tensor_type.shape.dim
        dims.clear()
        for extent in extents:
            dims.add().dim_value = extent

    assert refusal(change).startswith(
        "the extents of a tensor must have a product of at most 9007199254740992, and those of "
        f"'x' are {extents}"
    )


def test_names_must_be_text() -> None:
    data = relu().SerializeToString().replace(b"y/Relu", b"\xff\xfe\xc3(lu")
    with pytest.raises(ModelError, match=r"^names must be printable text, not b'\\xff.*; rename"):
        load_onnx(data)


def test_names_must_be_short() -> None:
    long = "n" * (MAX_NAME_LENGTH + 1)
    assert refusal(name_node(long)) == (
        f"names must have at most 1000 characters, not 1001 ('{'n' * 100}'...); "
        "rename it in the model"
    )
    model = relu()
    model.graph.node[0].name = long[1:]
    assert load_onnx(model.SerializeToString()).nodes[0].name == long[1:]


def test_names_of_any_script_and_with_slashes_stay() -> None:
    model = relu()
    model.graph.node[0].name = "../层/ü [x]"
    assert load_onnx(model.SerializeToString()).nodes[0].name == "../层/ü [x]"


def test_looks_into_functions() -> None:
    def change(model: onnx.ModelProto) -> None:
        opset = helper.make_opsetid("", 13)
        node = helper.make_node("Relu", ["a"], ["b"], name="a\nb")
        model.functions.append(helper.make_function("own", "f", ["a"], ["b"], [node], [opset]))

    assert refusal(change) == "names must be printable text, not 'a\\nb'; rename it in the model"


def branch(*nodes: onnx.NodeProto) -> Change:
    """A condition whose branch holds `nodes`."""

    def change(model: onnx.ModelProto) -> None:
        inner = helper.make_graph(nodes, "inner", [], [])
        model.graph.node[0].attribute.append(helper.make_attribute("then_branch", inner))

    return change


def test_refuses_loops_however_deep() -> None:
    loop = helper.make_node("Loop", ["n", "go", "x"], ["b"], name="l")
    assert refusal(branch(loop)) == (
        "a model for an accelerator must be sure to end, which a Loop is not (node 'l'); unroll "
        "it, or compile for target 'cpu'"
    )


def test_names_and_data_in_branches_are_checked() -> None:
    assert "names must be printable text, not 'a\\x07'" in refusal(
        branch(helper.make_node("Identity", ["a\a"], ["b"]))
    )
    tensor = TensorProto(data_location=TensorProto.EXTERNAL)
    node = helper.make_node("Constant", [], ["c"], name="c", value=tensor)
    assert refusal(branch(node)).startswith("tensors must lie inside the file, but node 'c' holds ")


@pytest.mark.parametrize("sparse", [False, True])
def test_refuses_external_data_in_constants(sparse: bool, tmp_path: Path) -> None:
    """The checker of onnx would look for the file."""

    def change(model: onnx.ModelProto) -> None:
        tensor = numpy_helper.from_array(np.zeros(3, np.float32), "t")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=str(tmp_path / "weights.bin"))
        item = model.graph.node.add(op_type="Constant", output=["c"], name="c").attribute.add()
        item.name = "value"
        if sparse:
            item.type = onnx.AttributeProto.SPARSE_TENSOR
            item.sparse_tensor.values.CopyFrom(tensor)
        else:
            item.type = onnx.AttributeProto.TENSOR
            item.t.CopyFrom(tensor)

    assert refusal(change) == (
        "tensors must lie inside the file, but node 'c' holds external data; save the model with "
        "its data inside"
    )


def test_reasons_of_others_fit_a_sentence() -> None:
    assert first_line(ValueError("  first\x1b[0m part\nsecond")) == "first?[0m part"
    assert first_line(ValueError("")) == "unknown reason"
    assert first_line(ValueError("a" * 1000)) == "a" * 300
