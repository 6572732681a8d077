"""Pools: the largest or the sum of a window, each channel for itself."""

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.graph.ops.integer_pooling import divisor_indices
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.ops.graph.requantize import Read, Requantization, by_number
from daedal.compiler.ops.graph.windows import over_windows
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]


def _lower_max_pool(operation: GraphOperation) -> te.Tensor:
    shape, value = operation.shape, operation.whole("pad_value")
    found = over_windows(operation, value, te.max, operation.type(0).dtype)
    finish = Requantization(operation, operation.constant(1), 128)
    return operation.compute(shape, lambda *i: finish(found[i].astype("int32"), by_number))


def _lower_avg_pool(operation: GraphOperation) -> te.Tensor:
    shape = operation.shape
    total = over_windows(operation, operation.whole("pad_value"), te.sum, "int32")
    finish = Requantization(operation, operation.constant(1))
    rows = divisor_indices(operation.node.attrs)

    def average(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        return finish(total[n, h, w, block, lane], _by_place(operation, rows, h, w))

    return operation.compute(shape, average)


def _by_place(operation: GraphOperation, rows: Array, h: Expr, w: Expr) -> Read:
    """The values of the row of parameters that each window has."""

    def read(values: Array) -> Expr:
        if len(values) == 1:
            return by_number(values)
        return operation.tensors.table(np.ascontiguousarray(values[rows]))[h, w]

    return read


LOWERINGS = {
    "q_avg_pool": GraphLowering(_lower_avg_pool),
    "q_max_pool": GraphLowering(_lower_max_pool),
}
"""By operator."""
