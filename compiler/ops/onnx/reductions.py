"""Operators that reduce over axes: sums, extremes and their places, softmax."""

from collections.abc import Callable, Mapping

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import converted, wide
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.ops.onnx.over_axes import (
    Reduction,
    count_of,
    first_extreme,
    log_softmax,
    normalized_axes,
    normalized_axis,
    over_axes,
    power,
    softmax,
)
from daedal.compiler.ops.onnx.scans import scan
from daedal.compiler.ops.onnx.topk import topk
from daedal.compiler.tir.dtype import is_float
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]


def _axes(operation: Operation) -> tuple[int, ...]:
    """The axes to reduce: an attribute, or operand 1 since opset 18 (ReduceSum: 13)."""
    node, rank = operation.node, operation.operand(0).rank
    given = operation.integers(1)
    if given is None:
        given = node.integers("axes", None)
    keep_all = bool(node.integer("noop_with_empty_axes", 0))
    if not given:
        return () if keep_all else tuple(range(rank))
    return normalized_axes(operation, given, rank)


def _reduction(
    reduce: Reduction,
    before: Callable[[Expr], Expr] | None = None,
    after: Callable[[Expr, int], Expr] | None = None,
) -> Lowering:
    """``after(reduce over x of before(x), how many x)``, in the dtype of the operand.

    `before` and `after` take and give elements in the dtype of the sum.
    """

    def lower(operation: Operation) -> list[te.Tensor]:
        x, axes = operation.operand(0), _axes(operation)
        keepdims = bool(operation.node.integer("keepdims", 1))
        extreme = reduce in (te.max, te.min)
        dtype = x.dtype if extreme else wide(x.dtype)

        def value(i: tuple[Expr, ...]) -> Expr:
            read = x[i].astype(dtype)
            return read if before is None else before(read)

        total = over_axes(operation, x, axes, reduce, value, keepdims=keepdims).tensor
        if after is None:
            return [converted(operation, total, x.dtype)]
        count = count_of(x, axes)
        return [operation.compute(total.shape, lambda *i: after(total[i], count).astype(x.dtype))]

    return lower


def _mean(total: Expr, count: int) -> Expr:
    """Integers are divided towards zero."""
    if is_float(total.dtype):
        return total / count
    if total.dtype.startswith("uint"):
        return total // count
    return te.select(total < 0, -(-total // count), total // count)


def _root(total: Expr, count: int) -> Expr:
    return te.sqrt(total if is_float(total.dtype) else total.astype("float64"))


def _extreme(reduce: Reduction) -> Lowering:
    """ReduceMax-1 to -20 and ReduceMin: True is the larger bool."""
    plain = _reduction(reduce)

    def lower(operation: Operation) -> list[te.Tensor]:
        if operation.operand(0).dtype != "bool":
            return list(plain(operation))
        x, axes = operation.operand(0), _axes(operation)
        keepdims = bool(operation.node.integer("keepdims", 1))
        if reduce is te.max:
            return [over_axes(operation, x, axes, te.any, lambda i: x[i], keepdims=keepdims).tensor]
        found = over_axes(operation, x, axes, te.any, lambda i: ~x[i], keepdims=keepdims).tensor
        return [operation.compute(found.shape, lambda *i: ~found[i])]

    return lower


def _check_float(operation: Operation) -> None:
    """Source: ONNX, ReduceLogSum-28, which has no integers any more."""
    if not is_float(operation.operand(0).dtype):
        raise operation.node.refuse("the operand must be a float", "convert it with Cast")


def _log_sum(operation: Operation) -> list[te.Tensor]:
    """ReduceLogSum-1 to -28."""
    _check_float(operation)
    return list(_reduction(te.sum, None, lambda total, count: te.log(total))(operation))


def _log_sum_exp(operation: Operation) -> list[te.Tensor]:
    """``max + log(sum(exp(x - max)))``; a maximum that is infinite is not subtracted."""
    _check_float(operation)
    x, axes = operation.operand(0), _axes(operation)
    keepdims, dtype = bool(operation.node.integer("keepdims", 1)), wide(x.dtype)
    highest = over_axes(operation, x, axes, te.max, lambda i: x[i].astype(dtype), name="max")
    finite = operation.compute(
        highest.shape,
        lambda *i: te.select(te.eq(te.abs(highest[i]), float("inf")), 0.0, highest[i]),
        "shift",
    )
    shift = Operand(finite, highest.shape)
    total = over_axes(
        operation,
        x,
        axes,
        te.sum,
        lambda i: power(x[i].astype(dtype) - shift.broadcast(i), most=None),
        name="sum",
    )
    kept = [dim for dim in range(x.rank) if keepdims or dim not in axes]

    def formula(*i: Expr) -> Expr:
        index: list[Expr | int] = [0] * x.rank
        for dim, at in zip(kept, i, strict=False):
            index[dim] = at
        return (te.log(total[tuple(index)]) + shift[tuple(index)]).astype(x.dtype)

    return [operation.compute([total.shape[dim] for dim in kept], formula)]


def _place(extreme: Reduction) -> Lowering:
    """ArgMax-1 to -13 and ArgMin."""

    def lower(operation: Operation) -> list[te.Tensor]:
        node, x = operation.node, operation.operand(0)
        axis = normalized_axis(operation, node.integer("axis", 0), x.rank)
        found = first_extreme(
            operation,
            x,
            (axis,),
            extreme,
            keepdims=bool(node.integer("keepdims", 1)),
            last=bool(node.integer("select_last_index", 0)),
        )
        return [converted(operation, found.tensor, "int64")]

    return lower


def _normalized(operation: Operation) -> tuple[int, ...]:
    """The axes over which a softmax sums: one, and before opset 13 all from the axis on."""
    node, x = operation.node, operation.operand(0)
    old = operation.opset < 13
    axis = node.integer("axis", 1 if old else -1)
    if old and axis == x.rank:
        return ()
    axis = normalized_axis(operation, axis, x.rank)
    return tuple(range(axis, x.rank)) if old else (axis,)


def _softmax(operation: Operation) -> list[te.Tensor]:
    """Softmax-1, -11, -13."""
    x = operation.operand(0)
    return [softmax(operation, x, _normalized(operation), x.dtype).tensor]


def _log_softmax(operation: Operation) -> list[te.Tensor]:
    """LogSoftmax-1, -11, -13."""
    x = operation.operand(0)
    return [log_softmax(operation, x, _normalized(operation), x.dtype).tensor]


def _hardmax(operation: Operation) -> list[te.Tensor]:
    """Hardmax-1, -11, -13: 1 at the first maximum."""
    x, axes = operation.operand(0), _normalized(operation)
    place = first_extreme(operation, x, axes, te.max)

    def formula(*i: Expr) -> Expr:
        number: Expr | int = 0
        for axis in axes:
            number = number * x.shape[axis] + i[axis]
        return te.select(te.eq(place.broadcast(i), number), 1, 0).astype(x.dtype)

    return [operation.compute(x.shape, formula)]


LOWERINGS: Mapping[str, Lowering] = {
    "ArgMax": _place(te.max),
    "ArgMin": _place(te.min),
    "CumProd": scan(te.prod, 1),
    "CumSum": scan(te.sum, 0),
    "Hardmax": _hardmax,
    "LogSoftmax": _log_softmax,
    "ReduceL1": _reduction(te.sum, te.abs),
    "ReduceL2": _reduction(te.sum, lambda x: x * x, _root),
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _extreme(te.max),
    "ReduceMean": _reduction(te.sum, None, _mean),
    "ReduceMin": _extreme(te.min),
    "ReduceProd": _reduction(te.prod),
    "ReduceSum": _reduction(te.sum),
    "ReduceSumSquare": _reduction(te.sum, lambda x: x * x),
    "Softmax": _softmax,
    "TopK": topk,
}
"""By operator."""
