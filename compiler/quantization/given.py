"""Operands that the host gives: inputs of the model that elementwise operators read directly.

A decoder reads a mask and the tables of its rotary embedding like this. They have no heads, and
broadcast over those of queries and keys.
"""

from daedal.compiler.graph.graph import Graph
from daedal.compiler.quantization.operators import kind_of

__all__ = ["given_tensors"]

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
