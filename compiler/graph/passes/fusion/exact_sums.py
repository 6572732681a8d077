"""Finds sums of wide tensors that need no REQUANTIZE."""

import numpy as np

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.integer import has_wide_result, is_wide
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.graph.passes.value_ranges import bounds_of, changes_nothing

__all__ = ["exact_sums"]

_MOVES = ("q_slice", "q_requantize")
"""Operators that may leave all values as they are."""

Bounds = tuple[int, int]


def exact_sums(graph: Graph) -> Graph:
    """Replace sums of two wide tensors that cannot leave their bounds, with factors of 1. Exact:
    what is left out would change no value.

    Before::

        a = q_conv2d(...) low=-1024 high=1023 ...
        b = q_conv2d(...) low=-2048 high=2047 ...
        y = q_add(a, b, p) multiplier_a=1 multiplier_b=1 low=-32768 high=32767 zero_point=0

    After::

        y = q_sum(a, b) low=-3072 high=3070
    """
    found: dict[str, Bounds] = {}
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    for node in graph.nodes:
        bounds = _sum_bounds(graph, node, found)
        if bounds is not None:
            found[node.output] = low, high = bounds
            attrs = {"low": low, "high": high}
            builder.add("q_sum", node.inputs[:2], attrs, output=node.output, name=node.name)
            continue
        builder.copy_node(node)
        if _keeps_values(graph, node):
            found[node.output] = _bounds(graph, node.inputs[0], found)
    return builder.finish(graph.outputs)


def _sum_bounds(graph: Graph, node: Node, found: dict[str, Bounds]) -> Bounds | None:
    """The bounds of a sum that is not rounded and stays within its bounds; None for others."""
    if node.op != "q_add" or not has_wide_result(node.attrs):
        return None
    *operands, params = node.inputs
    factors = {whole(node.attrs, f"multiplier_{name}") for name in "ab"}
    if factors != {1} or not all(is_wide(graph.types[name]) for name in operands):
        return None
    if whole(node.attrs, "zero_point") or not _is_one(graph, params):
        return None
    low, high = (
        sum(sides) for sides in zip(*(_bounds(graph, x, found) for x in operands), strict=True)
    )
    inside = whole(node.attrs, "low") <= low and high <= whole(node.attrs, "high")
    return (low, high) if inside else None


def _bounds(graph: Graph, name: str, found: dict[str, Bounds]) -> Bounds:
    return found[name] if name in found else bounds_of(graph, name)


def _is_one(graph: Graph, params: str) -> bool:
    """Whether parameters stand for a factor of 1, without a bias."""
    bias, multiplier, shift = np.moveaxis(graph.constant(params), -1, 0)
    return bool(np.all(bias == 0) and np.all(multiplier == np.left_shift(1, shift)))


def _keeps_values(graph: Graph, node: Node) -> bool:
    """Whether a node moves elements as they are."""
    if node.op not in _MOVES:
        return False
    x, params = node.inputs
    return changes_nothing(graph, x, graph.constant(params), node.attrs)
