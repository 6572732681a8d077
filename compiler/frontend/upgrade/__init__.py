"""`upgrade`: a model in a newer operator set, with the same meaning.

Input: a checked ModelProto. Output: the model itself if it is as new, else a copy whose operators
are written as the newer operator set writes them. Where a newer version of an operator only allows
more, a node is valid as it is; every other change has a rule here (`operands`, `meanings`).
"""

from collections.abc import Mapping, Sequence

import onnx

from daedal.common.errors import ModelError
from daedal.compiler.frontend.reader import opset_of
from daedal.compiler.frontend.upgrade import meanings, operands
from daedal.compiler.frontend.upgrade.rule import ModelUpgrade, Rule

__all__ = ["RULES", "upgrade", "upgrade_node"]

OLDEST_TARGET = 13
"""The oldest operator set that the results of rules are valid in."""

RULES: Mapping[str, Mapping[int, Rule]] = {
    op_type: dict(
        sorted({**operands.RULES.get(op_type, {}), **meanings.RULES.get(op_type, {})}.items())
    )
    for op_type in sorted({*operands.RULES, *meanings.RULES})
}
"""By operator and by the operator set that changed it: what a node of the one before becomes."""

_STANDARD = ("", "ai.onnx")


def upgrade(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    """The model in operator set `opset`, which is at least `OLDEST_TARGET`, or newer.

    Raises
    ------
    ModelError
        For a node that has no equivalent, and a model of an unknown operator set.
    """
    assert opset >= OLDEST_TARGET
    own = opset_of(model)
    if own >= opset:
        return model
    upgraded = onnx.ModelProto()
    upgraded.CopyFrom(model)
    for item in upgraded.opset_import:
        if item.domain in _STANDARD:
            item.version = opset
    oldest = onnx.helper.find_min_ir_version_for(list(upgraded.opset_import), ignore_unknown=True)
    upgraded.ir_version = max(model.ir_version, oldest)
    context = ModelUpgrade(model)
    _upgrade_graph(upgraded.graph, context, own, opset)
    upgraded.graph.initializer.extend(context.constants)
    return upgraded


def _upgrade_graph(graph: onnx.GraphProto, context: ModelUpgrade, own: int, opset: int) -> None:
    """Upgrade a graph and its subgraphs in place."""
    nodes = [made for node in graph.node for made in upgrade_node(node, context, own, opset)]
    del graph.node[:]
    graph.node.extend(nodes)


def upgrade_node(
    node: onnx.NodeProto, context: ModelUpgrade, own: int, opset: int
) -> Sequence[onnx.NodeProto]:
    """What a node of operator set `own` becomes in `opset`, and its subgraphs, which are changed.

    Raises ModelError for a node that has no equivalent.
    """
    nodes = _upgraded(node, context, own, opset)
    for made in nodes:
        for attribute in made.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    _upgrade_graph(inner, context, own, opset)
    return nodes


def _upgraded(
    node: onnx.NodeProto, context: ModelUpgrade, version: int, opset: int
) -> Sequence[onnx.NodeProto]:
    """What a node of operator set `version` becomes in `opset`, one change after the other."""
    rules = RULES.get(node.op_type, {}) if node.domain in _STANDARD else {}
    since = next((item for item in rules if version < item <= opset), None)
    if since is None:
        return [node]
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    try:
        results = rules[since](copy, context)
    except ModelError as error:
        raise ModelError(
            f"operators of opset {version} must have an equivalent in opset {opset}, and "
            f"{node.op_type} (node {node.name or node.output[0]!r}) has none: {error}; export the "
            f"model in opset {since} or newer"
        ) from error
    return [made for item in results for made in _upgraded(item, context, since, opset)]
