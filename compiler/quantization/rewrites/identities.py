"""Removes nodes that give what they read."""

import numpy as np
import onnx

from daedal.compiler.frontend.attributes import attribute
from daedal.compiler.quantization.network import Network
from daedal.compiler.quantization.onnx_operators import VIEWS, Types

__all__ = ["drop_identities"]

_SAME_TYPE = ("Cast", "CastLike", "Expand", *VIEWS)
"""Operators whose result is their operand where it has the same shape and type of elements."""


def drop_identities(network: Network) -> None:
    """Let users read the operands of nodes that change nothing; an output keeps its name."""
    types = network.types()
    read = {*network.users(), *network.output_names}
    producers = network.producers()
    names: dict[str, str] = {}
    kept = []
    for node in network.nodes:
        if not _does_nothing(network, types, node) or any(name in read for name in node.output[1:]):
            kept.append(node)
            continue
        source, target = node.input[0], node.output[0]
        while source in names:
            source = names[source]
        producer = producers.get(source)
        if target not in network.output_names:
            names[target] = source
        elif producer is not None and source not in network.output_names:
            names[source] = target
            producer.output[list(producer.output).index(source)] = target
            producers[target] = producer
        else:
            kept.append(node)
    network.nodes = kept
    network.rename_operands(names)


def _does_nothing(network: Network, types: Types, node: onnx.NodeProto) -> bool:
    """Source: ONNX Dropout-13, whose third operand turns training on; Pad-13 and -18, whose second
    are the pads; Slice-13, whose fifth are the steps."""
    if node.op_type == "Identity":
        return True
    if node.op_type == "Dropout":
        training = network.constants.get(node.input[2]) if _has(node, 2) else np.zeros(1)
        return training is not None and not training.any()
    if node.op_type == "Pad":
        pads = network.constants.get(node.input[1]) if _has(node, 1) else None
        return pads is not None and not pads.any()
    if not node.input or types.get(node.input[0]) is None:
        return False
    kind = types[node.input[0]]
    if node.op_type == "Transpose":
        order = attribute(node, "perm", range(len(kind[1]))[::-1])
        return list(order) == sorted(order)
    if node.op_type == "Slice":
        steps = network.constants.get(node.input[4]) if _has(node, 4) else np.ones(1)
        forward = steps is not None and bool((steps > 0).all())
        return forward and types.get(node.output[0]) == kind
    return node.op_type in _SAME_TYPE and types.get(node.output[0]) == kind


def _has(node: onnx.NodeProto, operand: int) -> bool:
    return len(node.input) > operand and bool(node.input[operand])
