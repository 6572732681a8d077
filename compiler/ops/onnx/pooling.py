"""Pools over windows, and over whole maps.

A pool over windows is a copy of the map with its pads (none where windows stay inside), a reduction
over the taps, and an elementwise epilogue.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from daedal.compiler import te
from daedal.compiler.ops.onnx.accumulate import converted, wide
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.ops.onnx.over_axes import number
from daedal.compiler.ops.onnx.windows import (
    Window,
    is_faster_in_turn,
    padded_copy,
    per_dimension,
    taps_of,
    window_of,
)
from daedal.compiler.tir.dtype import INDEX_DTYPE, is_float, limits
from daedal.compiler.tir.expr import Axis, Expr, FloatImm, IntImm

__all__ = ["LOWERINGS"]


def _window(operation: Operation) -> Window:
    node, x = operation.node, operation.operand(0)
    if not 3 <= x.rank <= 5:
        raise node.refuse("a pool must have one to three dimensions", "reshape the map")
    kernel = per_dimension(node, "kernel_shape", x.rank - 2, 0)
    if min(kernel) < 1:
        raise node.damaged("kernel_shape must be given and positive")
    return window_of(node, x.shape[2:], kernel, ceil_mode=bool(node.integer("ceil_mode", 0)))


def _over_windows(
    operation: Operation,
    x: Operand,
    window: Window,
    value: Callable[[Expr], Expr],
    reduce: Callable[[Expr, Sequence[Axis]], Expr],
    name: str,
    again: Callable[[Expr], Expr] | None = None,
) -> te.Tensor:
    """``reduce`` over the taps of ``value(element)`` of the padded map `x`.

    Large windows of two dimensions are reduced along one after the other: the second time over
    ``again(element)``, which is the element itself by default.
    """
    taps, axes = taps_of(window.kernel)
    rows = x.shape[2]
    if not is_faster_in_turn(window.kernel, rows, window.out[0]):

        def formula(*i: Expr) -> Expr:
            return reduce(value(x[(*i[:2], *window.places(i[2:], taps))]), axes)

        return operation.compute((*x.shape[:2], *window.out), formula, name)

    def along_row(n: Expr, c: Expr, h: Expr, w: Expr) -> Expr:
        _, column = window.places((h, w), taps)
        return reduce(value(x[n, c, h, column]), axes[1:])

    part = operation.compute((*x.shape[:2], rows, window.out[1]), along_row, f"{name}_of_rows")

    def along_column(n: Expr, c: Expr, h: Expr, w: Expr) -> Expr:
        row, _ = window.places((h, w), taps)
        element = part[n, c, row, w]
        return reduce(element if again is None else again(element), axes[:1])

    return operation.compute((*x.shape[:2], *window.out), along_column, name)


def _max_pool(operation: Operation) -> list[te.Tensor]:
    """MaxPool-1 to -22. A NaN is no maximum, unless there is nothing else.

    Source: ONNX's reference evaluator and onnxruntime; the standard says nothing of NaN.
    """
    node, x = operation.node, operation.operand(0)
    window = _window(operation)
    column_major = bool(node.integer("storage_order", 0))
    lowest = float("-inf") if is_float(x.dtype) else limits(x.dtype)[0]
    padded = padded_copy(operation, x, window.before, window.overhang, lowest)
    value = number if is_float(x.dtype) else _as_is
    y = _over_windows(operation, padded, window, value, te.max, "maximum", value)
    if is_float(x.dtype):
        y = _with_nan(operation, padded, window, y)
    if len(operation.results) < 2 or operation.results[1] is None:
        return [y]
    return [y, _indices(operation, padded, window, y, column_major)]


def _as_is(element: Expr) -> Expr:
    return element


def _with_nan(operation: Operation, padded: Operand, window: Window, y: te.Tensor) -> te.Tensor:
    """`y`, or NaN for windows of nothing else: so is any element of the map in them.

    A tap that lies in the map at every position is read by vectors; without one, the first element.
    """
    x = operation.operand(0)
    inner = window.tap_inside()

    def first(dim: int, position: Expr) -> Expr:
        step, start = window.dilations[dim], position * window.strides[dim] - window.before[dim]
        tap = te.maximum((step - 1 - start) // step, 0)
        return te.clip(start + tap * step, 0, window.extents[dim] - 1)

    def formula(*i: Expr) -> Expr:
        if inner is not None:
            element = padded[(*i[:2], *window.places(i[2:], [IntImm(tap) for tap in inner]))]
        else:
            element = x[(*i[:2], *(first(dim, position) for dim, position in enumerate(i[2:])))]
        lowest = te.eq(y[i], FloatImm(-math.inf, y.dtype))
        return te.select(lowest & te.ne(element, element), element, y[i])

    return operation.compute(y.shape, formula)


def _indices(
    operation: Operation, padded: Operand, window: Window, y: te.Tensor, column_major: bool
) -> te.Tensor:
    """Where in the whole operand each maximum of `y` is first, int64."""
    shape = operation.operand(0).shape
    total = 1
    for extent in shape:
        total *= extent
    if total > limits(INDEX_DTYPE)[1]:
        raise operation.node.refuse(
            "a map with indices must have less than 2^31 elements", "split the batch"
        )
    taps, axes = taps_of(window.kernel)

    def formula(*i: Expr) -> Expr:
        place = window.places(i[2:], taps)
        found = te.eq(padded[(*i[:2], *place)], y[i])
        inner = [at - low for at, low in zip(place, window.before, strict=True)]
        for at, extent, low, after in zip(
            inner, window.extents, window.before, window.overhang, strict=True
        ):
            if low:
                found = found & (at >= 0)
            if after:
                found = found & (at < extent)
        return te.min(te.select(found, _flat((*i[:2], *inner), shape), total), axes)

    first = operation.compute(y.shape, formula, "first")
    return operation.compute(
        y.shape, lambda *i: _reordered(first[i], shape, column_major).astype("int64"), "indices"
    )


def _flat(indices: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """The row-major number of an element."""
    number: Expr = IntImm(0)
    for index, extent in zip(indices, shape, strict=True):
        number = number * extent + index
    return number


def _reordered(number: Expr, shape: Sequence[int], column_major: bool) -> Expr:
    """A row-major number with the spatial dimensions in column-major order where that is asked."""
    if not column_major:
        return number
    size = 1
    for extent in shape[2:]:
        size *= extent
    result, rest, inner = number // size * size, number % size, size
    stride = 1
    for extent in shape[2:]:
        inner //= extent
        result = result + rest // inner % extent * stride
        stride *= extent
    return result


def _average_pool(operation: Operation) -> list[te.Tensor]:
    """AveragePool-7 to -22: what ceil_mode adds behind the pads is never counted."""
    x, window = operation.operand(0), _window(operation)
    include_pad = bool(operation.node.integer("count_include_pad", 0))
    dtype = wide(x.dtype)
    padded = padded_copy(operation, x, window.before, window.overhang)
    total = _over_windows(operation, padded, window, lambda e: e.astype(dtype), te.sum, "sums")
    after = window.after if include_pad else (0,) * window.num_dims
    before = (0,) * window.num_dims if include_pad else window.before
    beyond = [max(over - more, 0) for over, more in zip(window.overhang, after, strict=True)]
    if not any(before) and not any(beyond):
        size = 1
        for extent in window.kernel:
            size *= extent
        return [
            operation.compute(
                total.shape, lambda *i: (total[i] / size).astype(operation.result.dtype)
            )
        ]
    counts = _counts(operation, window, include_pad, dtype)
    return [
        operation.compute(
            total.shape, lambda *i: (total[i] / counts[i[2:]]).astype(operation.result.dtype)
        )
    ]


def _counts(operation: Operation, window: Window, include_pad: bool, dtype: str) -> te.Tensor:
    """How many taps of the window at each position count, of shape `window.out`."""

    def along(dim: int, position: Expr) -> Expr:
        low, high = (window.before[dim], window.after[dim]) if include_pad else (0, 0)
        extent, step = window.extents[dim] + low + high, window.dilations[dim]
        start = position * window.strides[dim] - (window.before[dim] - low)
        # Taps t with 0 <= start + t * step < extent.
        first = te.maximum((step - 1 - start) // step, 0)
        last = te.minimum((extent - start + step - 1) // step, window.kernel[dim])
        return last - first

    def formula(*i: Expr) -> Expr:
        number: Expr = IntImm(1)
        for dim, position in enumerate(i):
            number = number * along(dim, position)
        return number.astype(dtype)

    return operation.compute(window.out, formula, "counts")


def _lp_pool(operation: Operation) -> list[te.Tensor]:
    """LpPool-2 to -22: ``sum(|x|^p)^(1/p)``."""
    x, window = operation.operand(0), _window(operation)
    p = operation.node.integer("p", 2)
    padded = padded_copy(operation, x, window.before, window.overhang)
    power = _power(p)
    dtype = wide(x.dtype)
    total = _over_windows(
        operation, padded, window, lambda e: power(e.astype(dtype)), te.sum, "sums"
    )
    return [_root(operation, total, p)]


def _power(p: int) -> Callable[[Expr], Expr]:
    """``|x|^p``."""
    if p == 1:
        return te.abs
    if p == 2:
        return lambda x: x * x
    return lambda x: te.pow(te.abs(x), p)


def _root(operation: Operation, total: te.Tensor, p: int) -> te.Tensor:
    """``total^(1/p)`` in the dtype of the result."""
    dtype = operation.result.dtype
    if p == 1:
        return converted(operation, total, dtype)
    if p == 2:
        return operation.compute(total.shape, lambda *i: te.sqrt(total[i]).astype(dtype))
    return operation.compute(total.shape, lambda *i: te.pow(total[i], 1.0 / p).astype(dtype))


def _over_map(
    operation: Operation,
    value: Callable[[Expr], Expr],
    reduce: Callable[[Expr, Sequence[Axis]], Expr],
) -> te.Tensor:
    """``reduce`` over all spatial dimensions."""
    x = operation.operand(0)
    taps, axes = taps_of(x.shape[2:])
    return operation.compute(
        (*x.shape[:2], *[1] * (x.rank - 2)),
        lambda *i: reduce(value(x[(*i[:2], *taps)]), axes),
        "over_map",
    )


def _global_average(operation: Operation) -> list[te.Tensor]:
    x = operation.operand(0)
    dtype, size = wide(x.dtype), 1
    for extent in x.shape[2:]:
        size *= extent
    total = _over_map(operation, lambda e: e.astype(dtype), te.sum)
    return [operation.compute(total.shape, lambda *i: (total[i] / size).astype(x.dtype))]


def _global_max(operation: Operation) -> list[te.Tensor]:
    return [_over_map(operation, lambda e: e, te.max)]


def _global_lp(operation: Operation) -> list[te.Tensor]:
    p = operation.node.integer("p", 2)
    power, dtype = _power(p), wide(operation.operand(0).dtype)
    return [_root(operation, _over_map(operation, lambda e: power(e.astype(dtype)), te.sum), p)]


LOWERINGS: Mapping[str, Lowering] = {
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average,
    "GlobalLpPool": _global_lp,
    "GlobalMaxPool": _global_max,
    "LpPool": _lp_pool,
    "MaxPool": _max_pool,
}
"""By operator."""
