"""Two-dimensional integer convolution on blocked tensors.

Source: ONNX Conv (opset 11) for strides, dilations and pads.
"""

from collections.abc import Sequence
from enum import Enum

from daedal.compiler import te
from daedal.compiler.graph.window_extents import output_extent, window_span
from daedal.compiler.ops.requantize import Bounds, requantized_at
from daedal.compiler.tir.expr import Expr

__all__ = ["Gather", "conv2d"]


class Gather(Enum):
    """What of the map is copied on chip.

    NOTHING: the hull of the windows of all outputs computed together.
    ROWS: for each row of outputs the rows that its windows read, and no rows between them.
    """

    NOTHING = "nothing"
    ROWS = "rows"

    @classmethod
    def of(cls, kernel: Sequence[int], strides: Sequence[int]) -> "Gather":
        """The default: skipped rows are never loaded where windows are one row high."""
        return cls.ROWS if kernel[0] == 1 and strides[0] > 1 else cls.NOTHING


def conv2d(
    x: te.Tensor,
    w: te.Tensor,
    params: te.Tensor,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    pad_value: int,
    bounds: Bounds,
    groups: int = 1,
    classes: Sequence[Sequence[int]] = (),
    accumulator: str = "int32",
    gather: Gather | None = None,
    name: str = "y",
    table: te.Tensor | None = None,
) -> te.Tensor:
    """Convolution and requantization, as tensor `name`.

    Parameters
    ----------
    x : (NB, CB, H, W, U, batch, block_in). With groups, NB counts images times groups, and CB the
        blocks of one group; in memory this is the same as a map of all groups.
    w : (OB, CB * U, KH, KW, block_out, block_in), OB of all groups.
    params : (OB, block_out, 3) int64: bias, multiplier, shift of each output channel; or
        (OB, C, block_out, 3) with C classes of outputs.
    pads : top, left, bottom, right; filled with `pad_value`.
    classes : (OH, OW) the class of each output, if there are several.
    gather : None for `Gather.of`.
    table : where the results are looked up (`daedal.compiler.te.table`), if anywhere.

    Returns
    -------
    (NB, OB / groups / V, OH, OW, V, batch, block_out), V output vectors to a block of U * block_in
    channels. The accumulators are the tensor ``acc``. Gathered rows are the tensor ``rows``,
    (NB, CB, OH, KH, columns, U, batch, block_in).
    """
    nb, cb, height, width, parts, batch, block_in = x.shape
    ob, _, kh, kw, block_out, _ = w.shape
    top, left, bottom, right = pads
    oh = output_extent(height, kh, strides[0], (top, bottom), dilations[0])
    ow = output_extent(width, kw, strides[1], (left, right), dilations[1])
    out_parts = max(1, parts * block_in // block_out)
    out_blocks = ob // groups // out_parts

    def out_row(n: Expr, oc: Expr, u: Expr) -> Expr:
        """The row of weights and of parameters for an output vector."""
        if groups == 1:
            return oc * out_parts + u
        group = n if nb == groups else n % groups
        return (group * out_blocks + oc) * out_parts + u

    ic, r, s = te.reduce_axis(cb, "ic"), te.reduce_axis(kh, "kh"), te.reduce_axis(kw, "kw")
    iu, i = te.reduce_axis(parts, "iu"), te.reduce_axis(block_in, "i")
    source = x.padded(pad_value) if any(pads) else x
    gather = gather or Gather.of((kh, kw), strides)
    columns = window_span(ow, kw, strides[1], dilations[1])
    rows = te.compute(
        (nb, cb, oh, kh, columns, parts, batch, block_in),
        lambda n, c, h, r, v, u, b, i: source[
            n, c, h * strides[0] + r * dilations[0] - top, v - left, u, b, i
        ],
        "rows",
    )

    def element(n: Expr, h: Expr, v: Expr, b: Expr) -> Expr:
        """The factor of a product, from the map or from the gathered rows."""
        column = v * strides[1] + s * dilations[1]
        if gather is Gather.NOTHING:
            row = h * strides[0] + r * dilations[0] - top
            return source[n, ic, row, column - left, iu, b, i]
        return rows[n, ic, h, r, column, iu, b, i]

    acc = te.compute(
        (nb, out_blocks, oh, ow, out_parts, batch, block_out),
        lambda n, oc, h, v, u, b, o: te.sum(
            element(n, h, v, b).astype(accumulator)
            * w[out_row(n, oc, u), ic * parts + iu, r, s, o, i].astype(accumulator),
            [ic, r, s, iu, i],
        ),
        "acc",
    )
    return requantized_at(
        acc.shape,
        lambda n, c, h, w, u, b, o: acc[n, c, h, w, u, b, o],
        params,
        bounds,
        bounds.dtype(x.dtype),
        row=lambda n, c, h, w, u: out_row(n, c, u),
        classes=classes,
        name=name,
        table=table,
    )
