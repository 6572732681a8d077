"""Brings a model into the form that the other passes expect: opset 13 or newer, constants folded,
no nodes without effect at inference."""

import math
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from daedal.common.onnx_evaluator import evaluator_of
from daedal.compiler.frontend.attributes import is_default
from daedal.compiler.frontend.upgrade import upgrade
from daedal.compiler.graph.fixpoint import to_fixpoint
from daedal.compiler.graph.types import MAX_ELEMENTS
from daedal.compiler.quantization.network import Array, Network
from daedal.compiler.quantization.rewrites.identities import drop_identities

__all__ = ["clean"]

_OPSET = 13
"""The first with quantization per channel. Source: ONNX QuantizeLinear-13, attribute axis."""

_LARGE = 1024
"""Elements of a constant that is more than a shape, axes or bounds."""

_GROWING = ("ConstantOfShape", "Expand", "OneHot", "Pad", "Range", "Resize", "Tile", "Upsample")
"""Operators whose results may be much larger than what they read."""

_RANDOM = ("Bernoulli", "Multinomial", "RandomNormalLike", "RandomUniformLike")


def clean(model: onnx.ModelProto, opset: int = _OPSET) -> Network:
    """The model as a network of opset `opset` or newer.

    Nodes over constants are evaluated, and so is Shape if the shape is static. Nodes that give
    what they read, as Dropout does at inference, are removed.

    Raises
    ------
    ModelError
        For a model of an older opset without an equivalent, and one with control flow.
    """
    network = Network(upgrade(model, opset))
    _fold_constants(network)
    drop_identities(network)
    return network


def _fold_constants(network: Network) -> None:
    """Evaluate nodes that depend only on constants and static shapes.

    A shape that is computed from another is known only when that one is a constant, so this is
    repeated as long as it finds any.
    """
    to_fixpoint("fold_constants", network, _fold_some, lambda network: len(network.nodes))


def _fold_some(network: Network) -> Network | None:
    """Evaluate the nodes that can be evaluated now; None if there are none."""
    types, kept = network.types(), []
    for node in network.nodes:
        values = _evaluate(network, node, types)
        if values is None:
            kept.append(node)
        else:
            network.constants.update(values)
    found = len(kept) < len(network.nodes)
    network.nodes = kept
    return network if found else None


def _evaluate(
    network: Network, node: onnx.NodeProto, types: Mapping[str, tuple[int, tuple[int, ...]]]
) -> dict[str, Array] | None:
    """Outputs of a node by name, or None if they depend on an input or cannot be evaluated."""
    if node.domain not in ("", "ai.onnx") or any(
        name in network.output_names for name in node.output
    ):
        return None
    plain = all(is_default(item, node.op_type, network.opset) for item in node.attribute)
    if node.op_type == "Shape" and node.input[0] in types and plain:
        return {node.output[0]: np.array(types[node.input[0]][1], dtype=np.int64)}
    operands = [name for name in node.input if name]
    if node.op_type in _RANDOM or (not operands and node.op_type != "Constant"):
        return None
    if not all(name in network.constants for name in operands):
        return None
    return _run(network, node, operands) if _is_bounded(network, types, node) else None


def _is_bounded(
    network: Network, types: Mapping[str, tuple[int, tuple[int, ...]]], node: onnx.NodeProto
) -> bool:
    """Whether the outputs are known not to be too large."""
    outputs = [name for name in node.output if name]
    if all(name in types for name in outputs):
        return all(math.prod(types[name][1]) <= MAX_ELEMENTS for name in outputs)
    size = sum(network.constants[name].size for name in node.input if name)
    return node.op_type not in _GROWING and size <= _LARGE


def _run(network: Network, node: onnx.NodeProto, operands: list[str]) -> dict[str, Array] | None:
    """The node's outputs by ONNX's reference evaluator; None if it cannot evaluate the node."""
    graph = helper.make_graph(
        [node],
        "constants",
        [onnx.ValueInfoProto(name=name) for name in dict.fromkeys(operands)],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    model = helper.make_model(graph, opset_imports=network.opset_imports)
    try:
        evaluator = evaluator_of(model)
        with np.errstate(all="ignore"):  # a logarithm of 0 that a Where replaces
            results = evaluator.run(None, {name: network.constants[name] for name in operands})
    except Exception:  # the evaluator raises many kinds; the node then stays unchanged
        return None
    return dict(zip(evaluator.output_names, map(np.asarray, results), strict=True))
