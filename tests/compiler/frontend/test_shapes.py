"""Shapes of inputs that a model leaves open."""

import onnx
import pytest
from onnx import TensorProto, helper

from daedal.common.errors import ModelError
from daedal.compiler.frontend.shapes import bind_shapes


def model(**shapes: tuple[int | str | None, ...] | None) -> onnx.ModelProto:
    """The sum of inputs of these shapes."""
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    total = helper.make_empty_tensor_value_info("total")
    graph = helper.make_graph(
        [helper.make_node("Sum", list(shapes), ["total"])], "sum", inputs, [total]
    )
    return helper.make_model(graph)


def dims(bound: onnx.ModelProto) -> dict[str, list[int]]:
    return {
        item.name: [dim.dim_value for dim in item.type.tensor_type.shape.dim]
        for item in bound.graph.input
    }


def test_a_symbol_is_the_same_in_all_inputs() -> None:
    given = model(x=("batch", "length"), mask=(1, "length"))
    before = given.SerializeToString()
    assert dims(bind_shapes(given, {"x": (2, 7)})) == {"x": [2, 7], "mask": [1, 7]}
    assert given.SerializeToString() == before


def test_a_shape_where_the_model_has_none() -> None:
    assert dims(bind_shapes(model(x=None, y=(None, 4)), {"x": (3, 4), "y": (3, 4)})) == {
        "x": [3, 4],
        "y": [3, 4],
    }
    assert dims(bind_shapes(model(x=(2, 3)), {})) == {"x": [2, 3]}


WRONG = [
    ({"z": (1,)}, "'z' is none; its inputs are 'x', 'y'"),
    ({"x": (1, 2)}, "the shape of input 'x' must have 3 dimensions, as the model says, not 2"),
    ({"x": (4, 3, 5)}, "dimension 1 of input 'x' must be 8, as the model or another shape says"),
    ({"x": (4, 8, 5), "y": (6, 8, 5)}, "dimension 0 of input 'y' must be 4 for 'n', as"),
    ({"x": (0, 8, 5)}, "the extents of a shape must be from 1 to 2147483647, not 0x8x5"),
    ({"x": (1, 8, 1 << 40)}, "must be from 1 to 2147483647, not 1x8x1099511627776 (input 'x')"),
]


@pytest.mark.parametrize(("shapes", "message"), WRONG)
def test_wrong_shapes(shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        bind_shapes(model(x=("n", 8, "m"), y=("n", 8, "k")), shapes)
    assert message in str(caught.value)
