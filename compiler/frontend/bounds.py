"""Checks the bounds of a model's file before anything else reads it. The file is untrusted.

Input: a parsed ModelProto. Output: nothing, or the ModelError that says which bound it exceeds.
"""

import math
from collections.abc import Iterator

import onnx

from daedal.common.errors import ModelError
from daedal.compiler.frontend.inference_bounds import check_attributes

__all__ = ["MAX_ELEMENTS", "MAX_NAME_LENGTH", "MAX_NODES", "check_bounds"]

MAX_NODES = 100_000
MAX_NAME_LENGTH = 1_000
MAX_ELEMENTS = 1 << 53
"""Of a tensor as declared, extents of 0 aside; artifacts hold no larger numbers."""
_SHOWN_LENGTH = 100


def check_bounds(model: onnx.ModelProto, *, loops: bool = False) -> None:
    """Refuse models that would make later steps read other files, run forever or grow unbounded.

    A Loop may never end; with `loops` it passes, for what bounds it (`runtime.bounded_loop`).
    Names appear in messages, tables and artifacts, so they must be short and printable. All
    data must be in the file. The bodies of the model's own functions are checked here, but
    their nodes are counted in `check_functions`.

    Raises
    ------
    ModelError
        For the first bound that the model exceeds.
    """
    graph = model.graph
    if not graph.node:
        raise ModelError(
            "a model must be a complete ONNX file with at least one node, and this one has none "
            "(not ONNX, or truncated); export or download it again"
        )
    if len(graph.node) > MAX_NODES or len(graph.initializer) > MAX_NODES:
        raise ModelError(
            f"a model must have at most {MAX_NODES} nodes, not {len(graph.node)}; split it"
        )
    for part in (graph, *map(_body, model.functions)):
        for inner in _graphs(part):
            _check_graph(inner, loops)


def _body(function: onnx.FunctionProto) -> onnx.GraphProto:
    return onnx.GraphProto(name=function.name, node=function.node)


def _check_graph(graph: onnx.GraphProto, loops: bool) -> None:
    for name in _names(graph):
        _check_name(name)
    for item in (*graph.input, *graph.output, *graph.value_info):
        _check_extents(item)
    _check_data(graph)
    for node in graph.node:
        _check_node(node, loops)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph and its subgraphs; protobuf itself bounds their depth."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)


def _names(graph: onnx.GraphProto) -> Iterator[str | bytes]:
    """Every name that a message or a table may show; bytes if it is not UTF-8."""
    yield graph.name
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for item in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
        yield item.name


def _check_name(name: str | bytes) -> None:
    shown = repr(name[:_SHOWN_LENGTH])
    if len(name) > MAX_NAME_LENGTH:
        raise ModelError(
            f"names must have at most {MAX_NAME_LENGTH} characters, not {len(name)} ({shown}...); "
            "rename it in the model"
        )
    if isinstance(name, bytes) or not name.isprintable():
        raise ModelError(f"names must be printable text, not {shown}; rename it in the model")


def _check_extents(item: onnx.ValueInfoProto) -> None:
    extents = [dim.dim_value for dim in item.type.tensor_type.shape.dim]
    if math.prod(filter(None, extents)) > MAX_ELEMENTS:
        raise ModelError(
            f"the extents of a tensor must have a product of at most {MAX_ELEMENTS}, and those of "
            f"{item.name!r} are {tuple(extents)}, where 0 is unknown or empty; correct the model"
        )


def _check_data(graph: onnx.GraphProto) -> None:
    if graph.sparse_initializer:
        raise ModelError("weights must be dense, not sparse initializers; export them dense")
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ModelError(
                f"weights must lie inside the file, but {tensor.name!r} is external data; give the "
                "model's path, or save it with onnx.save(..., save_as_external_data=False)"
            )


def _check_node(node: onnx.NodeProto, loops: bool) -> None:
    if node.op_type == "Loop" and not loops:
        raise ModelError(
            "a model for an accelerator must be sure to end, which a Loop is not (node "
            f"{node.name!r}); unroll it, or compile for target 'cpu'"
        )
    check_attributes(node)
    for item in node.attribute:
        sparse = [item.sparse_tensor, *item.sparse_tensors]
        tensors = [item.t, *item.tensors]
        tensors += [part for both in sparse for part in (both.values, both.indices)]
        if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors):
            raise ModelError(
                f"tensors must lie inside the file, but node {node.name or node.op_type!r} holds "
                "external data; save the model with its data inside"
            )
