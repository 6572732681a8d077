"""GEMM as kernels: hardware loops, micro-ops, dense and depthwise products."""

from daedal.isa.numerics import wrap
from daedal.isa.table import GemmMode
from daedal.native.intrinsic import intrinsic
from daedal.native.kernel import kernel
from daedal.native.types import Array, i16, i64
from daedal.sim.functional.columns import GemmColumn
from daedal.sim.functional.machine import Machine
from daedal.sim.functional.product_text import (
    ROWS,
    dense_rows_text,
    dense_text,
    depthwise_text,
)
from daedal.sim.functional.shape import Shape

__all__ = ["gemm"]

TAPS = sum(mode.taps << 4 * mode for mode in GemmMode)
"""The taps of each mode, four bits per mode; 0 for a mode without taps."""

LEVEL = GemmColumn.extent1 - GemmColumn.extent0
"""Distance in columns between the fields of one hardware loop and those of the next."""


@intrinsic(dense_text)
def dense_part(
    acc: Array[i64],
    acc_at: i64,
    inp: Array[i16],
    inp_at: i64,
    wgt: Array[i16],
    wgt_at: i64,
    restart: bool,
) -> None:
    """``acc[o] += sum_i inp[i] * wgt[o][i]`` for `Shape.lanes` outputs; from 0 if `restart`."""
    for lane in range(Shape.lanes):
        total = 0 if restart else acc[acc_at + lane]
        for i in range(2 * Shape.pairs):
            weight = wgt[wgt_at + (i // 2 * Shape.lanes + lane) * 2 + i % 2]
            total += inp[inp_at + i] * weight
        acc[acc_at + lane] = int(wrap(total, Shape.acc_bits))


@intrinsic(dense_rows_text)
def dense_rows(
    acc: Array[i64],
    acc_at: i64,
    acc_step: i64,
    inp: Array[i16],
    inp_at: i64,
    inp_step: i64,
    wgt: Array[i16],
    wgt_at: i64,
    restart: bool,
) -> None:
    """`dense_part` for `ROWS` rows that share the same weights."""
    for row in range(ROWS):
        for lane in range(Shape.lanes):
            at = acc_at + row * acc_step + lane
            total = 0 if restart else acc[at]
            for i in range(2 * Shape.pairs):
                weight = wgt[wgt_at + (i // 2 * Shape.lanes + lane) * 2 + i % 2]
                total += inp[inp_at + row * inp_step + i] * weight
            acc[at] = int(wrap(total, Shape.acc_bits))


@intrinsic(depthwise_text)
def depthwise_part(
    acc: Array[i64],
    acc_at: i64,
    inp: Array[i16],
    inp_at: i64,
    wgt: Array[i64],
    wgt_at: i64,
    restart: bool,
) -> None:
    """``acc[c] += inp[c] * wgt[c]`` for `Shape.lanes` channels; from 0 if `restart`."""
    for lane in range(Shape.lanes):
        kept = 0 if restart else acc[acc_at + lane]
        total = kept + inp[inp_at + lane] * wgt[wgt_at + lane]
        acc[acc_at + lane] = int(wrap(total, Shape.acc_bits))


@kernel
def dense(
    m: Machine,
    acc: i64,
    acc_step: i64,
    inp: i64,
    inp_step: i64,
    wgt: i64,
    count: i64,
    restart: bool,
) -> None:
    """`count` products (batch x block_in) by (block_in x block_out) with the same weight row.

    `acc` and `inp` are the first rows, `acc_step` and `inp_step` the distances to the next ones.
    """
    part_size = 2 * Shape.pairs * Shape.lanes
    acc_stride = acc_step * Shape.acc_row
    inp_stride = inp_step * Shape.inp_pairs
    together = count - count % ROWS
    for b in range(Shape.batch):
        inp_at = inp * Shape.inp_pairs + b * 2 * Shape.pairs
        for part in range(Shape.block_out // Shape.lanes):
            acc_at = acc * Shape.acc_row + b * Shape.block_out + part * Shape.lanes
            wgt_at = wgt * Shape.wgt_pairs + part * part_size
            for k in range(0, together, ROWS):
                dense_rows(
                    m.acc,
                    acc_at + k * acc_stride,
                    acc_stride,
                    m.inp_pairs,
                    inp_at + k * inp_stride,
                    inp_stride,
                    m.wgt_pairs,
                    wgt_at,
                    restart,
                )
            for k in range(together, count):
                dense_part(
                    m.acc,
                    acc_at + k * acc_stride,
                    m.inp_pairs,
                    inp_at + k * inp_stride,
                    m.wgt_pairs,
                    wgt_at,
                    restart,
                )


@kernel
def depthwise(m: Machine, acc: i64, inp: i64, wgt: i64, restart: bool) -> None:
    """One channel-wise product; `wgt` counts vectors of block_in weights."""
    for b in range(Shape.batch):
        for part in range(Shape.block_out // Shape.lanes):
            depthwise_part(
                m.acc,
                acc * Shape.acc_row + b * Shape.block_out + part * Shape.lanes,
                m.inp_pairs,
                inp * Shape.inp_pairs + b * 2 * Shape.pairs + part * Shape.lanes,
                m.wgt,
                wgt * Shape.block_in + part * Shape.lanes,
                restart,
            )


@kernel
def depthwise_loops(m: Machine, at: i64, taps: i64) -> None:
    """The products of a legal GEMM in a depthwise mode, in the order of the definition."""
    t = m.table
    overwrite = t[at + GemmColumn.overwrite] != 0
    acc0 = t[at + GemmColumn.acc_factor0]
    acc1 = t[at + GemmColumn.acc_factor1]
    acc2 = t[at + GemmColumn.acc_factor2]
    for k0 in range(t[at + GemmColumn.extent0]):
        for k1 in range(t[at + GemmColumn.extent1]):
            for k2 in range(t[at + GemmColumn.extent2]):
                acc = t[at + GemmColumn.acc_base] + k0 * acc0 + k1 * acc1 + k2 * acc2
                inp = t[at + GemmColumn.inp_base] + k0 * t[at + GemmColumn.inp_factor0]
                inp += k1 * t[at + GemmColumn.inp_factor1] + k2 * t[at + GemmColumn.inp_factor2]
                wgt = t[at + GemmColumn.wgt_base] + k0 * t[at + GemmColumn.wgt_factor0]
                wgt += k1 * t[at + GemmColumn.wgt_factor1] + k2 * t[at + GemmColumn.wgt_factor2]
                fresh = (
                    overwrite
                    and (k0 == 0 or acc0 != 0)
                    and (k1 == 0 or acc1 != 0)
                    and (k2 == 0 or acc2 != 0)
                )
                for u in range(t[at + GemmColumn.uop_begin], t[at + GemmColumn.uop_end]):
                    word = m.gemm_uops[u]
                    acc_row = acc + (word >> Shape.acc_shift & Shape.acc_mask)
                    inp_row = inp + (word >> Shape.inp_shift & Shape.inp_mask)
                    wgt_row = wgt + (word >> Shape.wgt_shift & Shape.wgt_mask)
                    restart = fresh and (word >> Shape.first_shift & 1) != 0
                    for tap in range(taps):
                        first = restart and tap == 0
                        depthwise(m, acc_row, inp_row + tap, wgt_row + tap, first)


@kernel
def apart(step: i64, count: i64, spread: i64, f0: i64, e0: i64, f1: i64, e1: i64) -> bool:
    """Whether iterations k of one loop, with row offset ``k * step``, never touch a common row.

    k is below `count`. Added to the offset are 0 to `spread` rows from the micro-ops, and the
    offsets of two other loops with factors f and extents e. Conservative: False if not obvious.
    """
    low = min(f0, f1)
    high = max(f0, f1)
    low_count = e0 if f0 < f1 else e1
    high_count = e1 if f0 < f1 else e0
    # Offsets of factors below one step must add up to less than a step; larger factors must exceed
    # the whole range.
    small = spread
    if low < step:
        small += low * (low_count - 1)
    if high < step:
        small += high * (high_count - 1)
    if small >= step:
        return False
    reach = step * (count - 1) + small
    if step <= low <= reach or step <= high <= reach:
        return False
    return low < step or high >= low * low_count


@kernel
def level_of_rows(m: Machine, at: i64, spread: i64) -> i64:
    """The longest loop that keeps the weights and may become the innermost one; -1: none.

    Sums do not depend on their order. If a product overwrites, the products of each row must keep
    their order; they do if every iteration of the loop goes to different rows.
    """
    t = m.table
    best = -1
    longest = 1
    for level in range(3):
        here = at + level * LEVEL
        extent = t[here + GemmColumn.extent0]
        step = t[here + GemmColumn.acc_factor0]
        if t[here + GemmColumn.wgt_factor0] == 0 and step != 0 and extent > longest:
            a = at + (level + 1) % 3 * LEVEL
            b = at + (level + 2) % 3 * LEVEL
            if t[at + GemmColumn.overwrite] == 0 or apart(
                step,
                extent,
                spread,
                t[a + GemmColumn.acc_factor0] if t[a + GemmColumn.extent0] > 1 else 0,
                t[a + GemmColumn.extent0],
                t[b + GemmColumn.acc_factor0] if t[b + GemmColumn.extent0] > 1 else 0,
                t[b + GemmColumn.extent0],
            ):
                longest = extent
                best = level
    return best


@kernel
def pair_results(m: Machine, first: i64, count: i64) -> None:
    """Copy `count` rows of OUT behind the paired copies of INP. A row has at least two elements
    of a vector, as the array is square and a row of weights fills a bus word."""
    into = (Shape.inp_depth + first) * Shape.inp_pairs
    begin = first * Shape.inp_row
    for k in range(count * Shape.inp_row):
        m.inp_pairs[into + k] = m.out[begin + k]


@kernel
def dense_loops(m: Machine, at: i64, spread: i64, operand: i64) -> None:
    """The products of a legal dense GEMM; its micro-ops' accumulator rows differ by up to `spread`,
    and its operands begin at row `operand` of the paired copies.

    The loop chosen by `level_of_rows` runs inside `dense`; the others, x outside y, keep their
    order.
    """
    t = m.table
    level = level_of_rows(m, at, spread)
    x = at if level != 0 else at + LEVEL
    y = at + LEVEL if level < 0 or level == 2 else at + 2 * LEVEL
    z = at + level * LEVEL if level >= 0 else at + 2 * LEVEL
    x_acc = t[x + GemmColumn.acc_factor0]
    y_acc = t[y + GemmColumn.acc_factor0]
    z_acc = t[z + GemmColumn.acc_factor0]
    z_inp = t[z + GemmColumn.inp_factor0]
    z_extent = t[z + GemmColumn.extent0]
    together = z_extent if level >= 0 else 1
    overwrite = t[at + GemmColumn.overwrite] != 0
    for kx in range(t[x + GemmColumn.extent0]):
        for ky in range(t[y + GemmColumn.extent0]):
            for kz in range(0, z_extent, together):
                acc = t[at + GemmColumn.acc_base] + kx * x_acc + ky * y_acc + kz * z_acc
                inp = operand + t[at + GemmColumn.inp_base] + kx * t[x + GemmColumn.inp_factor0]
                inp += ky * t[y + GemmColumn.inp_factor0] + kz * z_inp
                wgt = t[at + GemmColumn.wgt_base] + kx * t[x + GemmColumn.wgt_factor0]
                wgt += ky * t[y + GemmColumn.wgt_factor0] + kz * t[z + GemmColumn.wgt_factor0]
                fresh = (
                    overwrite
                    and (kx == 0 or x_acc != 0)
                    and (ky == 0 or y_acc != 0)
                    and (kz == 0 or z_acc != 0)
                )
                for u in range(t[at + GemmColumn.uop_begin], t[at + GemmColumn.uop_end]):
                    word = m.gemm_uops[u]
                    dense(
                        m,
                        acc + (word >> Shape.acc_shift & Shape.acc_mask),
                        z_acc,
                        inp + (word >> Shape.inp_shift & Shape.inp_mask),
                        z_inp,
                        wgt + (word >> Shape.wgt_shift & Shape.wgt_mask),
                        together,
                        fresh and (word >> Shape.first_shift & 1) != 0,
                    )


@kernel
def gemm(m: Machine, at: i64) -> bool:
    """Run the GEMM whose fields begin at ``m.table[at]``; returns False, without effects, if
    illegal."""
    t = m.table
    mode = t[at + GemmColumn.mode]
    taps = TAPS >> 4 * mode & 15
    from_out = mode == GemmMode.DENSE_OUT
    if taps == 0 and mode != GemmMode.DENSE and not from_out:
        return False
    if from_out and Shape.operand_depth == Shape.inp_depth:
        return False
    if taps > 0 and Shape.block_in != Shape.block_out:
        return False
    begin = t[at + GemmColumn.uop_begin]
    end = t[at + GemmColumn.uop_end]
    if end > len(m.gemm_uops):
        return False
    extent0 = t[at + GemmColumn.extent0]
    extent1 = t[at + GemmColumn.extent1]
    extent2 = t[at + GemmColumn.extent2]
    if begin >= end or extent0 == 0 or extent1 == 0 or extent2 == 0:
        return True
    acc0 = t[at + GemmColumn.acc_factor0]
    acc1 = t[at + GemmColumn.acc_factor1]
    acc2 = t[at + GemmColumn.acc_factor2]
    inp0 = t[at + GemmColumn.inp_factor0]
    inp1 = t[at + GemmColumn.inp_factor1]
    inp2 = t[at + GemmColumn.inp_factor2]
    wgt0 = t[at + GemmColumn.wgt_factor0]
    wgt1 = t[at + GemmColumn.wgt_factor1]
    wgt2 = t[at + GemmColumn.wgt_factor2]
    acc_base = t[at + GemmColumn.acc_base]
    inp_base = t[at + GemmColumn.inp_base]
    wgt_base = t[at + GemmColumn.wgt_base]
    least_acc = Shape.acc_mask
    most_acc = 0
    least_inp = Shape.inp_mask
    most_inp = 0
    most_wgt = 0
    for u in range(begin, end):
        word = m.gemm_uops[u]
        acc_offset = word >> Shape.acc_shift & Shape.acc_mask
        least_acc = min(least_acc, acc_offset)
        most_acc = max(most_acc, acc_offset)
        inp_offset = word >> Shape.inp_shift & Shape.inp_mask
        least_inp = min(least_inp, inp_offset)
        most_inp = max(most_inp, inp_offset)
        most_wgt = max(most_wgt, word >> Shape.wgt_shift & Shape.wgt_mask)
    last0 = extent0 - 1
    last1 = extent1 - 1
    last2 = extent2 - 1
    vectors = Shape.block_out if taps > 0 else 1
    depth = Shape.operand_depth - Shape.inp_depth if from_out else Shape.inp_depth
    inp_limit = depth - max(0, taps - 1)
    if most_acc + acc_base + last0 * acc0 + last1 * acc1 + last2 * acc2 >= Shape.acc_depth:
        return False
    most_inp += inp_base + last0 * inp0 + last1 * inp1 + last2 * inp2
    if most_inp >= inp_limit:
        return False
    farthest = most_wgt + wgt_base + last0 * wgt0 + last1 * wgt1 + last2 * wgt2
    if farthest >= Shape.wgt_depth * vectors:
        return False
    if taps > 1:
        for k0 in range(extent0):
            for k1 in range(extent1):
                for k2 in range(extent2):
                    wgt = wgt_base + k0 * wgt0 + k1 * wgt1 + k2 * wgt2
                    for u in range(begin, end):
                        vector = wgt + (m.gemm_uops[u] >> Shape.wgt_shift & Shape.wgt_mask)
                        # All taps of a product lie in one weight row.
                        if vector % Shape.block_out + taps > Shape.block_out:
                            return False
    if taps > 0:
        depthwise_loops(m, at, taps)
    elif from_out:
        first = inp_base + least_inp
        pair_results(m, first, most_inp + 1 - first)
        dense_loops(m, at, most_acc - least_acc, Shape.inp_depth)
    else:
        dense_loops(m, at, most_acc - least_acc, 0)
    return True
