"""Tensor expressions of the elementwise integer operators, by name."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.integer import REQUANTIZE_ATTRS
from daedal.compiler.graph.ops.looked_up import LOOKED_UP, table_of
from daedal.compiler.graph.ops.registry import get_op, whole
from daedal.compiler.ops.accelerator.builders import bounds_of
from daedal.compiler.ops.elementwise import FORMULAS
from daedal.isa.variant import Variant

__all__ = ["ELEMENTWISE", "TensorBuilder"]

TensorBuilder = Callable[[list[te.Tensor], Node, Variant], te.Tensor]
"""From the operands, and the node whose attributes count, to the result."""


def _build(op: str, operands: list[te.Tensor], node: Node, variant: Variant) -> te.Tensor:
    """The formula of `op`: a node may be a fused operator, of which it is the second part."""
    definition = get_op(op)
    given: dict[str, Any] = {
        name: whole(node.attrs, name) for name in definition.attrs if name not in REQUANTIZE_ATTRS
    }
    if "params" in definition.operands:
        given["bounds"] = bounds_of(node)
    if table_of(node.op, node.inputs) is not None:
        *operands, given["table"], params = operands
        operands.append(params)
    return FORMULAS[op](*operands, **given, accumulator=accumulator_dtype(variant))


ELEMENTWISE: Mapping[str, TensorBuilder] = {
    op: partial(_build, base)
    for base in FORMULAS
    for op in (base, *([LOOKED_UP[base].name] if base in LOOKED_UP else []))
}
"""Also behind a convolution (`daedal.compiler.graph.ops.fused`): then its result is the first
operand."""
