"""Pools of floats on maps that have their channels last."""

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.ops.pooling import window_counts
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.ops.graph.windows import over_windows
from daedal.compiler.tir.expr import FloatImm

__all__ = ["LOWERINGS"]


def _lower_max_pool(operation: GraphOperation) -> te.Tensor:
    return over_windows(operation, float("-inf"), te.max, "float32")


def _lower_avg_pool(operation: GraphOperation) -> te.Tensor:
    shape = operation.shape
    total = over_windows(operation, 0.0, te.sum, "float32")
    rows, columns = window_counts(operation.type(0), operation.node.attrs)
    factors = (1 / np.outer(rows, columns)).astype(np.float32)
    if np.all(factors == factors[0, 0]):
        return operation.compute(
            shape, lambda *i: total[i] * FloatImm(float(factors[0, 0]), "float32")
        )
    table = operation.tensors.table(factors)
    return operation.compute(shape, lambda *i: total[i] * table[i[1], i[2]])


def _suits(operation: GraphOperation) -> bool:
    return operation.has_map(0)


LOWERINGS = {
    "avg_pool": GraphLowering(_lower_avg_pool, suits=_suits),
    "max_pool": GraphLowering(_lower_max_pool, suits=_suits),
}
"""By operator."""
