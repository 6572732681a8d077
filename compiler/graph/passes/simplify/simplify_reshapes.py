"""Merges chains of reshapes and removes moves that change nothing."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import ints

__all__ = ["simplify_reshapes"]


def simplify_reshapes(graph: Graph) -> Graph:
    """Let every reshape read the first tensor of its chain, and drop it if the shapes are equal.

    Concats of one operand, slices of all elements and other moves that move nothing are reshapes,
    too. Graph outputs keep their reshape. Reshapes that are no longer read are left to
    `eliminate_dead_code`. Exact.

    Before::

        b = reshape(a) shape=1,10           # a: int8[1,10,1,1]
        c = reshape(b) shape=1,10,1,1
        d = q_conv2d(c, w, p) ...

    After::

        d = q_conv2d(a, w, p) ...
    """
    builder = GraphBuilder(graph.name, graph)
    builder.copy_inputs()
    same: dict[str, str] = {}
    roots: dict[str, str] = {}
    for node in graph.nodes:
        operands = [same.get(name, name) for name in node.inputs]
        if node.op == "reshape" or _moves_nothing(graph, node):
            root = roots.get(operands[0], operands[0])
            roots[node.output] = root
            unchanged = builder.types.get(root, graph.types[root]) == graph.types[node.output]
            if unchanged and node.output not in graph.outputs:
                if builder.is_defined(root):
                    builder.remember_same(root, node.output)
                same[node.output] = root
                continue
            shape = graph.types[node.output].shape
            builder.add("reshape", [root], {"shape": shape}, output=node.output, name=node.name)
        else:
            builder.copy_node(node, operands)
    return builder.finish(graph.outputs)


def _moves_nothing(graph: Graph, node: Node) -> bool:
    """Whether an operator that moves elements leaves them all in their places."""
    match node.op:
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
