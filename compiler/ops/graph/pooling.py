"""Pools of floats on maps that have their channels last."""

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.ops.pooling import window_counts
from daedal.compiler.ops.graph.maps import map_shape
from daedal.compiler.ops.graph.operation import GraphLowering, GraphOperation
from daedal.compiler.ops.graph.windows import padded_map, places
from daedal.compiler.ops.onnx.windows import taps_of
from daedal.compiler.tir.expr import Expr, FloatImm

__all__ = ["LOWERINGS"]


def _lower_max_pool(operation: GraphOperation) -> te.Tensor:
    source = padded_map(operation, value=float("-inf"))
    taps, axes = taps_of(operation.ints("kernel"))

    def largest(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps)
        return te.max(source[n, row, column, block, lane], axes)

    return operation.compute(map_shape(operation.kind.shape), largest)


def _lower_avg_pool(operation: GraphOperation) -> te.Tensor:
    source = padded_map(operation, value=0.0)
    taps, axes = taps_of(operation.ints("kernel"))
    shape = map_shape(operation.kind.shape)

    def sums(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        row, column = places(operation, (h, w), taps)
        return te.sum(source[n, row, column, block, lane], axes)

    total = operation.compute(shape, sums)
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
