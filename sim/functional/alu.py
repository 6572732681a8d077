"""The tensor ALU as kernels: hardware loops and micro-ops, one row at a time, in order."""

from daedal.isa.lane import NumpyLane, reduce_lanes
from daedal.isa.numerics import requantize, saturate, wrap
from daedal.isa.table import AluOp, OutMemory
from daedal.native.intrinsic import intrinsic
from daedal.native.kernel import kernel
from daedal.native.types import Array, i64
from daedal.sim.functional.columns import AluColumn
from daedal.sim.functional.lane_text import operation_text, reduction_text, requantize_text
from daedal.sim.functional.machine import Machine
from daedal.sim.functional.shape import Shape
from daedal.sim.functional.transfers import wrapped

__all__ = ["alu"]


@intrinsic(operation_text)
def operation_part(
    operation: i64,
    acc: Array[i64],
    x_at: i64,
    y_at: i64,
    use_immediate: bool,
    immediate: i64,
    saturates: bool,
    to_acc: bool,
    out: Array[i64],
    dst_at: i64,
) -> None:
    """``dst[k] = op(acc[x + k], acc[y + k] or the immediate)`` for `Shape.lanes` elements."""
    formula = AluOp(operation).formula
    assert formula is not None, "those without have a function of their own"
    target, bits = (acc, Shape.acc_bits) if to_acc else (out, Shape.out_bits)
    for k in range(Shape.lanes):
        x = wrap(acc[x_at + k], 64)
        y = wrap(immediate if use_immediate else acc[y_at + k], 64)
        result = formula(NumpyLane(x, y, Shape.acc_bits))
        limited = saturate(result, Shape.out_bits) if saturates else result
        target[dst_at + k] = int(wrap(limited, bits))


@intrinsic(reduction_text)
def reduce_row(
    operation: i64,
    acc: Array[i64],
    y_at: i64,
    use_immediate: bool,
    immediate: i64,
    saturates: bool,
    to_acc: bool,
    out: Array[i64],
    dst_at: i64,
) -> None:
    """``dst[k] = op over all lanes of acc[y + l] or the immediate``, for one batch row."""
    formula = AluOp(operation).formula
    assert formula is not None, "it combines two lanes"
    target, bits = (acc, Shape.acc_bits) if to_acc else (out, Shape.out_bits)
    row = [immediate if use_immediate else acc[y_at + k] for k in range(Shape.block_out)]
    result = reduce_lanes(formula, wrap(row, 64), Shape.acc_bits)
    limited = wrap(saturate(result, Shape.out_bits) if saturates else result, bits)
    for k in range(Shape.block_out):
        target[dst_at + k] = int(limited[k])


@intrinsic(requantize_text)
def requantize_part(
    acc: Array[i64],
    src_at: i64,
    bias: Array[i64],
    multiplier: Array[i64],
    shift: Array[i64],
    par_at: i64,
    zero: i64,
    low: i64,
    high: i64,
    to_acc: bool,
    out: Array[i64],
    dst_at: i64,
) -> None:
    """``dst[k] = requantize(acc[src + k], parameters[par + k])`` for `Shape.lanes` elements."""
    target, bits = (acc, Shape.acc_bits) if to_acc else (out, Shape.out_bits)
    for k in range(Shape.lanes):
        p = par_at + k
        result = requantize(acc[src_at + k], bias[p], multiplier[p], shift[p], zero, low, high)
        target[dst_at + k] = int(wrap(result, bits))


@kernel
def look_up(m: Machine, table: i64, to_acc: bool, to: i64) -> None:
    """Replace a row of results by their entries of the table that begins at `table`."""
    for k in range(to, to + Shape.acc_row):
        if to_acc:
            m.acc[k] = m.tab[table + (m.acc[k] & Shape.table_entries - 1)]
        else:
            m.out[k] = wrapped(m.tab[table + (m.out[k] & Shape.table_entries - 1)], Shape.out_bits)


@kernel
def alu(m: Machine, at: i64) -> bool:
    """Run the ALU instruction at ``m.table[at]``; returns False, without effects, if illegal."""
    t = m.table
    operation = t[at + AluColumn.operation]
    use_immediate = t[at + AluColumn.use_immediate] != 0
    to_acc = t[at + AluColumn.destination] == OutMemory.ACC
    begin = t[at + AluColumn.uop_begin]
    end = t[at + AluColumn.uop_end]
    if Shape.operations >> operation & 1 == 0 or end > len(m.alu_uops):
        return False
    extent0 = t[at + AluColumn.extent0]
    extent1 = t[at + AluColumn.extent1]
    extent2 = t[at + AluColumn.extent2]
    if begin >= end or extent0 == 0 or extent1 == 0 or extent2 == 0:
        return True
    dst0 = t[at + AluColumn.dst_factor0]
    dst1 = t[at + AluColumn.dst_factor1]
    dst2 = t[at + AluColumn.dst_factor2]
    src0 = t[at + AluColumn.src_factor0]
    src1 = t[at + AluColumn.src_factor1]
    src2 = t[at + AluColumn.src_factor2]
    par0 = t[at + AluColumn.par_factor0]
    par1 = t[at + AluColumn.par_factor1]
    par2 = t[at + AluColumn.par_factor2]
    dst_base = t[at + AluColumn.dst_base]
    src_base = t[at + AluColumn.src_base]
    par_base = t[at + AluColumn.par_base]
    most_dst = 0
    most_src = 0
    most_par = 0
    for u in range(begin, end):
        word = m.alu_uops[u]
        most_dst = max(most_dst, word >> Shape.dst_shift & Shape.dst_mask)
        most_src = max(most_src, word >> Shape.src_shift & Shape.src_mask)
        most_par = max(most_par, word >> Shape.par_shift & Shape.par_mask)
    last0 = extent0 - 1
    last1 = extent1 - 1
    last2 = extent2 - 1
    reads_dst = (Shape.takes_x >> operation & 1) != 0 and not use_immediate
    limit = Shape.acc_depth if to_acc else Shape.out_depth
    if reads_dst:
        limit = min(limit, Shape.acc_depth)
    if most_dst + dst_base + last0 * dst0 + last1 * dst1 + last2 * dst2 >= limit:
        return False
    if most_src + src_base + last0 * src0 + last1 * src1 + last2 * src2 >= Shape.acc_depth:
        return False
    if most_par + par_base + last0 * par0 + last1 * par1 + last2 * par2 >= Shape.par_depth:
        return False
    requantizes = (Shape.requantizes >> operation & 1) != 0
    table = t[at + AluColumn.table] * Shape.table_entries
    if operation == AluOp.LOOKUP and table >= len(m.tab):
        return False
    immediate = t[at + AluColumn.immediate]
    saturates = t[at + AluColumn.saturate] != 0
    low = t[at + AluColumn.low]
    high = t[at + AluColumn.high]
    if t[at + AluColumn.wide] != 0:
        low = low << Shape.out_bits
        high = (high << Shape.out_bits) + (1 << Shape.out_bits) - 1
    over_lanes = (Shape.over_lanes >> operation & 1) != 0
    for k0 in range(extent0):
        for k1 in range(extent1):
            for k2 in range(extent2):
                dst = dst_base + k0 * dst0 + k1 * dst1 + k2 * dst2
                src = src_base + k0 * src0 + k1 * src1 + k2 * src2
                par = par_base + k0 * par0 + k1 * par1 + k2 * par2
                for u in range(begin, end):
                    word = m.alu_uops[u]
                    to = (dst + (word >> Shape.dst_shift & Shape.dst_mask)) * Shape.acc_row
                    y = (src + (word >> Shape.src_shift & Shape.src_mask)) * Shape.acc_row
                    x = to if reads_dst else y
                    parameters = par + (word >> Shape.par_shift & Shape.par_mask)
                    if over_lanes:
                        for k in range(0, Shape.acc_row, Shape.block_out):
                            reduce_row(
                                operation,
                                m.acc,
                                y + k,
                                use_immediate,
                                immediate,
                                saturates,
                                to_acc,
                                m.out,
                                to + k,
                            )
                        continue
                    for k in range(0, Shape.acc_row, Shape.lanes):
                        if requantizes:
                            requantize_part(
                                m.acc,
                                y + k,
                                m.bias,
                                m.multiplier,
                                m.shift,
                                parameters * Shape.block_out + k % Shape.block_out,
                                immediate,
                                low,
                                high,
                                to_acc,
                                m.out,
                                to + k,
                            )
                        else:
                            operation_part(
                                operation,
                                m.acc,
                                x + k,
                                y + k,
                                use_immediate,
                                immediate,
                                saturates,
                                to_acc,
                                m.out,
                                to + k,
                            )
                    if operation == AluOp.LOOKUP:
                        look_up(m, table, to_acc, to)
    return True
