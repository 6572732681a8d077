"""Softmax over the channels of blocked maps: `daedal.compiler.integer.softmax`, stage by stage."""

from daedal.compiler import te
from daedal.compiler.integer.softmax import EXP_ZERO_POINT, MASK_FACTOR
from daedal.compiler.ops.requantize import Bounds, requantized
from daedal.compiler.ops.row_stages import (
    combine,
    look_up,
    minus_leading_zeros,
    over_lanes,
    over_row,
    shift_right_by,
    widen,
    with_immediate,
)

__all__ = ["softmax"]


def softmax(
    x: te.Tensor,
    exp: te.Tensor,
    bits: te.Tensor,
    reciprocal: te.Tensor,
    steps: te.Tensor,
    params: te.Tensor,
    mask: te.Tensor | None = None,
    *,
    sum_bits: int,
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """``y``: the probabilities, int8.

    Parameters
    ----------
    x : (NB, CB, H, W, U, batch, lanes), int8, or int32 with values of 16 bits.
    exp, bits, reciprocal : tables (`daedal.compiler.graph.table_layout`), int16.
    steps : (2 + number of steps for the leading zeros, lanes, 3): the index into `exp`, those into
        `bits`, the index into `reciprocal`.
    params : (1, lanes, 3).
    mask : (NB, CB, 1, 1, U, batch, lanes) int8, 0 or, for padding, -128; None if there is none.
    """
    elements = widen(x, accumulator, "wide")
    if mask is not None:
        low = with_immediate("*", widen(mask, accumulator, "wide_mask"), MASK_FACTOR, "low_mask")
        elements = combine("+", elements, low, "masked")
    top = over_lanes(te.max, over_row(te.max, elements, "tops"), "top")
    distance = combine("-", elements, top, "distance")
    entries = look_up(distance, steps, 0, exp, "entries", EXP_ZERO_POINT)
    total = over_lanes(te.sum, over_row(te.sum, entries, "totals"), "total")
    count = steps.shape[0] - 2
    zeros = minus_leading_zeros(total, steps, 1, count, bits, "zeros")
    mantissa = shift_right_by(total, zeros, "mantissa")
    inverse = look_up(mantissa, steps, count + 1, reciprocal, "inverse")
    amount = with_immediate("+", zeros, sum_bits - 16, "amount")
    factor = shift_right_by(inverse, amount, "factor")
    return requantized(combine("*", entries, factor, "product"), params, bounds, "int8")
