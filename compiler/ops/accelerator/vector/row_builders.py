"""Builders of softmax, the norms over channels, and changes of scale per channel."""

from daedal.compiler import te
from daedal.compiler.codegen.intrinsics import accumulator_dtype
from daedal.compiler.graph.graph import Node
from daedal.compiler.graph.ops.integer_rows import NORM_ATTRS, Q_LAYER_NORM
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.ops.accelerator.builders import bounds_of
from daedal.compiler.ops.accelerator.tiles.template import Template
from daedal.compiler.ops.accelerator.vector.rows import rows_template
from daedal.compiler.ops.accelerator.vector.vector import move_template
from daedal.compiler.ops.norms import NormShifts, norm
from daedal.compiler.ops.requantize import requantize
from daedal.compiler.ops.softmax import softmax
from daedal.isa.variant import Variant

__all__ = ["build_channel_requantize", "build_norm", "build_softmax"]


def build_channel_requantize(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    """The schedules of a change of scale per channel."""
    y = requantize(*operands, bounds=bounds_of(node), accumulator=accumulator_dtype(variant))
    return move_template(te.create_prim_func(operands, [y], node.output), variant)


def build_softmax(operands: list[te.Tensor], node: Node, variant: Variant) -> Template:
    """The schedules of a softmax."""
    y = softmax(
        *operands,
        sum_bits=whole(node.attrs, "sum_bits"),
        bounds=bounds_of(node),
        accumulator=accumulator_dtype(variant),
    )
    return rows_template(te.create_prim_func(operands, [y], node.output), variant)


def build_norm(
    operands: list[te.Tensor], node: Node, variant: Variant, padded: bool = True
) -> Template:
    """The schedules of a norm; `padded` says whether the map has padding channels."""
    numbers = {name.removesuffix("_x"): whole(node.attrs, name) for name in NORM_ATTRS}
    y = norm(
        *operands,
        shifts=NormShifts(centred=node.op == Q_LAYER_NORM.name, **numbers),
        padded=padded,
        bounds=bounds_of(node),
        accumulator=accumulator_dtype(variant),
    )
    return rows_template(te.create_prim_func(operands, [y], node.output), variant)
