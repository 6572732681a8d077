"""Operands that the host gives: inputs of the model that elementwise operators read directly.

A decoder reads a mask and the tables of its rotary embedding like this. They have no heads, and
broadcast over those of queries and keys.
"""

import numpy as np

from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.rewrite import Rewriter, walk
from daedal.compiler.quantization.operators import kind_of
from daedal.compiler.quantization.rewrites.patterns import add_onnx

__all__ = ["given_tensors", "spread_given"]

_MOVES = ("Expand", "concat", "pad", "reshape", "slice", "transpose")
"""Operators whose results the host gives if it gives their operands."""


def given_tensors(graph: Graph) -> frozenset[str]:
    """The inputs of the model, and what moves make of inputs and constants alone."""
    found = {*graph.inputs}
    for node in graph.nodes:
        operands = [name for name in node.inputs if not graph.is_constant(name)]
        if kind_of(node) in _MOVES and operands and found.issuperset(operands):
            found.add(node.output)
    return frozenset(found)


def spread_given(graph: Graph) -> Graph:
    """Let the host repeat operands that it gives over batch and channels.

    The accelerator broadcasts over rows and columns only; a mask of attention, over heads, too.

    Before::

        y = mul(q, cos)                     # q: float32[1,8,1,8], cos: float32[1,1,1,8]

    After::

        cos.spread = onnx(cos, cos.shape) op_type=Expand ...        # float32[1,8,1,8]
        y = mul(q, cos.spread)
    """
    given = given_tensors(graph)
    spread: dict[tuple[str, tuple[int, ...]], str] = {}

    def rule(graph: Rewriter, node: Node) -> None:
        shape = graph.types[node.output].shape
        operands = list(node.inputs)
        for place, name in enumerate(operands):
            if name in given and not _is_broadcast(graph, name, node):
                if (name, shape) not in spread:
                    spread[name, shape] = _expand(graph, name, shape)
                operands[place] = spread[name, shape]
        graph.replace(node, operands)

    return walk(graph, dict.fromkeys(("add", "mul", "sub"), rule))


def _is_broadcast(graph: Rewriter, name: str, node: Node) -> bool:
    """Whether the accelerator broadcasts an operand of `node`, if that is necessary."""
    own, shape = graph.types[name].shape, graph.types[node.output].shape
    if len(own) == len(shape) and own[:2] == shape[:2]:
        return True
    is_mask = any(user.op == "softmax" for user in graph.users[node.output])
    return not shape or (is_mask and all(extent == 1 for extent in own[:-2]))


def _expand(graph: Rewriter, name: str, shape: tuple[int, ...]) -> str:
    extents = graph.fresh_constant(f"{name}.shape", np.array(shape, dtype=np.int64))
    output = graph.fresh_name(f"{name}.spread")
    return add_onnx(graph, "Expand", [name, extents], shape, output=output)
