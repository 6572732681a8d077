"""Functions of one activation: groups of elementwise operators that a table can compute.

A group takes one quantized tensor and gives one: nothing inside is quantized, so that its result is
rounded once, and `lower_qdq` finds the function however it is written
(`daedal.compiler.graph.passes.lowering.function_rule`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from daedal.compiler.graph.dataflow import Dataflow
from daedal.compiler.graph.graph import Graph, Node
from daedal.compiler.graph.ops.registry import elementwise_ops
from daedal.compiler.ops.onnx.table import ELEMENTWISE
from daedal.compiler.quantization.operators import BOUNDS, kind_of

__all__ = ["Function", "find_functions"]

_WITHOUT_TABLE = elementwise_ops() | {"Div"}
"""Operators that every variant computes; groups of these alone are quantized node by node."""

_ELEMENTWISE = ELEMENTWISE | _WITHOUT_TABLE


@dataclass(frozen=True)
class Function:
    """The activation that a group depends on, its result, and its nodes by their results."""

    source: str
    result: str
    nodes: frozenset[str]


def find_functions(graph: Graph) -> Mapping[str, Function]:
    """The function that each node is part of, by results of nodes.

    Each depends on one activation, through elementwise operators and numbers only, and has an
    operator that needs a table. A result that is only an output of the model is left as it is: no
    layer behind it needs integers.
    """
    sources = _sources(graph)
    found: dict[str, Function] = {}
    for name, source in sources.items():
        readers = graph.users[name]
        inside = readers and all(sources.get(user.output) == source for user in readers)
        if not readers or (inside and name not in graph.outputs):
            continue
        nodes: dict[str, Node] = {}
        stack = [name]
        while stack:
            item = stack.pop()
            if item not in nodes and sources.get(item) == source:
                nodes[item] = graph.producers[item]
                stack.extend(graph.producers[item].inputs)
        if any(kind_of(node) not in _WITHOUT_TABLE for node in nodes.values()):
            function = Function(source, name, frozenset(nodes))
            found.update({node: function for node in nodes if node not in found or node == name})
    return found


def _sources(graph: Graph) -> dict[str, str]:
    """The only activation that a tensor is computed from element by element; others have none.

    A bound directly behind another operator is a part of that one.
    """
    found: dict[str, str] = {}
    for node in graph.nodes:
        if kind_of(node) not in _ELEMENTWISE:
            continue
        operands = [name for name in node.inputs if not graph.is_constant(name)]
        roots = {found.get(name, name) for name in operands}
        if len(roots) != 1 or not _has_numbers_only(graph, node, operands):
            continue
        (root,) = roots
        is_bound = node.op in BOUNDS and node.inputs[0] == root
        if graph.types[root].dtype == "float32" and not is_bound:
            found[node.output] = root
    return found


def _has_numbers_only(graph: Dataflow, node: Node, operands: list[str]) -> bool:
    """Whether operands have the shape of the result, and constants are numbers."""
    shape = graph.types[node.output].shape
    constants = [graph.constant(name) for name in node.inputs if graph.is_constant(name)]
    same = all(graph.types[name].shape == shape for name in operands)
    return same and all(value.size == 1 for value in constants)
