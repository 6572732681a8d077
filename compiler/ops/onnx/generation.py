"""Operators whose results depend on shapes, or on a few numbers, alone.

A compiler folds most of them; these are for those that it leaves.

Source: ONNX, operators of the same names.
"""

import math
from collections.abc import Mapping

import numpy as np

from daedal.compiler import te
from daedal.compiler.ops.onnx.operation import Lowering, Operation
from daedal.compiler.tir.expr import Expr, as_expr

__all__ = ["LOWERINGS"]


def _lower_constant_of_shape(operation: Operation) -> list[te.Tensor]:
    value = operation.node.tensor("value")
    found = np.zeros(1, np.float32) if value is None else value
    if found.size != 1:
        raise operation.node.damaged(f"value must be one number, not {found.size}")
    constant = as_expr(found.item(), found.dtype.name)
    return [operation.compute(operation.result.shape, lambda *_: constant)]


def _lower_range(operation: Operation) -> list[te.Tensor]:
    """``start + number * delta``; the limit is in the shape of the result."""
    start, delta = operation.operand(0), operation.operand(2)

    def element(number: Expr) -> Expr:
        return start[(0,) * start.rank] + number.astype(start.dtype) * delta[(0,) * delta.rank]

    return [operation.compute(operation.result.shape, element)]


def _lower_shape(operation: Operation) -> list[te.Tensor]:
    shape = operation.operand(0).shape
    start, end = operation.node.integer("start", 0), operation.node.integer("end", len(shape))
    table = operation.table(np.array(shape[start:end], np.int64))
    return [operation.compute(table.shape, lambda i: table[i])]


def _lower_size(operation: Operation) -> list[te.Tensor]:
    size = as_expr(math.prod(operation.operand(0).shape), "int64")
    return [operation.compute((), lambda _: size)]


LOWERINGS: Mapping[str, Lowering] = {
    "ConstantOfShape": _lower_constant_of_shape,
    "Range": _lower_range,
    "Shape": _lower_shape,
    "Size": _lower_size,
}
"""By operator."""
