"""Names of all tensors of a model, and their types by ONNX's own shape inference."""

import onnx
import onnx.shape_inference

from daedal.compiler.frontend.inference_bounds import hide_steps
from daedal.isa.errors import ModelError, first_line

__all__ = ["tensor_names", "tensor_types"]


def tensor_names(model: onnx.ModelProto) -> frozenset[str]:
    """Every tensor of the model's graph: inputs, initializers, and what its nodes compute."""
    graph = model.graph
    given = {item.name for item in (*graph.input, *graph.initializer)}
    return frozenset(given | {name for node in graph.node for name in node.output if name})


def tensor_types(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """Types of all tensors with a batch of 1; `model` stays as it is."""
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    for value in bound.graph.input:
        dims = value.type.tensor_type.shape.dim
        if dims and not dims[0].HasField("dim_value"):
            dims[0].dim_value = 1
    # Recorded shapes may still name the symbol; inference finds them again.
    del bound.graph.value_info[:]
    for value in bound.graph.output:
        value.type.tensor_type.ClearField("shape")
    hide_steps(bound.graph)
    try:
        inferred = onnx.shape_inference.infer_shapes(bound, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise ModelError(
            "the shapes of a model must fit together, and these do not: "
            f"{first_line(error)}; export it again"
        ) from error
    graph = inferred.graph
    return {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}
