"""ONNX's shape inference, in C++, survives what untrusted models may say."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from daedal.common.errors import ModelError
from daedal.compiler.frontend.bounds import check_bounds
from daedal.compiler.frontend.tensor_types import tensor_types
from tests.robustness.inference_fuzz import crashes, models, sample, slices


def test_no_slice_of_a_shape_crashes() -> None:
    assert crashes(list(slices())) == []


def test_some_models_do_not_crash(rng: np.random.Generator) -> None:
    assert crashes(sample(rng, operators=8, each=10)) == []


@pytest.mark.slow
def test_nothing_crashes() -> None:
    assert crashes(list(models())) == []


def one_node(op_type: str, inputs: int = 1, **attributes: int | list[int]) -> onnx.ModelProto:
    names = [f"x{index}" for index in range(inputs)]
    kinds = (TensorProto.FLOAT, TensorProto.INT64)
    values = [
        helper.make_tensor_value_info(name, kind, [4, 4, 4])
        for name, kind in zip(names, kinds, strict=False)
    ]
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["y"], "node", **attributes)],
        "one",
        values,
        [helper.make_empty_tensor_value_info("y")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            one_node("GatherND", 2, batch_dims=-(2**31)),
            "attribute batch_dims must be from 0 to 1024, not -2147483648 (node 'node', operator "
            "GatherND); repair the model",
        ),
        (one_node("GatherND", 2, batch_dims=-1), "batch_dims must be from 0 to 1024, not -1"),
        (one_node("Split", num_outputs=2**40), "num_outputs must be from 1 to 65536"),
        (one_node("Transpose", perm=[0, 2**63 - 1]), "perm must be from -1024 to 1024"),
        (one_node("Softmax", axis=-(2**63)), "axis must be from -1024 to 1024"),
    ],
)
def test_attributes_have_limits(model: onnx.ModelProto, message: str) -> None:
    with pytest.raises(ModelError) as error:
        check_bounds(model)
    assert message in str(error.value)
    assert crashes([model]) == []


def test_ordinary_steps_are_seen() -> None:
    """Only what inference fails at is hidden: shapes are still computed."""
    for step, wanted in ((2, [2, 6]), (2**31, [])):
        values = zip("abcd", (0, 2**63 - 1, 0, step), strict=True)
        constants = [numpy_helper.from_array(np.array([value]), name) for name, value in values]
        nodes = [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Slice", ["s", "a", "b", "c", "d"], ["t"]),
            helper.make_node("ConstantOfShape", ["t"], ["y"]),
        ]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 5, 6])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "shapes", [x], [y], constants)
        opset = helper.make_opsetid("", 21)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
        shape = tensor_types(model)["y"].type.tensor_type.shape
        assert [dim.dim_value for dim in shape.dim] == wanted
