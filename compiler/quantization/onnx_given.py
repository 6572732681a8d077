"""Operands that the host gives: inputs of the model that elementwise operators read directly.

A decoder reads a mask and the tables of its rotary embedding like this. They have no heads, and
broadcast over those of queries and keys.
"""

import numpy as np
from onnx import helper

from daedal.compiler.quantization.network import Network

__all__ = ["given_tensors", "spread_given"]

_ELEMENTWISE = ("Add", "Mul", "Sub")

_MOVES = ("Concat", "Expand", "Pad", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose results the host gives if it gives their operands."""


def given_tensors(network: Network) -> frozenset[str]:
    """The inputs of the model, and what moves make of inputs and constants alone."""
    found = {item.name for item in network.inputs}
    for node in network.nodes:
        operands = [name for name in node.input if name and name not in network.constants]
        if node.op_type in _MOVES and operands and found.issuperset(operands):
            found.add(node.output[0])
    return frozenset(found)


def spread_given(network: Network) -> None:
    """Let the host repeat operands that it gives over batch and channels.

    The accelerator broadcasts over rows and columns only; a mask of attention, over heads, too.

    Before -> after::

        Mul(q, cos)             # [1,8,1,8] by [1,1,1,8]
        Mul(q, Expand(cos))     # [1,8,1,8] by [1,8,1,8]
    """
    given, types = given_tensors(network), network.types()
    spread: dict[tuple[str, tuple[int, ...]], str] = {}
    masked = {node.input[0] for node in network.nodes if node.op_type == "Softmax"}
    nodes = []
    for node in network.nodes:
        shape = types.get(node.output[0], (0, ()))[1]
        for index, name in enumerate(node.input):
            if node.op_type not in _ELEMENTWISE or name not in given or name not in types:
                continue
            own = types[name][1]
            if not shape or (len(own) == len(shape) and own[:2] == shape[:2]):
                continue
            if node.output[0] in masked and not any(extent > 1 for extent in own[:-2]):
                continue
            if (name, shape) not in spread:
                extents = network.add_constant(f"{name}_shape", np.array(shape, dtype=np.int64))
                spread[name, shape] = output = network.fresh(f"{name}_spread")
                nodes.append(helper.make_node("Expand", [name, extents], [output], name=output))
            node.input[index] = spread[name, shape]
        nodes.append(node)
    network.nodes = nodes
