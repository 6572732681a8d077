"""Maximum and average over windows of blocked tensors.

Source: ONNX MaxPool (opset 12) and AveragePool (opset 19) for strides and pads.
"""

from collections.abc import Sequence

from daedal.compiler import te
from daedal.compiler.ops.conv2d import output_extent
from daedal.compiler.ops.requantize import Bounds, requantized
from daedal.compiler.tir.expr import Expr, IntImm, select

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
    accumulator: str = "int32",
) -> te.Tensor:
    """Largest element of each window of (NB, CB, H, W, U, batch, lanes), requantized by one row."""
    windows = _windows(x, kernel, strides, pads, pad_value, accumulator)
    r, s = te.reduce_axis(kernel[0], "kh"), te.reduce_axis(kernel[1], "kw")
    acc = te.compute(
        _output_shape(x, kernel, strides, pads),
        lambda n, c, h, w, u, b, o: te.max(
            windows[n, c, h * strides[0] + r, w * strides[1] + s, u, b, o], [r, s]
        ),
        "acc",
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
    """Sum of each window, requantized: 1/n is in the multiplier.

    Parameters
    ----------
    params : (D, lanes, 3), one row per divisor.
    rows : (OH, OW): the row of `params` that each output takes; windows that reach over the border
        have fewer elements.
    """
    windows = _windows(x, kernel, strides, pads, pad_value, accumulator)
    r, s = te.reduce_axis(kernel[0], "kh"), te.reduce_axis(kernel[1], "kw")
    acc = te.compute(
        _output_shape(x, kernel, strides, pads),
        lambda n, c, h, w, u, b, o: te.sum(
            windows[n, c, h * strides[0] + r, w * strides[1] + s, u, b, o], [r, s]
        ),
        "acc",
    )

    def element(n: Expr, c: Expr, h: Expr, w: Expr, u: Expr, b: Expr, o: Expr) -> Expr:
        row = _piecewise(h, [_piecewise(w, [IntImm(int(d)) for d in line]) for line in rows])
        return te.requantize(
            acc[n, c, h, w, u, b, o],
            params[row, o, 0],
            params[row, o, 1],
            params[row, o, 2],
            bounds.zero_point,
            bounds.low,
            bounds.high,
            x.dtype,
        )

    return te.compute(acc.shape, element, "y")


def _windows(
    x: te.Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    pad_value: int,
    accumulator: str,
) -> te.Tensor:
    """``wide``: the padded map in accumulator width, as far as windows reach."""
    nb, cb, _, _, parts, batch, lanes = x.shape
    _, _, oh, ow, *_ = _output_shape(x, kernel, strides, pads)
    top, left, _, _ = pads
    source = x.padded(pad_value) if any(pads) else x
    height, width = (oh - 1) * strides[0] + kernel[0], (ow - 1) * strides[1] + kernel[1]
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
    oh = output_extent(height, kernel[0], strides[0], (top, bottom), 1)
    ow = output_extent(width, kernel[1], strides[1], (left, right), 1)
    return (nb, cb, oh, ow, parts, batch, lanes)


def _piecewise(axis: Expr, values: Sequence[Expr]) -> Expr:
    """The value of each position of `axis`, as nested selects over runs of equal ones."""
    result = values[-1]
    for position in range(len(values) - 1, 0, -1):
        if values[position - 1] != values[position]:
            result = select(axis < position, values[position - 1], result)
    return result
