"""Names of all tensors of a model, and their types by ONNX's own shape inference."""

import math
import warnings
from collections.abc import Mapping

import onnx
import onnx.shape_inference

from daedal.common.errors import ModelError, ModelWarning, first_line
from daedal.compiler.frontend.inference_bounds import hide_steps
from daedal.compiler.frontend.inferred_forms import replace_misread

__all__ = ["MAX_VALUES", "tensor_names", "tensor_types"]

MAX_VALUES = 1 << 12
"""Elements of a constant that shape inference may need to see: shapes, axes, pads."""


def tensor_names(model: onnx.ModelProto) -> frozenset[str]:
    """Every tensor of the model's graph: inputs, initializers, and what its nodes compute."""
    graph = model.graph
    given = {item.name for item in (*graph.input, *graph.initializer)}
    return frozenset(given | {name for node in graph.node for name in node.output if name})


def tensor_types(model: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """Types of all tensors with a batch of 1; `model` stays as it is.

    Warns where the model states another shape than its operators give.
    """
    bound, added = _without_large_values(model)
    for value in bound.graph.input:
        dims = value.type.tensor_type.shape.dim
        if dims and not dims[0].HasField("dim_value"):
            dims[0].dim_value = 1
    given = {value.name: value.type for value in bound.graph.input}
    for value in bound.graph.output:
        if value.name in given:  # without a shape, inference would forget the input's
            value.type.CopyFrom(given[value.name])
        else:
            value.type.tensor_type.ClearField("shape")
    hide_steps(bound.graph)
    replace_misread(bound)
    try:
        inferred = onnx.shape_inference.infer_shapes(bound, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise ModelError(
            "the shapes of a model must fit together, and these do not: "
            f"{first_line(error)}; export it again"
        ) from error
    graph = inferred.graph
    types = {
        value.name: value
        for value in (*graph.value_info, *graph.output, *graph.input)
        if value.name not in added
    }
    _compare(model, types)
    return types


def _without_large_values(model: onnx.ModelProto) -> tuple[onnx.ModelProto, frozenset[str]]:
    """A copy in which large constants are inputs, and the names of these: inference reads the
    values of small ones alone. Recorded shapes are left out, as they may name the batch."""
    graph = model.graph
    copy = onnx.ModelProto(ir_version=model.ir_version)
    copy.opset_import.extend(model.opset_import)
    copy.functions.extend(model.functions)
    made = copy.graph
    made.name = graph.name
    made.node.extend(graph.node)
    made.input.extend(graph.input)
    made.output.extend(graph.output)
    made.sparse_initializer.extend(graph.sparse_initializer)
    given = {item.name for item in graph.input}
    added = set[str]()
    for tensor in graph.initializer:
        if math.prod(tensor.dims) <= MAX_VALUES:
            made.initializer.append(tensor)
        elif tensor.name not in given:
            added.add(tensor.name)
            made.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return copy, frozenset(added)


def _compare(model: onnx.ModelProto, types: Mapping[str, onnx.ValueInfoProto]) -> None:
    """Warn of shapes that the model states and its operators do not give."""
    for value in (*model.graph.value_info, *model.graph.output):
        stated, found = _extents(value), _extents(types.get(value.name, onnx.ValueInfoProto()))
        # The first dimension may be the batch, which was set to 1.
        if stated and found and (len(stated) != len(found) or stated[1:] != found[1:]):
            warnings.warn(
                f"the model states that {value.name!r} has shape {stated}, and its operators give "
                f"{found}, which holds; export the model again",
                ModelWarning,
                stacklevel=2,
            )


def _extents(value: onnx.ValueInfoProto) -> list[int]:
    """The shape of a tensor; empty if it is not static."""
    dims = value.type.tensor_type.shape.dim
    known = all(dim.HasField("dim_value") for dim in dims)
    return [int(dim.dim_value) for dim in dims] if known else []
