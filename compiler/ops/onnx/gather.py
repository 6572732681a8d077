"""Operators that read or write at indices which a tensor holds.

Negative indices count from the end. An index outside is an error in ONNX; here the nearest element
is read, and what would be written there is dropped.

A scatter is written from the side of the result: for each element, a reduction over all updates
that may reach it. That is (elements of the result) x (updates per element) steps, and nodes with
more than `MAX_STEPS` are refused.

Source: ONNX, operators of the same names.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.onnx.movement import normalized_axis
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.tir.dtype import is_float, limits
from daedal.compiler.tir.expr import Expr, FloatImm, IntImm, as_expr

__all__ = ["LOWERINGS"]

MAX_STEPS = 1 << 24
"""Largest number of steps of a scatter."""

MAX_FACTORS = 32
"""Most updates per element that are multiplied: te has no product to reduce with."""


def _wrapped(index: Expr, extent: int) -> Expr:
    """An index of an axis as int32, where negative ones count from the end."""
    place = index.astype("int32")
    return te.select(place < 0, place + extent, place)


def _inside(index: Expr, extent: int) -> Expr:
    """`_wrapped`, but never outside."""
    return te.clip(_wrapped(index, extent), 0, extent - 1)


def _lower_gather(operation: Operation) -> list[te.Tensor]:
    x, indices = operation.operand(0), operation.operand(1)
    axis = normalized_axis(operation, operation.node.integer("axis", 0), x.rank)
    end = axis + indices.rank

    def element(*i: Expr) -> Expr:
        place = _inside(indices[i[axis:end]], x.shape[axis])
        return x[(*i[:axis], place, *i[end : x.rank + indices.rank - 1])]

    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return [operation.compute(shape, element)]


def _lower_gather_elements(operation: Operation) -> list[te.Tensor]:
    x, indices = operation.operand(0), operation.operand(1)
    axis = normalized_axis(operation, operation.node.integer("axis", 0), x.rank)

    def element(*i: Expr) -> Expr:
        return x[(*i[:axis], _inside(indices[i], x.shape[axis]), *i[axis + 1 :])]

    return [operation.compute(indices.shape, element)]


def _lower_gather_nd(operation: Operation) -> list[te.Tensor]:
    x, indices = operation.operand(0), operation.operand(1)
    batch, outer = operation.node.integer("batch_dims", 0), indices.rank - 1
    depth = indices.shape[-1] if indices.shape else x.rank + 1
    if not 0 <= batch <= outer or batch + depth > x.rank:
        raise operation.node.damaged(f"indices of {depth} do not fit a tensor of rank {x.rank}")
    shape = (*indices.shape[:-1], *x.shape[batch + depth :])

    def element(*i: Expr) -> Expr:
        places = [_inside(indices[(*i[:outer], dim)], x.shape[batch + dim]) for dim in range(depth)]
        return x[(*i[:batch], *places, *i[outer : len(shape)])]

    return [operation.compute(shape, element)]


@dataclass(frozen=True)
class _Updates:
    """The updates that may reach an element of a result.

    Attributes
    ----------
    count : how many there are for each element.
    prefix : the extents of the leading axes of the result that choose among updates.
    reached : whether update number k goes to the element at some indices of `prefix`.
    value : update number k for the element at some indices of the whole result.
    """

    count: int
    prefix: tuple[int, ...]
    reached: Callable[[Sequence[Expr], Expr], Expr]
    value: Callable[[Sequence[Expr], Expr], Expr]


def _scattered(operation: Operation, x: Operand, updates: _Updates) -> list[te.Tensor]:
    reduction = operation.node.text("reduction", "none")
    kernels = {"none": _last, "add": _sum, "mul": _product, "max": _extremum, "min": _extremum}
    if reduction not in kernels:
        raise operation.node.damaged(f"reduction must be one of {', '.join(kernels)}")
    wide = updates.prefix if reduction == "none" else x.shape
    steps = math.prod(wide) * updates.count
    if steps > MAX_STEPS:
        raise operation.node.refuse(
            f"a scatter must take at most {MAX_STEPS} steps, not {steps}: one for each element "
            "and each update that may reach it",
            "it is interpreted",
        )
    return [kernels[reduction](operation, x, updates, reduction)]


def _last(operation: Operation, x: Operand, updates: _Updates, _: str) -> te.Tensor:
    """Of several updates of one element the last one counts."""
    k = te.reduce_axis(updates.count, "k")
    last = operation.compute(
        updates.prefix, lambda *i: te.max(te.select(updates.reached(i, k), k, -1), k), "last"
    )

    def element(*i: Expr) -> Expr:
        number = last[i[: len(last.shape)]]
        chosen = updates.value(i, te.clip(number, 0, updates.count - 1))
        return te.select(number >= 0, chosen, x[i[: x.rank]])

    return operation.compute(x.shape, element)


def _sum(operation: Operation, x: Operand, updates: _Updates, _: str) -> te.Tensor:
    k = te.reduce_axis(updates.count, "k")
    total = operation.compute(
        x.shape,
        lambda *i: te.sum(te.select(updates.reached(i, k), updates.value(i, k), 0), k),
        "total",
    )
    return operation.compute(x.shape, lambda *i: x[i[: x.rank]] + total[i])


def _extremum(operation: Operation, x: Operand, updates: _Updates, reduction: str) -> te.Tensor:
    k = te.reduce_axis(updates.count, "k")
    reduce, combine = (te.max, te.maximum) if reduction == "max" else (te.min, te.minimum)
    neutral = _neutral(x.dtype, reduction)
    best = operation.compute(
        x.shape,
        lambda *i: reduce(te.select(updates.reached(i, k), updates.value(i, k), neutral), k),
        "best",
    )
    return operation.compute(x.shape, lambda *i: combine(x[i[: x.rank]], best[i]))


def _neutral(dtype: str, reduction: str) -> Expr:
    if is_float(dtype):
        return FloatImm(-math.inf if reduction == "max" else math.inf, dtype)
    return IntImm(limits(dtype)[0 if reduction == "max" else 1], dtype)


def _product(operation: Operation, x: Operand, updates: _Updates, _: str) -> te.Tensor:
    if updates.count > MAX_FACTORS:
        raise operation.node.refuse(
            f"at most {MAX_FACTORS} updates may be multiplied, not {updates.count}",
            "it is interpreted",
        )

    def element(*i: Expr) -> Expr:
        value = x[i[: x.rank]]
        for number in range(updates.count):
            k = IntImm(number)
            factor = te.select(updates.reached(i, k), updates.value(i, k), as_expr(1, x.dtype))
            value = value * factor
        return value

    return operation.compute(x.shape, element)


def _lower_scatter_elements(operation: Operation) -> list[te.Tensor]:
    """Updates along one axis; the other indices of an update are those of its element."""
    x, indices, values = (operation.operand(number) for number in range(3))
    axis = normalized_axis(operation, operation.node.integer("axis", 0), x.rank)
    operation.require(
        indices.rank == x.rank and values.shape == indices.shape,
        f"updates {list(values.shape)} and indices {list(indices.shape)} must match and have the "
        f"rank of {list(x.shape)}",
    )

    def place(i: Sequence[Expr], k: Expr) -> tuple[Expr, ...]:
        clamped = [
            index if old == new else te.minimum(index, new - 1)
            for index, old, new in zip(i, x.shape, indices.shape, strict=True)
        ]
        return *clamped[:axis], k, *clamped[axis + 1 :]

    def reached(i: Sequence[Expr], k: Expr) -> Expr:
        hit = te.eq(_wrapped(indices[place(i, k)], x.shape[axis]), i[axis])
        for dim, extent in enumerate(indices.shape):
            if dim != axis and extent < x.shape[dim]:
                hit = hit & (i[dim] < extent)
        return hit

    def value(i: Sequence[Expr], k: Expr) -> Expr:
        return values[place(i, k)]

    return _scattered(operation, x, _Updates(indices.shape[axis], x.shape, reached, value))


def _lower_scatter_nd(operation: Operation) -> list[te.Tensor]:
    """Each update replaces a slice; the leading axes of the result choose the slice."""
    x, indices, values = (operation.operand(number) for number in range(3))
    depth, outer = indices.shape[-1] if indices.shape else x.rank + 1, indices.shape[:-1]
    if depth > x.rank:
        raise operation.node.damaged(f"indices of {depth} do not fit a tensor of rank {x.rank}")

    def update(k: Expr) -> list[Expr]:
        """The index of update number k among the updates."""
        found: list[Expr] = []
        stride = 1
        for extent in reversed(outer):
            found.append(k // stride % extent)
            stride *= extent
        return found[::-1]

    def reached(i: Sequence[Expr], k: Expr) -> Expr:
        hit: Expr = as_expr(1, "bool")
        for dim in range(depth):
            read = indices[(*update(k), dim)]
            same = te.eq(_wrapped(read, x.shape[dim]), i[dim])
            hit = hit & same if dim else same
        return hit

    def value(i: Sequence[Expr], k: Expr) -> Expr:
        return values[(*update(k), *i[depth : x.rank])]

    prefix = x.shape[:depth]
    return _scattered(operation, x, _Updates(math.prod(outer), prefix, reached, value))


def _lower_tensor_scatter(operation: Operation) -> list[te.Tensor]:
    """A cache where a run of elements of an axis is replaced, from a place on that each batch has.

    What would be written beyond the end is dropped; in mode circular it begins again at 0.
    """
    cache, update, starts = operation.operand(0), operation.operand(1), operation.optional(2)
    mode = operation.node.text("mode", "linear")
    if mode not in ("linear", "circular"):
        raise operation.node.damaged(f"mode must be linear or circular, not {mode!r}")
    axis = normalized_axis(operation, operation.node.integer("axis", -2), cache.rank)
    operation.require(
        update.rank == cache.rank and (starts is None or starts.shape == cache.shape[:1]),
        f"an update {list(update.shape)} must have the rank of {list(cache.shape)}",
    )
    extent, count = cache.shape[axis], update.shape[axis]

    def element(*i: Expr) -> Expr:
        number = i[axis] if starts is None else i[axis] - starts[i[0]].astype("int32")
        number = number % extent if mode == "circular" else number
        chosen = update[(*i[:axis], te.clip(number, 0, count - 1), *i[axis + 1 :])]
        return te.select((number >= 0) & (number < count), chosen, cache[i])

    return [operation.compute(cache.shape, element)]


LOWERINGS: Mapping[str, Lowering] = {
    "Gather": _lower_gather,
    "GatherElements": _lower_gather_elements,
    "GatherND": _lower_gather_nd,
    "Scatter": _lower_scatter_elements,
    "ScatterElements": _lower_scatter_elements,
    "ScatterND": _lower_scatter_nd,
    "TensorScatter": _lower_tensor_scatter,
}
"""By operator."""
