"""Cuts a part out of an ONNX model, between named tensors.

Input: a checked ModelProto and tensor names. Output: a ModelProto of that part, whose tensors have
static shapes.
"""

from collections.abc import Sequence

import onnx

from daedal.compiler.frontend.tensor_types import tensor_types
from daedal.isa.errors import ModelError

__all__ = ["cut_model"]


def cut_model(
    model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.ModelProto:
    """The part of `model` that computes `outputs` from `inputs`, both in the given order.

    A symbolic batch becomes 1, as in the imported graph. Only the nodes, initializers and operator
    sets that the part needs are in it.

    Raises
    ------
    ModelError
        For a tensor that the model does not compute, for an output that needs an input of the
        model beyond `inputs`, and for a tensor at the edges whose shape is not known.
    """
    nodes, constants = _needed(model.graph, set(inputs), outputs)
    types = tensor_types(model)
    part = onnx.helper.make_graph(
        nodes,
        "part",
        [_edge(types, name) for name in inputs],
        [_edge(types, name) for name in outputs],
        [tensor for tensor in model.graph.initializer if tensor.name in constants],
    )
    domains = {"", *(node.domain for node in nodes)}
    return onnx.helper.make_model(
        part,
        opset_imports=[item for item in model.opset_import if item.domain in domains],
        ir_version=model.ir_version,
        producer_name="daedal",
    )


def _needed(
    graph: onnx.GraphProto, starts: set[str], ends: Sequence[str]
) -> tuple[list[onnx.NodeProto], set[str]]:
    """Nodes on the paths back from `ends` to `starts`, in order, and the initializers they read."""
    producers = {name: index for index, node in enumerate(graph.node) for name in node.output}
    initialized = {tensor.name for tensor in graph.initializer}
    free = {value.name for value in graph.input} - initialized
    indices: set[int] = set()
    constants: set[str] = set()
    stack = [(end, end) for end in reversed(ends)]
    while stack:
        name, end = stack.pop()
        if name in starts or name == "":
            continue
        if name in initialized:
            constants.add(name)
        elif name in producers:
            if producers[name] not in indices:
                indices.add(producers[name])
                stack.extend((item, end) for item in graph.node[producers[name]].input)
        elif name in free:
            raise ModelError(
                "a part of a model must need only the tensors that it starts from "
                f"({', '.join(map(repr, sorted(starts)))}), but {end!r} also needs the model's "
                f"input {name!r}; name other tensors with --from and --to"
            )
        else:
            raise ModelError(
                f"a part of a model must begin and end at tensors that the model computes, not "
                f"{name!r}; name one of its tensors"
            )
    return [graph.node[index] for index in sorted(indices)], constants


def _edge(types: dict[str, onnx.ValueInfoProto], name: str) -> onnx.ValueInfoProto:
    """Name, element type and static shape of a tensor at the edge of the part."""
    value = types.get(name)
    if value is None or not _is_static(value.type.tensor_type):
        raise ModelError(
            f"a model must have static shapes where it is cut, and {name!r} has none; fix the "
            "shapes at export"
        )
    tensor = value.type.tensor_type
    shape = [int(dim.dim_value) for dim in tensor.shape.dim]
    return onnx.helper.make_tensor_value_info(name, tensor.elem_type, shape)


def _is_static(tensor: onnx.TypeProto.Tensor) -> bool:
    return tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim)
