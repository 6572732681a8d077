"""The possible values of tensors, as far as passes need them."""

import numpy as np

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Array, Attrs, Node
from daedal.compiler.graph.ops.integer import (
    IDENTITY,
    UNCHANGED,
    UNCHANGED_WIDE,
    has_wide_result,
    is_wide,
    requantize,
)
from daedal.compiler.graph.ops.looked_up import look_up, table_of
from daedal.compiler.graph.ops.registry import whole

__all__ = ["bounds_of", "changes_nothing", "copies_elements"]

_COPIES = ("q_pad", "q_permute", "q_requantize", "q_slice")
"""Operators that, with parameters that change nothing, copy elements of their operand."""


_BOUNDS = {False: (-128, 127), True: (-(1 << 15), (1 << 15) - 1)}
"""By whether the tensor is wide."""


def bounds_of(graph: Dataflow, name: str) -> tuple[int, int]:
    """The smallest and the largest element that the tensor `name` can have; its type's, if nothing
    more is known. Tables are not looked at."""
    producer = graph.producers.get(name)
    if producer is not None and "low" in producer.attrs:
        return whole(producer.attrs, "low"), whole(producer.attrs, "high")
    if graph.is_constant(name):
        values = graph.constant(name)
        return int(values.min(initial=0)), int(values.max(initial=0))
    return _BOUNDS[is_wide(graph.types[name])]


def _values(graph: Dataflow, name: str) -> Array:
    """What elements of the tensor `name` can be."""
    producer = graph.producers.get(name)
    low, high = bounds_of(graph, name)
    values = np.arange(low, high + 1, dtype=np.int64)
    table = None if producer is None else table_of(producer.op, producer.inputs)
    if table is None:
        return values
    return np.unique(look_up(values, graph.constant(table), graph.types[table])).astype(np.int64)


def changes_nothing(graph: Dataflow, name: str, params: Array, attrs: Attrs) -> bool:
    """Whether a REQUANTIZE leaves the type and every possible value of the tensor `name` unchanged.

    Parameters
    ----------
    params : (..., 3), all lanes alike.
    attrs : with zero_point, low and high.
    """
    if is_wide(graph.types[name]) != has_wide_result(attrs):
        return False
    values = _values(graph, name)
    return bool(np.array_equal(requantize(values, params.reshape(-1, 3)[0], attrs), values))


def copies_elements(graph: Dataflow, node: Node) -> bool:
    """Whether all results of `node` are elements of its operand, of any value, or padding."""
    if node.op not in _COPIES:
        return False
    x, params = node.inputs
    unchanged = UNCHANGED_WIDE if is_wide(graph.types[x]) else UNCHANGED
    same = all(node.attrs[name] == value for name, value in unchanged.items())
    return same and bool(np.all(graph.constant(params).reshape(-1, 3) == IDENTITY))
