"""GEMM as kernels: hardware loops, micro-ops, dense and depthwise products."""

from daedal.isa.numerics import wrap
from daedal.isa.table import GemmMode
from daedal.native.intrinsic import intrinsic
from daedal.native.kernel import kernel
from daedal.native.types import Array, i16, i64
from daedal.sim.functional.columns import GemmColumn
from daedal.sim.functional.machine import Machine
from daedal.sim.functional.product_text import dense_text, depthwise_text
from daedal.sim.functional.shape import Shape

__all__ = ["gemm"]

TAPS = sum(mode.taps << 4 * mode for mode in GemmMode)
"""Four bits per mode: its taps, 0 where it has none."""


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
def dense(m: Machine, acc: i64, inp: i64, wgt: i64, restart: bool) -> None:
    """One product of rows: (batch x block_in) by (block_in x block_out)."""
    part_size = 2 * Shape.pairs * Shape.lanes
    for b in range(Shape.batch):
        for part in range(Shape.block_out // Shape.lanes):
            dense_part(
                m.acc,
                acc * Shape.acc_row + b * Shape.block_out + part * Shape.lanes,
                m.inp_pairs,
                inp * Shape.inp_pairs + b * 2 * Shape.pairs,
                m.wgt_pairs,
                wgt * Shape.wgt_pairs + part * part_size,
                restart,
            )


@kernel
def depthwise(m: Machine, acc: i64, inp: i64, wgt: i64, restart: bool) -> None:
    """One product channel by channel; `wgt` counts vectors of block_in weights."""
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
def gemm(m: Machine, at: i64) -> bool:
    """Run the GEMM whose fields begin at ``m.table[at]``; False, and nothing done, if illegal."""
    t = m.table
    mode = t[at + GemmColumn.mode]
    taps = TAPS >> 4 * mode & 15
    if taps == 0 and mode != GemmMode.DENSE:
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
    most_acc = 0
    most_inp = 0
    most_wgt = 0
    for u in range(begin, end):
        word = m.gemm_uops[u]
        most_acc = max(most_acc, word >> Shape.acc_shift & Shape.acc_mask)
        most_inp = max(most_inp, word >> Shape.inp_shift & Shape.inp_mask)
        most_wgt = max(most_wgt, word >> Shape.wgt_shift & Shape.wgt_mask)
    last0 = extent0 - 1
    last1 = extent1 - 1
    last2 = extent2 - 1
    vectors = Shape.block_out if taps > 0 else 1
    inp_limit = Shape.inp_depth - max(0, taps - 1)
    if most_acc + acc_base + last0 * acc0 + last1 * acc1 + last2 * acc2 >= Shape.acc_depth:
        return False
    if most_inp + inp_base + last0 * inp0 + last1 * inp1 + last2 * inp2 >= inp_limit:
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
    overwrite = t[at + GemmColumn.overwrite] != 0
    for k0 in range(extent0):
        for k1 in range(extent1):
            for k2 in range(extent2):
                acc = acc_base + k0 * acc0 + k1 * acc1 + k2 * acc2
                inp = inp_base + k0 * inp0 + k1 * inp1 + k2 * inp2
                wgt = wgt_base + k0 * wgt0 + k1 * wgt1 + k2 * wgt2
                fresh = (
                    overwrite
                    and (k0 == 0 or acc0 != 0)
                    and (k1 == 0 or acc1 != 0)
                    and (k2 == 0 or acc2 != 0)
                )
                for u in range(begin, end):
                    word = m.gemm_uops[u]
                    acc_row = acc + (word >> Shape.acc_shift & Shape.acc_mask)
                    inp_row = inp + (word >> Shape.inp_shift & Shape.inp_mask)
                    wgt_row = wgt + (word >> Shape.wgt_shift & Shape.wgt_mask)
                    restart = fresh and (word >> Shape.first_shift & 1) != 0
                    if taps == 0:
                        dense(m, acc_row, inp_row, wgt_row, restart)
                    for tap in range(taps):
                        first = restart and tap == 0
                        depthwise(m, acc_row, inp_row + tap, wgt_row + tap, first)
    return True
