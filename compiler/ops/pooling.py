"""Maximum and average over windows of blocked tensors.

Source: ONNX MaxPool (opset 12) and AveragePool (opset 19) for strides and pads.
"""

from collections.abc import Callable, Sequence

from daedal.compiler import te
from daedal.compiler.ops.piecewise import piecewise
from daedal.compiler.ops.requantize import Bounds, requantized, requantized_at
from daedal.compiler.tir.expr import Expr, IntImm
from daedal.compiler.windows import output_extent, window_span

__all__ = ["avg_pool", "max_pool"]


def max_pool(
    x: te.Tensor,
    params: te.Tensor,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    pad_value: int,
    bounds: Bounds,
    by_columns: bool = False,
    accumulator: str = "int32",
) -> te.Tensor:
    """Largest element of each window of (NB, CB, H, W, U, batch, lanes), requantized by one row.

    `by_columns` first reduces each column of a window, once for all windows that share it: the
    tensor ``columns``, with the rows of the result and the columns of the map.
    """
    windows = _windows(x, kernel, strides, pads, pad_value, accumulator)
    shape = _output_shape(x, kernel, strides, pads)
    acc = _reduced(windows, shape, kernel, strides, te.max, by_columns)
    return requantized(acc, params, bounds, x.dtype)


def avg_pool(
    x: te.Tensor,
    params: te.Tensor,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    pad_value: int,
    rows: Sequence[Sequence[int]],
    bounds: Bounds,
    by_columns: bool = False,
    accumulator: str = "int32",
) -> te.Tensor:
    """Sum of each window, requantized; the multiplier includes 1/n.

    Parameters
    ----------
    params : (D, lanes, 3), one row per divisor.
    rows : (OH, OW): the row of `params` for each output; windows that extend over the border have
        fewer elements.
    by_columns : as in `max_pool`.
    """
    windows = _windows(x, kernel, strides, pads, pad_value, accumulator)
    shape = _output_shape(x, kernel, strides, pads)
    acc = _reduced(windows, shape, kernel, strides, te.sum, by_columns)

    def row(n: Expr, c: Expr, h: Expr, w: Expr, u: Expr) -> Expr:
        lines = [piecewise(w, [IntImm(int(d)) for d in line]) for line in rows]
        return piecewise(h, lines)

    return requantized_at(
        acc.shape,
        lambda n, c, h, w, u, b, o: acc[n, c, h, w, u, b, o],
        params,
        bounds,
        x.dtype,
        row=row,
    )


def _reduced(
    windows: te.Tensor,
    shape: tuple[int, ...],
    kernel: Sequence[int],
    strides: Sequence[int],
    reduction: Callable[..., Expr],
    by_columns: bool,
) -> te.Tensor:
    """``acc``: the windows of ``wide``, reduced at once or column by column."""
    r, s = te.reduce_axis(kernel[0], "kh"), te.reduce_axis(kernel[1], "kw")
    if not by_columns:
        return te.compute(
            shape,
            lambda n, c, h, w, u, b, o: reduction(
                windows[n, c, h * strides[0] + r, w * strides[1] + s, u, b, o], [r, s]
            ),
            "acc",
        )
    columns = te.compute(
        (*shape[:3], *windows.shape[3:]),
        lambda n, c, h, w, u, b, o: reduction(windows[n, c, h * strides[0] + r, w, u, b, o], [r]),
        "columns",
    )
    return te.compute(
        shape,
        lambda n, c, h, w, u, b, o: reduction(columns[n, c, h, w * strides[1] + s, u, b, o], [s]),
        "acc",
    )


def _windows(
    x: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    pad_value: int,
    accumulator: str,
) -> te.Tensor:
    """``wide``: the part of the padded map that windows read, in accumulator width."""
    nb, cb, _, _, parts, batch, lanes = x.shape
    _, _, oh, ow, *_ = _output_shape(x, kernel, strides, pads)
    top, left, _, _ = pads
    source = x.padded(pad_value) if any(pads) else x
    height = window_span(oh, kernel[0], strides[0])
    width = window_span(ow, kernel[1], strides[1])
    return te.compute(
        (nb, cb, height, width, parts, batch, lanes),
        lambda n, c, h, w, u, b, o: source[n, c, h - top, w - left, u, b, o].astype(accumulator),
        "wide",
    )


def _output_shape(
    x: te.Tensor, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int]
) -> tuple[int, ...]:
    nb, cb, height, width, parts, batch, lanes = x.shape
    top, left, bottom, right = pads
    oh = output_extent(height, kernel[0], strides[0], (top, bottom))
    ow = output_extent(width, kernel[1], strides[1], (left, right))
    return (nb, cb, oh, ow, parts, batch, lanes)
