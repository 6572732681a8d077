"""Binds the shapes of a model's inputs where the model leaves them open.

Input: a checked ModelProto and shapes by name. Output: a ModelProto with these shapes.
"""

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper

from daedal.common.errors import ModelError

__all__ = ["bind_shapes"]

MAX_EXTENT = (1 << 31) - 1


def bind_shapes(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int]], *, empty: bool = False
) -> onnx.ModelProto:
    """`model` with the shapes of some inputs; a symbol means the same number in all of them.

    With `empty`, a tensor may have no elements.

    Raises
    ------
    ModelError
        For what is no input or no tensor, for a shape that the model or another shape contradicts,
        and for an extent that is no positive number.
    """
    if not shapes:
        return model
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    given = {tensor.name for tensor in model.graph.initializer}
    inputs = {item.name: item for item in bound.graph.input if item.name not in given}
    symbols: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in inputs:
            raise ModelError(
                f"a shape must be that of an input of the model, and {name!r} is none; its inputs "
                f"are {', '.join(map(repr, inputs)) or 'none'}"
            )
        _bind(inputs[name], shape, symbols, 0 if empty else 1)
    for item in inputs.values():
        for dim in item.type.tensor_type.shape.dim:
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param]
    return bound


def _bind(
    item: onnx.ValueInfoProto, shape: Sequence[int], symbols: dict[str, int], low: int
) -> None:
    """Set the shape of an input, of extents from `low`, and note what its symbols are."""
    name, sizes = item.name, "x".join(map(str, shape))
    if not item.type.HasField("tensor_type"):
        raise ModelError(f"a shape must be that of a tensor, and input {name!r} is none")
    if not all(low <= size <= MAX_EXTENT for size in shape):
        raise ModelError(
            f"the extents of a shape must be from {low} to {MAX_EXTENT}, not {sizes} "
            f"(input {name!r})"
        )
    tensor = item.type.tensor_type
    known = tensor.shape.dim
    if tensor.HasField("shape") and len(known) != len(shape):
        raise ModelError(
            f"the shape of input {name!r} must have {len(known)} dimensions, as the model says, "
            f"not {len(shape)} ({sizes})"
        )
    for axis, (dim, size) in enumerate(zip(known, shape, strict=False)):
        wanted = dim.dim_value if dim.HasField("dim_value") else symbols.get(dim.dim_param, size)
        if size != wanted:
            symbol = f" for {dim.dim_param!r}" if dim.dim_param else ""
            raise ModelError(
                f"dimension {axis} of input {name!r} must be {wanted}{symbol}, as the model or "
                f"another shape says, not {size}"
            )
        if dim.dim_param:
            symbols[dim.dim_param] = size
    item.type.CopyFrom(helper.make_tensor_type_proto(tensor.elem_type, shape))
