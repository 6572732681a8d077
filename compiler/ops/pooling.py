"""Maximum and average over windows of blocked tensors.

Source: ONNX MaxPool (opset 12) and AveragePool (opset 19) for strides and pads.
"""

from collections.abc import Callable, Sequence

from daedal.compiler import te
from daedal.compiler.graph.window_extents import output_extent, window_span
from daedal.compiler.ops.piecewise import piecewise
from daedal.compiler.ops.requantize import Bounds, requantized, requantized_at
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = ["avg_pool", "max_pool"]


def max_pool(
    x: te.Tensor,
    params: te.Tensor,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    pad_value: int,
    bounds: Bounds | None,
    accumulator: str = "int32",
) -> te.Tensor:
    """Largest element of each window of (NB, CB, H, W, U, batch, lanes), requantized by one row.

    Without `bounds` the elements keep their values, and `params` are not used.
    """
    windows = _windows(x, kernel, strides, pads, pad_value, accumulator)
    acc = _reduced(windows, _output_shape(x, kernel, strides, pads), kernel, strides, te.max)
    if bounds is None:
        return te.compute(
            acc.shape, lambda n, c, h, w, u, b, o: acc[n, c, h, w, u, b, o].astype(x.dtype), "y"
        )
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
    accumulator: str = "int32",
) -> te.Tensor:
    """Sum of each window, requantized; the multiplier includes 1/n.

    Parameters
    ----------
    params : (D, lanes, 3), one row per divisor.
    rows : (OH, OW): the row of `params` for each output; windows that extend over the border have
        fewer elements.
    """
    windows = _windows(x, kernel, strides, pads, pad_value, accumulator)
    acc = _reduced(windows, _output_shape(x, kernel, strides, pads), kernel, strides, te.sum)

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
) -> te.Tensor:
    """``acc``: the windows of ``wide``, reduced along one dimension after the other.

    ``columns`` has the rows of the result and the columns of the map: windows share it.
    """
    r, s = te.reduce_axis(kernel[0], "kh"), te.reduce_axis(kernel[1], "kw")
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
