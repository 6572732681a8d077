"""Slice, pad, concat, nearest resize and permutations of maps, on blocked tensors.

They move whole blocks of channels. Source: ONNX Slice (opset 13), Pad (opset 21), Concat (opset
13), Resize (opset 19, mode nearest, whole factors).
"""

from collections.abc import Sequence

from daedal.compiler import te
from daedal.compiler.ops.piecewise import piecewise
from daedal.compiler.ops.requantize import Bounds, requantized_at
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = ["concat", "pad_map", "permute", "resize_nearest", "slice_map"]


def slice_map(
    x: te.Tensor,
    params: te.Tensor,
    *,
    begin: Sequence[int],
    shape: Sequence[int],
    steps: Sequence[int],
    bounds: Bounds,
    load_columns: bool = False,
    accumulator: str = "int32",
) -> te.Tensor:
    """The part of (NB, CB, H, W, U, batch, lanes) that starts at `begin`, requantized by one row.

    Parameters
    ----------
    begin : first channel block, row and column.
    shape : channel blocks, rows and columns of the result.
    steps : of rows and of columns.
    load_columns : whether ``wide`` also holds the skipped columns.

    Returns
    -------
    (NB, *shape, U, batch, lanes). The intermediate tensor is ``wide``, in accumulator width.
    """
    nb, _, _, _, *row = x.shape
    blocks, height, width = shape
    outer, inner = (1, steps[1]) if load_columns else (steps[1], 1)
    wide = te.compute(
        (nb, blocks, height, (width - 1) * inner + 1, *row),
        lambda n, c, h, w, u, b, o: x[
            n, c + begin[0], h * steps[0] + begin[1], w * outer + begin[2], u, b, o
        ].astype(accumulator),
        "wide",
    )
    return requantized_at(
        (nb, blocks, height, width, *row),
        lambda n, c, h, w, u, b, o: wide[n, c, h, w * inner, u, b, o],
        params,
        bounds,
        x.dtype,
    )


def pad_map(
    x: te.Tensor,
    params: te.Tensor,
    *,
    before: Sequence[int],
    shape: Sequence[int],
    pad_value: int,
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """The map (NB, CB, H, W, U, batch, lanes) in a larger one of `pad_value`, requantized.

    Parameters
    ----------
    before : channel blocks, rows and columns before the map.
    shape : channel blocks, rows and columns of the result.
    """
    nb, _, _, _, *row = x.shape
    wide = te.compute(
        (nb, *shape, *row),
        lambda n, c, h, w, u, b, o: x.padded(pad_value)[
            n, c - before[0], h - before[1], w - before[2], u, b, o
        ].astype(accumulator),
        "wide",
    )
    return requantized_at(
        wide.shape,
        lambda n, c, h, w, u, b, o: wide[n, c, h, w, u, b, o],
        params,
        bounds,
        x.dtype,
    )


def resize_nearest(
    x: te.Tensor,
    params: te.Tensor,
    *,
    factors: Sequence[int],
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """Repeat every pixel of (NB, CB, H, W, U, batch, lanes) `factors` times in height and width."""
    nb, cb, height, width, *row = x.shape
    wide = te.compute(
        x.shape, lambda n, c, h, w, u, b, o: x[n, c, h, w, u, b, o].astype(accumulator), "wide"
    )
    return requantized_at(
        (nb, cb, height * factors[0], width * factors[1], *row),
        lambda n, c, h, w, u, b, o: wide[n, c, h // factors[0], w // factors[1], u, b, o],
        params,
        bounds,
        x.dtype,
    )


def concat(
    maps: Sequence[te.Tensor],
    params: te.Tensor,
    *,
    blocks: Sequence[int],
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """Maps (NB, CB, H, W, U, batch, lanes) one after the other, each requantized by its own row.

    Parameters
    ----------
    params : (maps, lanes, 3) int64.
    blocks : channel blocks for each map, at least as many as it has; the rest is filled with zeros
        before requantization.

    Returns
    -------
    (NB, sum of `blocks`, H, W, U, batch, lanes).
    """
    nb, _, height, width, *row = maps[0].shape
    begins = [sum(blocks[:index]) for index in range(len(blocks))]
    owner = [index for index, count in enumerate(blocks) for _ in range(count)]

    def element(n: Expr, c: Expr, h: Expr, w: Expr, u: Expr, b: Expr, o: Expr) -> Expr:
        found = [
            x.padded(0)[n, c - begin, h, w, u, b, o] for x, begin in zip(maps, begins, strict=True)
        ]
        return piecewise(c, [found[index] for index in owner]).astype(accumulator)

    wide = te.compute((nb, len(owner), height, width, *row), element, "wide")
    return requantized_at(
        wide.shape,
        lambda n, c, h, w, u, b, o: wide[n, c, h, w, u, b, o],
        params,
        bounds,
        maps[0].dtype,
        row=lambda n, c, h, w, u: piecewise(c, [IntImm(index) for index in owner]),
    )


def permute(
    x: te.Tensor,
    params: te.Tensor,
    *,
    order: Sequence[int],
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """Vectors of channels in another order, requantized by one row.

    Parameters
    ----------
    x : (*extents, U, batch, lanes): the vectors in memory, as an array of `order`'s dimensions.
    order : of the dimensions of `x`, but the last three, in the result.

    Returns
    -------
    Its shape: `x`'s dimensions in `order`, at least four, and (U, batch, lanes).
    """
    extents, row = x.shape[:-3], x.shape[-3:]
    missing = max(0, 4 - len(order))
    places = [missing + order.index(dim) for dim in range(len(order))]
    wide = te.compute(
        (*[1] * missing, *(extents[dim] for dim in order), *row),
        lambda *i: x[(*(i[place] for place in places), *i[-3:])].astype(accumulator),
        "wide",
    )

    def element(*i: Expr) -> Expr:
        bias, multiplier, shift = (params[0, i[-1], part] for part in range(3))
        limits = bounds.zero_point, bounds.low, bounds.high
        return te.requantize(wide[i], bias, multiplier, shift, *limits, bounds.dtype(x.dtype))

    return te.compute(wide.shape, element, "y")
