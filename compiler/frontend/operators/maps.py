"""Sequences (N, C, L) as maps of height 1, for the operators with a window."""

from collections.abc import Sequence

from daedal.compiler.frontend.context import ImportContext
from daedal.compiler.frontend.node import OnnxNode
from daedal.compiler.graph.graph import AttrValue
from daedal.compiler.graph.layout import MAP_RANK

__all__ = ["SEQUENCE_RANK", "as_map", "emit_on_map"]

SEQUENCE_RANK = MAP_RANK - 1
"""Axes of a sequence: images, channels, length."""


def as_map(context: ImportContext, name: str) -> str:
    """The tensor `name` with four dimensions: a sequence (N, C, L) becomes (N, C, 1, L), and so do
    the weights (O, I, K) of one. Any other tensor stays."""
    shape = context.builder.types[name].shape
    if len(shape) != SEQUENCE_RANK:
        return name
    output = context.builder.fresh_name(f"{name}.map")
    attrs: dict[str, AttrValue] = {"shape": (*shape[:2], 1, *shape[2:])}
    return context.builder.add("reshape", [name], attrs, output=output)


def emit_on_map(
    context: ImportContext, node: OnnxNode, op: str, operands: Sequence[str], **attrs: AttrValue
) -> None:
    """Add an operator whose operands are maps (`as_map`); of a sequence, the result is one, too."""
    if context.operand_type(node, 0).rank != SEQUENCE_RANK:
        context.emit(node, op, operands, **attrs)
        return
    name = context.builder.fresh_name(f"{node.outputs[0]}.map")
    result = context.builder.add(op, operands, attrs, output=name, name=node.name)
    shape = context.builder.types[result].shape
    context.emit(node, "reshape", [result], shape=(*shape[:2], *shape[3:]))
