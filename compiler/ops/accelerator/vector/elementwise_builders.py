"""Tensor expressions of the elementwise integer operators, by name."""

from collections.abc import Callable, Mapping

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.looked_up import table_of
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.ops.accelerator.builders import bounds_of
from daedal.compiler.ops.elementwise import add, exact_sum, leaky_relu, max_requantized, mul
from daedal.compiler.ops.requantize import requantize
from daedal.isa.variant import Variant

__all__ = ["ELEMENTWISE", "TensorBuilder"]

TensorBuilder = Callable[[list[te.Tensor], Node, Variant], te.Tensor]
"""From the operands, and the node whose attributes count, to the result."""


def _add(operands: list[te.Tensor], node: Node, variant: Variant) -> te.Tensor:
    data, table = _with_table(operands, node)
    return add(
        *data,
        table=table,
        multiplier_a=whole(node.attrs, "multiplier_a"),
        multiplier_b=whole(node.attrs, "multiplier_b"),
        bounds=bounds_of(node),
        accumulator=accumulator_dtype(variant),
    )


def _mul(operands: list[te.Tensor], node: Node, variant: Variant) -> te.Tensor:
    data, table = _with_table(operands, node)
    return mul(
        *data,
        table=table,
        zero_point_a=whole(node.attrs, "zero_point_a"),
        zero_point_b=whole(node.attrs, "zero_point_b"),
        bounds=bounds_of(node),
        accumulator=accumulator_dtype(variant),
    )


def _leaky_relu(operands: list[te.Tensor], node: Node, variant: Variant) -> te.Tensor:
    return leaky_relu(
        *operands,
        zero_point=whole(node.attrs, "zero_point_x"),
        multiplier_positive=whole(node.attrs, "multiplier_positive"),
        multiplier_negative=whole(node.attrs, "multiplier_negative"),
        bounds=bounds_of(node),
        accumulator=accumulator_dtype(variant),
    )


def _max_requantized(operands: list[te.Tensor], node: Node, variant: Variant) -> te.Tensor:
    return max_requantized(
        *operands, bounds=bounds_of(node), accumulator=accumulator_dtype(variant)
    )


def _requantize(operands: list[te.Tensor], node: Node, variant: Variant) -> te.Tensor:
    data, table = _with_table(operands, node)
    return requantize(
        *data, bounds=bounds_of(node), accumulator=accumulator_dtype(variant), table=table
    )


def _exact_sum(operands: list[te.Tensor], node: Node, variant: Variant) -> te.Tensor:
    return exact_sum(*operands, accumulator=accumulator_dtype(variant))


def _with_table(operands: list[te.Tensor], node: Node) -> tuple[list[te.Tensor], te.Tensor | None]:
    """The operands without the table, and the table that the result of `node` is looked up in."""
    if table_of(node.op, node.inputs) is None:
        return operands, None
    *data, table, params = operands
    return [*data, params], table


ELEMENTWISE: Mapping[str, TensorBuilder] = {
    "q_add": _add,
    "q_add_lookup": _add,
    "q_leaky_relu": _leaky_relu,
    "q_max_requantized": _max_requantized,
    "q_mul": _mul,
    "q_mul_lookup": _mul,
    "q_requantize": _requantize,
    "q_requantize_lookup": _requantize,
    "q_sum": _exact_sum,
}
"""Also behind a convolution (`daedal.compiler.graph.ops.fused`): then its result is the first
operand."""
