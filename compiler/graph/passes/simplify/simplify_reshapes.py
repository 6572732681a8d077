"""Merges chains of reshapes and removes those that change nothing."""

from daedal.compiler.graph.builder import GraphBuilder
from daedal.compiler.graph.graph import Graph

__all__ = ["simplify_reshapes"]


def simplify_reshapes(graph: Graph) -> Graph:
    """Let every reshape read the first tensor of its chain, and drop it if the shapes are equal.

    Graph outputs keep their reshape. Reshapes that are no longer read are left to
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
        if node.op == "reshape":
            root = roots.get(operands[0], operands[0])
            roots[node.output] = root
            unchanged = builder.types.get(root, graph.types[root]) == graph.types[node.output]
            if unchanged and node.output not in graph.outputs:
                same[node.output] = root
                continue
            operands = [root]
        builder.copy_node(node, operands)
    return builder.finish(graph.outputs)
