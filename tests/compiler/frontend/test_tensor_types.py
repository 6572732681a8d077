"""Types of a model's tensors."""

import onnx

from daedal.compiler.frontend.tensor_types import tensor_types


def test_an_input_that_is_an_output_too() -> None:
    """Its shape, with a batch of 1, is that of what reads it."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]>'
        "both (float[N,3] x) => (float[N,3] x, float[N,3] z) { y = Relu (x) z = Abs (y) }"
    )
    types = tensor_types(model)
    found = {
        name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for name, value in types.items()
    }
    assert found == {name: [1, 3] for name in "xyz"}
