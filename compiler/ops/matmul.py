"""Product of two matrices that are both computed at run time, on blocked tensors.

The rows of the second matrix serve as weights: one weight row of the machine is `block_out`
consecutive pixels of a channel block.
"""

from daedal.compiler import te
from daedal.compiler.ops.requantize import Bounds, requantized, requantized_at

__all__ = ["matmul", "products", "row_sums"]


def matmul(
    a: te.Tensor,
    b: te.Tensor,
    factor: te.Tensor,
    params: te.Tensor,
    *,
    num_blocks: int,
    num_rows: int,
    column: tuple[int, int],
    bounds: Bounds,
    parts: int = 1,
    accumulator: str = "int32",
) -> te.Tensor:
    """``requantize(sum over k of (a[m, k] - za) * (b[n, k] - zb))``, with m pixels of a map.

    ``sum a*b - zb * sum a - za * sum b + K*za*zb``: the sums over one operand are products with
    constants, computed once per row and added to all accumulators of that row. The caller must
    include the last term in the bias.

    Parameters
    ----------
    a, b, factor, num_blocks, column, parts : see `products`.
    params : (1, block_out, 3) int64: one bias, multiplier and shift; or (NB * H * W, block_out, 3):
        those of each pixel.
    num_rows : how many times the sums of rows of a times factor are added; 0 if zb is 0.

    Returns
    -------
    (NB, OB / U, H, W, U, 1, block_out). Intermediate tensors: those of `products` and, if needed,
    ``rows``; ``total0`` and ``total1``, the sums with the corrections.
    """
    _, _, height, width, *_ = a.shape
    _, total = products(
        a,
        b,
        num_blocks=num_blocks,
        column=column,
        parts=parts,
        accumulator=accumulator,
        row=(factor, num_rows),
    )
    if params.shape[0] == 1:
        return requantized(total, params, bounds, bounds.dtype(a.dtype))
    return requantized_at(
        total.shape,
        lambda n, oc, h, w, u, m, o: total[n, oc, h, w, u, m, o],
        params,
        bounds,
        bounds.dtype(a.dtype),
        row=lambda n, oc, h, w, u: (n * height + h) * width + w,
    )


def products(
    a: te.Tensor,
    b: te.Tensor,
    *,
    num_blocks: int,
    column: tuple[int, int],
    parts: int,
    accumulator: str,
    row: tuple[te.Tensor | None, int] = (None, 0),
) -> tuple[te.Tensor, te.Tensor]:
    """The first operand on chip, and accumulators of the products, with the corrections for zero
    points.

    Parameters
    ----------
    a : (NB, KB, H, W, 1, 1, block_in); K = KB * block_in channels are summed over.
    b : (NB / share, KB, rows / block_out, block_out, block_in); an image serves `share`
        consecutive images of a.
    num_blocks : OB, blocks of the rows of b that are channels of the result.
    column : an element, and how many times the sums of rows of b times it are added: minus za in
        total.
    parts : U, how many of the blocks are a block of the result's layout.
    row : (1, block_out, block_in), all equal, and how many times the sums of rows of a times it are
        added.

    Returns
    -------
    ``left``, as a, and the accumulators (NB, OB / U, H, W, U, 1, block_out). Other tensors:
    ``right``, the second operand on chip; ``product``; if needed, ``rows`` and ``cols`` (with
    ``constant``, its factor); ``total0`` and ``total1``, the sums with these.
    """
    nb, kb, height, width, _, batch, block_in = a.shape
    block_out = b.shape[3]
    shape = (nb, num_blocks // parts, height, width, parts, batch, block_out)
    share = nb // b.shape[0]
    k, i = te.reduce_axis(kb, "k"), te.reduce_axis(block_in, "i")
    left = te.compute(a.shape, lambda n, c, h, w, u, m, e: a[n, c, h, w, u, m, e], "left")
    right = te.compute(b.shape, lambda n, c, r, o, e: b[n, c, r, o, e], "right")
    total = te.compute(
        shape,
        lambda n, oc, h, w, u, m, o: te.sum(
            left[n, k, h, w, 0, m, i].astype(accumulator)
            * right[n // share, k, oc * parts + u, o, i].astype(accumulator),
            [k, i],
        ),
        "product",
    )
    factor, times = row
    added = [row_sums(left, factor, times, accumulator)] if factor is not None and times else []
    if column[1]:
        added.append(_columns(a, right, shape, column, accumulator))
    for number, term in enumerate(added):
        total = _sum(total, term, f"total{number}")
    return left, total


def row_sums(left: te.Tensor, factor: te.Tensor, times: int, accumulator: str) -> te.Tensor:
    """``rows``: factor times the sum of each row of a, added `times` times, in every lane."""
    nb, kb, height, width, _, batch, block_in = left.shape
    k, i = te.reduce_axis(kb, "rk"), te.reduce_axis(block_in, "ri")
    t = te.reduce_axis(times, "rt")
    return te.compute(
        (nb, 1, height, width, 1, batch, factor.shape[1]),
        lambda n, oc, h, w, u, m, o: te.sum(
            left[n, k, h, w, u, m, i].astype(accumulator) * factor[oc, o, i].astype(accumulator),
            [t, k, i],
        ),
        "rows",
    )


def _columns(
    a: te.Tensor,
    right: te.Tensor,
    shape: tuple[int, ...],
    column: tuple[int, int],
    accumulator: str,
) -> te.Tensor:
    """``cols``: value times the sum of each row of b, some times; it is what lies above map a."""
    images, kb, _, _, block_in = right.shape
    nb, blocks, _, _, parts, batch, block_out = shape
    value, times = column
    share = nb // images
    outside = a.padded(value)
    constant = te.compute(
        (1, 1, 1, 1, 1, batch, block_in),
        lambda n, c, h, w, u, m, e: outside[n, c, h - 1, w, u, m, e],
        "constant",
    )
    k, i = te.reduce_axis(kb, "ck"), te.reduce_axis(block_in, "ci")
    t = te.reduce_axis(times, "ct")
    return te.compute(
        (nb, blocks, 1, 1, parts, batch, block_out),
        lambda n, oc, h, w, u, m, o: te.sum(
            constant[0, 0, h, w, 0, m, i].astype(accumulator)
            * right[n // share, k, oc * parts + u, o, i].astype(accumulator),
            [t, k, i],
        ),
        "cols",
    )


def _sum(total: te.Tensor, term: te.Tensor, name: str) -> te.Tensor:
    """Accumulators plus ``rows`` (equal for all channels) or ``cols`` (equal for all pixels)."""
    by_row = term.name == "rows"
    return te.compute(
        total.shape,
        lambda n, oc, h, w, u, m, o: (
            total[n, oc, h, w, u, m, o]
            + (term[n, 0, h, w, 0, m, o] if by_row else term[n, oc, 0, 0, u, m, o])
        ),
        name,
    )
