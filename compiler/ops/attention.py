"""Attention on blocked maps, stage by stage: `compiler.integer.attention` after a matrix product.

Rows are the channels of one pixel (`daedal.compiler.ops.row_stages`).
"""

from daedal.compiler import te
from daedal.compiler.integer.attention import INDEX_BOUNDS, mean_shift
from daedal.compiler.ops.matmul import products, row_sums
from daedal.compiler.ops.requantize import Bounds, requantized
from daedal.compiler.ops.row_stages import (
    combine,
    last_blocks,
    look_up,
    minus_leading_zeros,
    over_lanes,
    over_row,
    shift_right_by,
    widen,
    with_immediate,
)

__all__ = ["attention_weights", "weighted_mean"]


def attention_weights(
    a: te.Tensor,
    b: te.Tensor,
    table: te.Tensor,
    params: te.Tensor,
    mask: te.Tensor | None = None,
    *,
    mask_factor: int,
    num_blocks: int,
    column: tuple[int, int],
    parts: int = 1,
    accumulator: str = "int32",
) -> te.Tensor:
    """``y``: the weights, int8 (NB, OB / U, H, W, U, 1, block_out).

    Parameters
    ----------
    a, b, num_blocks, column, parts : see `daedal.compiler.ops.matmul.products`: queries and keys.
    table : of the weights (`daedal.compiler.graph.table_layout`), int8.
    params : (1, block_out, 3), the index into it.
    mask : in the result's shape, with an extent of 1 for images, or for both H and W, that have
        the same: int8, which counts `mask_factor` times, or int32. One of fewer channel blocks is
        that of the last ones, and must be int32.
    """
    _, scores = products(
        a, b, num_blocks=num_blocks, column=column, parts=parts, accumulator=accumulator
    )
    if mask is not None:
        first = scores.shape[1] - mask.shape[1]
        added = (
            last_blocks(mask, first, "wide_mask")
            if first
            else widen(mask, accumulator, "wide_mask")
        )
        if mask.dtype == "int8":
            added = with_immediate("*", added, mask_factor, "low_mask")
        scores = combine("+", scores, added, "masked")
    top = over_lanes(te.max, over_row(te.max, scores, "tops"), "top")
    distance = combine("-", scores, top, "distance")
    return requantized(distance, params, Bounds(*INDEX_BOUNDS), "int8", table=table)


def weighted_mean(
    a: te.Tensor,
    b: te.Tensor,
    factor: te.Tensor,
    bits: te.Tensor,
    reciprocal: te.Tensor,
    steps: te.Tensor,
    params: te.Tensor,
    *,
    sum_bits: int,
    num_blocks: int,
    bounds: Bounds,
    parts: int = 1,
    accumulator: str = "int32",
) -> te.Tensor:
    """``y``: the means, int8 (NB, OB / U, H, W, U, 1, block_out).

    Parameters
    ----------
    a, b, num_blocks, parts : see `daedal.compiler.ops.matmul.products`: weights and values.
    factor : (1, block_out, block_in), ones.
    bits, reciprocal : tables (`daedal.compiler.graph.table_layout`), int16.
    steps : (number of steps for the leading zeros + 1, block_out, 3): the indices into the tables.
    params : (1, block_out, 3).
    """
    left, total = products(
        a, b, num_blocks=num_blocks, column=(0, 0), parts=parts, accumulator=accumulator
    )
    weights = row_sums(left, factor, 1, accumulator)
    count = steps.shape[0] - 1
    zeros = minus_leading_zeros(weights, steps, 0, count, bits, "zeros")
    mantissa = shift_right_by(weights, zeros, "mantissa")
    inverse = look_up(mantissa, steps, count, reciprocal, "inverse")
    amount = with_immediate("+", zeros, mean_shift(sum_bits), "amount")
    mean = combine("*", shift_right_by(total, amount, "normal"), inverse, "divided")
    return requantized(mean, params, bounds, "int8")
