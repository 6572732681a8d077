"""A graph as plain JSON data, for another process or machine.

Operators, attributes and layouts keep their names; constants are the bytes of their physical
arrays in base64. Reading builds no objects but those named here, and verifies the graph.
"""

import base64
import binascii
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from daedal.common.errors import ModelError
from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.grouped_layout import GroupedWeightLayout
from daedal.compiler.graph.layout import (
    ActivationLayout,
    DepthwiseLayout,
    Layout,
    PixelLayout,
    PlainLayout,
    WeightLayout,
)
from daedal.compiler.graph.ops.sub_kernels import SubAxis
from daedal.compiler.graph.stream_layout import RowStreamLayout, RowStreamWeightLayout
from daedal.compiler.graph.sub_kernel_layout import SubKernelLayout
from daedal.compiler.graph.table_layout import TableLayout
from daedal.compiler.graph.types import TensorType
from daedal.compiler.graph.verifier import verify
from daedal.isa.row_stream import RowStream

__all__ = ["LAYOUTS", "graph_from_json", "graph_to_json"]

LAYOUTS: tuple[type, ...] = (
    PlainLayout,
    ActivationLayout,
    PixelLayout,
    WeightLayout,
    DepthwiseLayout,
    GroupedWeightLayout,
    RowStreamLayout,
    RowStreamWeightLayout,
    SubKernelLayout,
    TableLayout,
)
"""Every layout that a tensor can have."""

_CLASSES: dict[str, Any] = {item.__name__: item for item in (*LAYOUTS, RowStream, SubAxis)}
_CLASS = "class"
_BYTES = "base64"


def graph_to_json(graph: Graph) -> dict[str, Any]:
    """Plain data of `graph`, from which `graph_from_json` makes an equal one."""
    return {
        "name": graph.name,
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "nodes": [_node_to_json(node) for node in graph.nodes],
        "types": {name: _type_to_json(type_) for name, type_ in graph.types.items()},
        "constants": {
            name: _encoded(np.ascontiguousarray(array).tobytes())
            for name, array in graph.constants.items()
        },
    }


def graph_from_json(data: Any) -> Graph:
    """The graph that `graph_to_json` wrote.

    Raises
    ------
    ModelError
        `data` is no graph, or one that breaks an invariant.
    """
    try:
        types = {str(name): _type_from_json(item) for name, item in data["types"].items()}
        graph = Graph(
            str(data["name"]),
            tuple(map(str, data["inputs"])),
            tuple(map(str, data["outputs"])),
            tuple(_node_from_json(item) for item in data["nodes"]),
            {
                str(name): _array(_decoded(text), types[name])
                for name, text in data["constants"].items()
            },
            types,
        )
        verify(graph)
    except (
        AssertionError,
        AttributeError,
        LookupError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise ModelError(
            "a graph must be one that Daedal wrote; this one is damaged or something else "
            f"({type(error).__name__})"
        ) from error
    return graph


def _node_to_json(node: Node) -> dict[str, Any]:
    return {
        "op": node.op,
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "attrs": {name: _plain(value) for name, value in node.attrs.items()},
        "name": node.name,
        "note": node.note,
    }


def _node_from_json(data: Mapping[str, Any]) -> Node:
    return Node(
        str(data["op"]),
        tuple(map(str, data["inputs"])),
        tuple(map(str, data["outputs"])),
        {str(name): _value(value) for name, value in data["attrs"].items()},
        str(data["name"]),
        str(data["note"]),
    )


def _type_to_json(type_: TensorType) -> dict[str, Any]:
    return {
        "shape": list(type_.shape),
        "dtype": type_.dtype,
        "layout": _plain(type_.layout),
    }


def _type_from_json(data: Mapping[str, Any]) -> TensorType:
    layout = _value(data["layout"])
    if not isinstance(layout, Layout):
        raise TypeError("a layout must be one of the table")
    return TensorType(tuple(int(extent) for extent in data["shape"]), str(data["dtype"]), layout)


def _array(data: bytes, type_: TensorType) -> Array:
    return np.frombuffer(data, dtype=type_.dtype).reshape(type_.physical_shape).copy()


def _plain(value: Any) -> Any:
    """An attribute, or a layout, as plain data; tuples become lists."""
    if isinstance(value, bytes):
        return {_BYTES: _encoded(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        name = type(value).__name__
        assert _CLASSES[name] is type(value), f"{name} is in the table"
        fields = (item.name for item in dataclasses.fields(value))
        return {_CLASS: name, **{field: _plain(getattr(value, field)) for field in fields}}
    return value


def _value(data: Any) -> Any:
    if isinstance(data, list):
        return tuple(_value(item) for item in data)
    if not isinstance(data, dict):
        return data
    if _BYTES in data:
        return _decoded(data[_BYTES])
    fields = {str(name): _value(value) for name, value in data.items() if name != _CLASS}
    return _CLASSES[data[_CLASS]](**fields)


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("it is not base64") from error
