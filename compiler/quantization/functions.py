"""Functions of one activation: groups of elementwise operators that a table can compute.

A group takes one quantized tensor and gives one: nothing inside is quantized, so that its result is
rounded once, and `lower_qdq` finds the function however it is written
(`daedal.compiler.graph.passes.lowering.function_rule`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import onnx

from daedal.compiler.ops.onnx.table import ELEMENTWISE
from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.onnx_operators import BOUNDS, Types

__all__ = ["Function", "find_functions"]

_WITHOUT_TABLE = frozenset({"Add", "Clip", "Div", "LeakyRelu", "Mul", "Relu", "Sub"})
"""Operators that every variant computes; groups of these alone are quantized node by node."""


@dataclass(frozen=True)
class Function:
    """The activation that a group depends on, its result, and its nodes by their first outputs."""

    source: str
    result: str
    nodes: frozenset[str]


def find_functions(network: Network, types: Types) -> Mapping[str, Function]:
    """The function that each node is part of, by first outputs of nodes.

    Each depends on one activation, through elementwise operators and numbers only, and has an
    operator that needs a table. A result that is only an output of the model is left as it is: no
    layer behind it needs integers.
    """
    sources = _sources(network, types)
    users, producers = network.users(), network.producers()
    found: dict[str, Function] = {}
    for name, source in sources.items():
        readers = users.get(name, [])
        inside = readers and all(sources.get(user.output[0]) == source for user in readers)
        if not readers or (inside and name not in network.output_names):
            continue
        nodes: dict[str, onnx.NodeProto] = {}
        stack = [name]
        while stack:
            item = stack.pop()
            if item not in nodes and sources.get(item) == source:
                nodes[item] = producers[item]
                stack.extend(producers[item].input)
        if any(node.op_type not in _WITHOUT_TABLE for node in nodes.values()):
            function = Function(source, name, frozenset(nodes))
            found.update({node: function for node in nodes if node not in found or node == name})
    return found


def _sources(network: Network, types: Types) -> dict[str, str]:
    """The only activation that a tensor is computed from element by element; others have none.

    A bound directly behind another operator is a part of that one.
    """
    found: dict[str, str] = {}
    for node in network.nodes:
        output = node.output[0]
        if node.op_type not in ELEMENTWISE or len(node.output) > 1 or output not in types:
            continue
        operands = [name for name in node.input if name and name not in network.constants]
        numbers = [network.constants[name] for name in node.input if name in network.constants]
        same = all(name in types and types[name][1] == types[output][1] for name in operands)
        roots = {found.get(name, name) for name in operands}
        if not same or len(roots) != 1 or any(value.size != 1 for value in numbers):
            continue
        (root,) = roots
        if types[root][0] == onnx.TensorProto.FLOAT and not (
            node.op_type in BOUNDS and node.input[0] == root
        ):
            found[output] = root
    return found
