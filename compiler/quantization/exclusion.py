"""Finds the nodes that a user wants to keep in float.

Input: names of nodes of the ONNX model, and the graph that was made of it. Output: the results of
the graph's nodes. A result stands for its node, which may have no name.
"""

from collections.abc import Collection
from difflib import get_close_matches

import onnx

from daedal.common.errors import ModelError
from daedal.compiler.graph.graph import Graph

__all__ = ["excluded_names", "excluded_results"]


def excluded_names(model: onnx.ModelProto, nodes: Collection[str]) -> list[str]:
    """The names of the nodes that have the names or the results `nodes`; those without get one.

    Raises
    ------
    ModelError
        The model has none of that name.
    """
    results = {name: node for node in model.graph.node for name in node.output if name}
    known = results | {node.name: node for node in model.graph.node if node.name}
    found = []
    for name in nodes:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "give the name of a node or a result"
            raise ModelError(
                f"a node to exclude must be one of the model's, and {name!r} is none; {hint}"
            )
        known[name].name = known[name].name or name
        found.append(known[name].name)
    return found


def excluded_results(graph: Graph, names: Collection[str]) -> frozenset[str]:
    """Results of the nodes `names` in the graph.

    Raises
    ------
    ModelError
        One of them is no longer there: a rewrite merged it with another one.
    """
    found = {name: [node for node in graph.nodes if node.name == name] for name in names}
    for name, nodes in found.items():
        if not nodes:
            raise ModelError(
                f"node {name!r} is merged with another one before it is quantized, and cannot be "
                "excluded alone; exclude the product in front of it"
            )
    return frozenset(node.output for nodes in found.values() for node in nodes)
