"""Operators whose results depend on where an element lies.

Source: ONNX, operators of the same names.
"""

import math
from collections.abc import Mapping

from daedal.compiler import te
from daedal.compiler.ops.onnx.casts import attribute_dtype
from daedal.compiler.ops.onnx.movement import moved, normalized_axis
from daedal.compiler.ops.onnx.operation import Lowering, Operation
from daedal.compiler.tir.expr import Expr, FloatImm, IntImm, as_expr

__all__ = ["LOWERINGS"]


def _number(value: int, dtype: str) -> Expr:
    """0 or 1 of any dtype."""
    return FloatImm(float(value), dtype) if dtype.startswith("float") else IntImm(value, dtype)


def _diagonal(operation: Operation) -> Expr:
    """The operand `k` of Trilu, int64."""
    k = operation.optional(1)
    if k is None:
        return as_expr(0, "int64")
    operation.require(math.prod(k.shape) == 1, f"k must be one number, not {list(k.shape)}")
    return k[(0,) * k.rank] if k.constant is None else as_expr(int(k.constant.item()), "int64")


def _lower_trilu(operation: Operation) -> list[te.Tensor]:
    """Elements above (below) diagonal number k and on it; zeros elsewhere."""
    x, diagonal = operation.operand(0), _diagonal(operation)
    operation.require(x.rank >= 2, f"a matrix must have two axes, not {x.rank}")
    upper = operation.node.integer("upper", 1)

    def element(*i: Expr) -> Expr:
        distance = (i[x.rank - 1] - i[x.rank - 2]).astype("int64")
        kept = distance >= diagonal if upper else distance <= diagonal
        return te.select(kept, x[i], _number(0, x.dtype))

    return [operation.compute(x.shape, element)]


def _lower_eye_like(operation: Operation) -> list[te.Tensor]:
    k = operation.node.integer("k", 0)
    dtype = attribute_dtype(operation, "dtype", operation.operand(0).dtype)
    one, zero = _number(1, dtype), _number(0, dtype)
    return [
        operation.compute(
            operation.result.shape, lambda i, j: te.select(te.eq(j - i, k), one, zero)
        )
    ]


def _lower_one_hot(operation: Operation) -> list[te.Tensor]:
    """``values`` are (off, on); negative indices count from the end, others match nothing."""
    indices, values = operation.operand(0), operation.operand(2)
    axis = normalized_axis(operation, operation.node.integer("axis", -1), indices.rank + 1)
    operation.require(
        len(operation.result.shape) == indices.rank + 1
        and operation.result.shape[:axis] == indices.shape[:axis]
        and operation.result.shape[axis + 1 :] == indices.shape[axis:],
        f"{list(operation.result.shape)} must be {list(indices.shape)} and an axis",
    )
    depth = operation.result.shape[axis]

    def element(*i: Expr) -> Expr:
        index = indices[(*i[:axis], *i[axis + 1 :])].astype("int64")
        place = te.select(index < 0, index + depth, index)
        return te.select(te.eq(place, i[axis].astype("int64")), values[1], values[0])

    return [operation.compute(operation.result.shape, element)]


def _lower_dropout(operation: Operation) -> list[te.Tensor]:
    """In inference: the operand itself, and a mask that keeps everything."""
    x, training = operation.operand(0), operation.constant(2)
    operation.node.real("ratio", 0.5)
    operation.node.integer("seed", 0)
    if training is not None and training.any():
        raise operation.node.refuse("training_mode must be false", "export the model in eval mode")
    kept = moved(operation, x, x.shape, lambda i: i)
    mask = operation.results[1] if len(operation.results) > 1 else None
    if mask is None:
        return [kept]
    one = _number(1, mask.dtype)
    return [kept, operation.compute(x.shape, lambda *_: one, "mask")]


LOWERINGS: Mapping[str, Lowering] = {
    "Dropout": _lower_dropout,
    "EyeLike": _lower_eye_like,
    "OneHot": _lower_one_hot,
    "Trilu": _lower_trilu,
}
"""By operator."""
