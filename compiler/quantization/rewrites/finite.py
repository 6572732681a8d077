"""Replaces infinite constants, as masks have, by finite ones that saturate as they do."""

import numpy as np

from daedal.compiler.graph.graph import Array, Graph, Node
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.operators import kind_of
from daedal.compiler.quantization.rewrites.patterns import constant_of

__all__ = ["LARGEST", "bound_constants"]

LARGEST = 2.0**100
"""Leaves float32 room for sums of them, and products with what a network computes."""

_READERS = frozenset({"add", "sub", "Clip", "Expand", "Max", "Min", "Where"})
"""Operators of masks and bounds. Infinite weights are an error."""


def bound_constants(graph: Graph) -> Graph:
    """Bound constants that only operators of masks and bounds read.

    Before::

        const low: float32[] = -inf
        y = onnx(mask, scores, low) op_type=Where

    After::

        const low.bounded: float32[] = -2**100
        y = onnx(mask, scores, low.bounded) op_type=Where
    """
    return walk(graph, dict.fromkeys(("add", "sub", "onnx"), _bound))


def _bound(graph: Rewriter, node: Node) -> None:
    for name in node.inputs:
        value = constant_of(graph, name)
        if value is None or not np.isinf(value).any():
            continue
        if _READERS.issuperset(map(kind_of, graph.users[name])) and name not in graph.outputs:
            graph.substitute(name, graph.fresh_constant(f"{name}.bounded", _bounded(value)))


def _bounded(value: Array) -> Array:
    return np.where(np.isinf(value), np.copysign(LARGEST, value), value).astype(value.dtype)
