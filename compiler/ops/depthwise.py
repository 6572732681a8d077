"""Two-dimensional integer depthwise convolution on blocked tensors.

Source: ONNX Conv (opset 11) with as many groups as channels.
"""

from collections.abc import Sequence

from daedal.compiler import te
from daedal.compiler.graph.window_extents import output_extent
from daedal.compiler.ops.requantize import Bounds, requantized

__all__ = ["depthwise_conv2d"]


def depthwise_conv2d(
    x: te.Tensor,
    w: te.Tensor,
    params: te.Tensor,
    *,
    kernel_width: int,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    pad_value: int,
    bounds: Bounds,
    accumulator: str = "int32",
    name: str = "y",
    table: te.Tensor | None = None,
) -> te.Tensor:
    """Depthwise convolution and requantization, as tensor `name`.

    Parameters
    ----------
    x : (NB, CB, H, W, 1, batch, block).
    w : (CB, KH, G, taps, block): G groups of `taps` adjacent taps in a row of the window, zeros
        from column `kernel_width` on (`daedal.compiler.graph.layout.DepthwiseLayout`).
    params : (CB, block, 3) int64: bias, multiplier, shift of each channel.
    pads : top, left, bottom, right; filled with `pad_value`.

    Returns
    -------
    (NB, CB, OH, OW, 1, batch, block); the accumulators before it are the tensor ``acc``.
    """
    nb, cb, height, width, parts, batch, block = x.shape
    _, kh, groups, taps, _ = w.shape
    top, left, bottom, right = pads
    oh = output_extent(height, kh, strides[0], (top, bottom), dilations[0])
    ow = output_extent(width, kernel_width, strides[1], (left, right), dilations[1])
    r, g, t = te.reduce_axis(kh, "kh"), te.reduce_axis(groups, "kg"), te.reduce_axis(taps, "kt")
    # Columns of zero weights may extend beyond the right edge of the window.
    source = x.padded(pad_value) if any(pads) or groups * taps > kernel_width else x
    acc = te.compute(
        (nb, cb, oh, ow, parts, batch, block),
        lambda n, c, h, v, u, b, o: te.sum(
            source[
                n,
                c,
                h * strides[0] + r * dilations[0] - top,
                v * strides[1] + (g * taps + t) * dilations[1] - left,
                u,
                b,
                o,
            ].astype(accumulator)
            * w[c, r, g, t, o].astype(accumulator),
            [r, g, t],
        ),
        "acc",
    )
    return requantized(acc, params, bounds, bounds.dtype(x.dtype), name=name, table=table)
