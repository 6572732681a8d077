"""What the rewrites of this folder look for in a graph, and the nodes that they add."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import onnx

from daedal.compiler.frontend.host_model import HOST_OPSET
from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.editor import GraphEditor
from daedal.compiler.graph.graph import Array, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.quantization.operators import kind_of

__all__ = [
    "add_onnx",
    "add_slice",
    "both_orders",
    "constant_of",
    "factor_of",
    "number_of",
    "producer",
    "same_axis",
    "slice_along",
]


def producer(graph: Dataflow, name: str, *kinds: str) -> Node | None:
    """The node that computes a tensor, if it is of one of these kinds (`operators.kind_of`)."""
    node = graph.producers.get(name)
    return node if node is not None and kind_of(node) in kinds else None


def constant_of(graph: Dataflow, name: str) -> Array | None:
    """The value of a constant; None for any other tensor."""
    return graph.constant(name) if graph.is_constant(name) else None


def number_of(graph: Dataflow, name: str) -> float | None:
    """The value of a constant that is one number; None for any other tensor."""
    value = constant_of(graph, name)
    return None if value is None or value.size != 1 else float(value.reshape(()))


def factor_of(graph: Dataflow, node: Node) -> tuple[str, float] | None:
    """The operand that a `mul` multiplies by a number, and the number; None without one."""
    for x, factor in both_orders(node):
        number = number_of(graph, factor)
        if number is not None:
            return x, number
    return None


def both_orders(node: Node) -> Iterator[tuple[str, str]]:
    """The two operands of a node in either order."""
    first, second = node.inputs
    yield first, second
    yield second, first


def same_axis(before: Sequence[int], after: Sequence[int], axis: int) -> int | None:
    """The axis of a reshaped tensor that is `axis` of the tensor before."""
    outer, extent = math.prod(before[:axis]), before[axis]
    for place, found in enumerate(after):
        if found == extent and math.prod(after[:place]) == outer:
            return place
    return None


def slice_along(graph: Dataflow, node: Node | None) -> tuple[int, int, int] | None:
    """Axis, begin and end of a slice along one axis without steps, else None."""
    if node is None or node.op != "slice":
        return None
    begins, ends, steps = (ints(node.attrs, name) for name in ("begins", "ends", "steps"))
    shape = graph.types[node.inputs[0]].shape
    axes = [axis for axis, extent in enumerate(shape) if (begins[axis], ends[axis]) != (0, extent)]
    if len(axes) != 1 or set(steps) != {1}:
        return None
    return axes[0], begins[axes[0]], ends[axes[0]]


def add_slice(graph: GraphEditor, x: str, axis: int, begin: int, end: int, base: str) -> str:
    """Add a slice of one axis under a new name made from `base`; return its output."""
    shape = graph.types[x].shape
    begins, ends = [0] * len(shape), list(shape)
    begins[axis], ends[axis] = begin, end
    steps = (1,) * len(shape)
    attrs = {"begins": tuple(begins), "ends": tuple(ends), "steps": steps}
    return graph.add_fresh("slice", [x], attrs, base=base)


def add_onnx(
    graph: GraphEditor,
    op_type: str,
    inputs: Sequence[str],
    shape: Sequence[int],
    *,
    output: str,
    name: str = "",
    **attributes: Any,
) -> str:
    """Add a float32 node of an operator that the graph does not have, and that all opsets write
    alike; return its output."""
    proto = onnx.helper.make_node(
        op_type, list(inputs), [output], name=name or output, **attributes
    )
    attrs = {
        "dtype": "float32",
        "op_type": op_type,
        "opset": HOST_OPSET,
        "output": 0,
        "proto": proto.SerializeToString(deterministic=True),
        "shape": tuple(shape),
    }
    return graph.add("onnx", list(dict.fromkeys(inputs)), attrs, output=output, name=name)
