"""Merges chains of reshapes and removes moves that change nothing."""

from daedal.compiler.graph.dataflow import Dataflow, producer_of
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints
from daedal.compiler.graph.rewrite import Rewriter, rewrite

__all__ = ["simplify_reshapes"]

_MOVES = ("concat", "pad", "reshape", "resize", "slice", "transpose")
"""Operators that move elements."""


def simplify_reshapes(graph: Graph) -> Graph:
    """Let every reshape read the first tensor of its chain, and drop it if the shapes are equal.

    Concats of one operand, slices of all elements and other moves that move nothing are reshapes,
    too. Graph outputs keep their reshape. Exact.

    Before::

        b = reshape(a) shape=1,10           # a: int8[1,10,1,1]
        c = reshape(b) shape=1,10,1,1
        d = q_conv2d(c, w, p) ...

    After::

        d = q_conv2d(a, w, p) ...
    """
    return rewrite(graph, dict.fromkeys(_MOVES, _simplify))


def _simplify(graph: Rewriter, node: Node) -> None:
    if not _moves_nothing(graph, node):
        return
    name, source, kind = node.output, node.inputs[0], graph.types[node.output]
    before = producer_of(graph, source, ("reshape",))
    root = source if before is None else before.inputs[0]
    if graph.types[root] == kind and name not in graph.outputs:
        graph.remember_same(root, name)
        graph.substitute(name, root)
    elif node.op != "reshape" or root != source:
        graph.add("reshape", [root], {"shape": kind.shape}, output=name, name=node.name)


def _moves_nothing(graph: Dataflow, node: Node) -> bool:
    """Whether an operator that moves elements leaves them all in their places."""
    match node.op:
        case "reshape":
            return True
        case "concat":
            return len(node.inputs) == 1
        case "slice":
            return graph.types[node.output] == graph.types[node.inputs[0]]
        case "pad":
            return not any(ints(node.attrs, "pads"))
        case "resize":
            return all(factor == 1 for factor in ints(node.attrs, "factors"))
        case "transpose":
            order = ints(node.attrs, "order")
            return order == tuple(range(len(order)))
    return False
