"""Layer norm and RMS norm over the channels of blocked maps, stage by stage.

`compiler.integer.norms` defines the arithmetic.
"""

from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.ops.requantize import Bounds, requantized
from daedal.compiler.ops.row_stages import (
    combine,
    count_above,
    each,
    look_up,
    over_lanes,
    over_row,
    requantize_wide,
    shift_right_by,
    widen,
    with_immediate,
)
from daedal.compiler.tir.expr import Expr

__all__ = ["NormShifts", "norm"]


@dataclass(frozen=True)
class NormShifts:
    """Immediates of a norm, those of `daedal.compiler.integer.norms.Norm`."""

    centred: bool
    zero_point: int
    fraction_bits: int
    square_shift: int
    spare_shift: int
    epsilon: int


def norm(
    x: te.Tensor,
    low: te.Tensor,
    high: te.Tensor,
    steps: te.Tensor,
    params: te.Tensor,
    signs: te.Tensor | None = None,
    *,
    shifts: NormShifts,
    padded: bool,
    bounds: Bounds,
    accumulator: str = "int32",
) -> te.Tensor:
    """``y``: the norm, of 8 bits or wide by `bounds`.

    Parameters
    ----------
    x : (NB, CB, H, W, U, batch, lanes), int8, or int32 with values of 16 bits.
    low, high : tables (`daedal.compiler.graph.table_layout`), int16.
    steps : (3 + rows of thresholds, lanes, 3): the mean, the thresholds, each in a lane, the
        indices into `low` and `high`.
    params : (CB * U, lanes, 3).
    signs : (NB, CB, 1, 1, U, batch, lanes) int8, -1 for a negative gain, 0 for padding, else 1.
    padded : whether there is padding, which the mean must not count; needs `signs`.
    """
    d = widen(x, accumulator, "wide")
    if not shifts.centred and shifts.zero_point:
        d = with_immediate("-", d, shifts.zero_point, "from_zero")
    if shifts.fraction_bits:
        d = with_immediate("*", d, 1 << shifts.fraction_bits, "scaled")
    factor = None if signs is None else widen(signs, accumulator, "wide_signs")
    if shifts.centred:
        if padded and signs is not None:
            present = each(widen(signs, accumulator, "wide_present"), _square, "present")
            d = combine("*", d, present, "counted")
        total = over_lanes(te.sum, over_row(te.sum, d, "totals"), "total")
        d = combine("-", d, requantize_wide(total, steps, 0, "mean"), "deviation")
    if factor is not None:
        d = combine("*", d, factor, "signed")
    rounded = shift_right_by(d, shifts.square_shift, "rounded")
    squares = each(rounded, _square, "squares")
    power = over_lanes(te.sum, over_row(te.sum, squares, "powers"), "power")
    power = with_immediate("+", power, shifts.epsilon, "variance")
    count = steps.shape[0] - 3
    half = count_above(power, steps, 1, count, "half")
    mantissa = shift_right_by(power, with_immediate("*", half, 2, "even"), "mantissa")
    root_low = look_up(mantissa, steps, count + 1, low, "root_low")
    root_high = look_up(mantissa, steps, count + 2, high, "root_high")
    root = combine("+", root_low, root_high, "root")
    amount = with_immediate("+", half, shifts.square_shift + shifts.spare_shift, "amount")
    z = combine("*", shift_right_by(d, amount, "normal"), root, "product")
    return requantized(z, params, bounds, bounds.dtype(accumulator))


def _square(value: Expr) -> Expr:
    return value * value
