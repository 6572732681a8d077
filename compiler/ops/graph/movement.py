"""Joins, pads and enlargements of floats on maps that have their channels last."""

from daedal.compiler import te
from daedal.compiler.graph.ops.registry import whole
from daedal.compiler.ops.graph.maps import LANES
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]

CHANNELS = 1


def _lower_concat(operation: GraphOperation) -> te.Tensor:
    parts = [operation.map(index).tensor for index in range(len(operation.node.inputs))]
    return operation.tensors.joined(parts, operation.layout.channel_axis)


def _suits_concat(operation: GraphOperation) -> bool:
    """Along the channels, of whole blocks but for the last."""
    count = len(operation.node.inputs)
    if whole(operation.node.attrs, "axis") != CHANNELS or operation.kind.rank != 4:
        return False
    if not all(operation.has_map(index) for index in range(count)):
        return False
    return all(operation.type(index).shape[CHANNELS] % LANES == 0 for index in range(count - 1))


def _lower_resize(operation: GraphOperation) -> te.Tensor:
    x = operation.map(0).tensor
    _, _, rows, columns = operation.ints("factors")

    def formula(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        return x[n, h // rows, w // columns, block, lane]

    return operation.compute(operation.shape, formula)


def _suits_resize(operation: GraphOperation) -> bool:
    return operation.has_map(0) and operation.ints("factors")[:2] == (1, 1)


LOWERINGS = {
    "concat": GraphLowering(_lower_concat, suits=_suits_concat),
    "resize": GraphLowering(_lower_resize, suits=_suits_resize),
}
"""By operator."""
