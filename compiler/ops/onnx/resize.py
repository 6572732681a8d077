"""Operators that resize axes.

Interpolation goes axis by axis, in float32, or in float64 for float64 and integers of 32 or 64
bits. Which elements are read, and their weights, are computed here and become tables.

Source: ONNX, Resize and Upsample.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from daedal.common.resampling import COORDINATES, NEAREST, Axis, Method, Taps, scales_of_sizes
from daedal.compiler import te
from daedal.compiler.ops.onnx.movement import normalized_axis
from daedal.compiler.ops.onnx.operation import Lowering, Operand, Operation
from daedal.compiler.tir.dtype import is_float, is_integer, limits
from daedal.compiler.tir.expr import Expr

__all__ = ["LOWERINGS"]

MAX_UNROLLED = 4
"""Most elements per result that a formula adds up itself; more are a reduction."""


def _choice(operation: Operation, name: str, default: str, choices: Sequence[str]) -> str:
    found = operation.node.text(name, default)
    if found not in choices:
        raise operation.node.damaged(f"{name} must be one of {', '.join(choices)}, not {found!r}")
    return found


def _method(operation: Operation) -> Method:
    node = operation.node
    return Method(
        _choice(operation, "mode", "nearest", ("nearest", "linear", "cubic")),
        _choice(operation, "coordinate_transformation_mode", "half_pixel", [*COORDINATES]),
        _choice(operation, "nearest_mode", "round_prefer_floor", [*NEAREST]),
        node.real("cubic_coeff_a", -0.75),
        bool(node.integer("antialias", 0)),
        bool(node.integer("exclude_outside", 0)),
    )


def _lower_resize(operation: Operation) -> list[te.Tensor]:
    if operation.opset < 11:
        return _lower_upsample(operation)
    x, method = operation.operand(0), _method(operation)
    value = operation.node.real("extrapolation_value", 0.0)
    given = operation.node.integers("axes", None)
    operation.require(len(operation.result.shape) == x.rank, f"the result must have {x.rank} axes")
    chosen = tuple(range(x.rank)) if given is None else given
    axes = [normalized_axis(operation, axis, x.rank) for axis in chosen]
    scales = _scales(operation, x, axes)
    regions = _regions(operation, len(axes), method.coordinates)
    resized = {
        dim: Axis(x.shape[dim], operation.result.shape[dim], scale, region)
        for dim, scale, region in zip(axes, scales, regions, strict=True)
    }
    return _resized(operation, x, {dim: method.taps(axis) for dim, axis in resized.items()}, value)


def _known(operation: Operation, index: int) -> list[float] | None:
    """The numbers of an operand; None where it is absent or empty."""
    found = operation.constant(index)
    return None if found is None or not found.size else [float(item) for item in found.reshape(-1)]


def _scales(operation: Operation, x: Operand, axes: Sequence[int]) -> list[float]:
    """One per axis, from the operand `scales` or `sizes`."""
    scales, sizes = _known(operation, 2), _known(operation, 3)
    policy = _choice(
        operation,
        "keep_aspect_ratio_policy",
        "stretch",
        ("stretch", "not_larger", "not_smaller"),
    )
    if (scales is None) == (sizes is None) or len(scales or sizes or ()) != len(axes):
        raise operation.node.damaged(f"either scales or sizes of {len(axes)} axes must be given")
    if sizes is not None:
        scales = scales_of_sizes(
            [int(size) for size in sizes], [x.shape[dim] for dim in axes], policy
        )
    assert scales is not None
    if not all(0 < scale < math.inf for scale in scales):
        raise operation.node.damaged(f"scales must be positive, not {scales}")
    return scales


def _regions(operation: Operation, count: int, coordinates: str) -> list[tuple[float, float]]:
    """What is cropped of each axis; the operand `roi` has all starts, then all ends."""
    if coordinates != "tf_crop_and_resize":
        return [(0.0, 1.0)] * count
    found = _known(operation, 1)
    if found is None or len(found) != 2 * count:
        raise operation.node.damaged(f"roi must be {2 * count} numbers for {coordinates}")
    return list(zip(found[:count], found[count:], strict=True))


def _lower_upsample(operation: Operation) -> list[te.Tensor]:
    """Also Resize of opset 10: coordinates are asymmetric, and nearest elements lie inside.

    Source: ONNX's tests of opset 10 (resize_downsample_nearest) for axes that shrink.
    """
    x = operation.operand(0)
    mode = _choice(operation, "mode", "nearest", ("nearest", "linear", "cubic"))
    attribute = operation.node.reals("scales")
    scales = _known(operation, 1) if operation.opset >= 9 else attribute
    ranks = {x.rank, len(operation.result.shape), len(scales or ())}
    if scales is None or len(ranks) > 1 or min(scales, default=1) <= 0:
        raise operation.node.damaged(f"scales must be {x.rank} positive numbers, not {scales}")
    taps = {
        dim: Method(mode, rounding="floor" if scale >= 1 else "ceil").taps(
            Axis(x.shape[dim], operation.result.shape[dim], scale)
        )
        for dim, scale in enumerate(scales)
    }
    return _resized(operation, x, taps, 0.0)


def _resized(
    operation: Operation, x: Operand, taps: Mapping[int, Taps], value: float
) -> list[te.Tensor]:
    """All plain axes in one formula, then the others one by one, then the dtype of the result."""
    others = {dim: item for dim, item in taps.items() if not item.plain}
    plain = {
        dim: item
        for dim, item in taps.items()
        if item.plain and not np.array_equal(item.indices[:, 0], np.arange(x.shape[dim]))
    }
    tensor = _picked(operation, x.tensor, plain) if plain or not others else x.tensor
    for dim, item in others.items():
        tensor = _weighted(operation, tensor, dim, item)
    outside = {dim: item.outside for dim, item in taps.items() if item.outside.any()}
    if tensor.dtype == x.dtype and not outside:
        return [tensor]
    tables = {dim: operation.table(item) for dim, item in outside.items()}
    source = tensor

    def element(*i: Expr) -> Expr:
        result = _rounded(source[i], x.dtype)
        for dim, table in tables.items():
            result = te.select(table[i[dim]], _constant(value, x.dtype), result)
        return result

    return [operation.compute(tensor.shape, element)]


def _picked(operation: Operation, x: te.Tensor, taps: Mapping[int, Taps]) -> te.Tensor:
    """`x` where each element of the axes of `taps` is one element of it."""
    shape = [
        taps[dim].indices.shape[0] if dim in taps else extent for dim, extent in enumerate(x.shape)
    ]
    places = {dim: _place(operation, item, x.shape[dim]) for dim, item in taps.items()}
    return operation.compute(
        shape,
        lambda *i: x[
            tuple(places[dim](index) if dim in places else index for dim, index in enumerate(i))
        ],
        "picked",
    )


def _place(operation: Operation, taps: Taps, old: int) -> Callable[[Expr], Expr]:
    """Index to index: a formula where scales are whole, else a table."""
    indices = taps.indices[:, 0]
    new = len(indices)
    up, down = max(new // old, 1), max(old // new, 1)
    numbers = np.arange(new)
    if np.array_equal(indices, numbers // up):
        return lambda i: i // up
    first = int(indices[0])
    if np.array_equal(indices, numbers * down + first):
        return lambda i: i * down + first
    table = operation.table(indices)
    return lambda i: table[i]


def _weighted(operation: Operation, x: te.Tensor, dim: int, taps: Taps) -> te.Tensor:
    """One axis of `x` interpolated."""
    new, count = taps.indices.shape
    wide = x.dtype == "float64" or x.dtype in ("int32", "uint32", "int64", "uint64")
    work = "float64" if wide else "float32"
    indices, weights = operation.table(taps.indices), operation.table(taps.weights.astype(work))
    shape = [*x.shape[:dim], new, *x.shape[dim + 1 :]]

    def term(i: Sequence[Expr], k: Expr | int) -> Expr:
        read = x[(*i[:dim], indices[i[dim], k], *i[dim + 1 :])]
        return read.astype(work) * weights[i[dim], k]

    def unrolled(*i: Expr) -> Expr:
        total = term(i, 0)
        for k in range(1, count):
            total = total + term(i, k)
        return total

    if count <= MAX_UNROLLED:
        return operation.compute(shape, unrolled, "weighted")
    k = te.reduce_axis(count, "k")
    return operation.compute(shape, lambda *i: te.sum(term(i, k), k), "weighted")


def _rounded(value: Expr, dtype: str) -> Expr:
    """An interpolated value as the dtype of the result; integers round half to even, saturate."""
    if not is_integer(dtype) or value.dtype == dtype:
        return value.astype(dtype)
    return te.round(value).astype(dtype)


def _constant(value: float, dtype: str) -> float | int:
    if is_float(dtype):
        return value
    low, high = limits(dtype)
    return min(max(round(value), low), high)


LOWERINGS: Mapping[str, Lowering] = {"Resize": _lower_resize, "Upsample": _lower_upsample}
"""By operator."""
