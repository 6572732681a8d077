"""LOAD and STORE as kernels: strided, padded tiles between memory and the scratchpads."""

from daedal.isa.table import LoadMemory, OutMemory
from daedal.native.intrinsic import intrinsic
from daedal.native.kernel import kernel
from daedal.native.types import Array, i16, i64
from daedal.sim.functional.columns import LoadColumn, StoreColumn
from daedal.sim.functional.machine import Machine
from daedal.sim.functional.pair_text import pair_text
from daedal.sim.functional.shape import Shape

__all__ = ["load", "pair_up", "store"]

WORD_BYTES = 8
"""Bases must be multiples of this, so that no element straddles two elements of a memory view."""


@kernel
def wrapped(value: i64, bits: i64) -> i64:
    """`isa.numerics.wrap`."""
    return i64(value << 64 - bits) >> 64 - bits


@kernel
def element(m: Machine, at: i64, k: i64, bits: i64) -> i64:
    """Signed element `k` of an array of `bits`-bit elements that begins at byte `at`."""
    if bits == 4:
        pair = m.memory8[at + (k >> 1)]
        return wrapped(pair >> (k & 1) * 4, 4)
    if bits == 8:
        return m.memory8[at + k]
    if bits == 16:
        return m.memory16[(at >> 1) + k]
    if bits == 32:
        return m.memory32[(at >> 2) + k]
    return m.memory64[(at >> 3) + k]


@kernel
def packed_bits(m: Machine, at: i64, offset: i64, width: i64) -> i64:
    """Unsigned field of `width` bits, at most 63, of the entry at byte `at`; bit 0 is lowest."""
    word = (at >> 3) + (offset >> 6)
    shift = offset & 63
    low = m.memory64[word] >> shift & ((1 << 64 - shift) - 1 if shift > 0 else -1)
    if shift + width > 64:
        low |= m.memory64[word + 1] << 64 - shift
    return low & (1 << width) - 1


@kernel
def pair_inputs(m: Machine, first: i64, count: i64) -> None:
    """Update the paired copies of `count` INP rows."""
    if Shape.block_in > 1:
        # The copy has the elements in the same order.
        begin = first * Shape.inp_row
        for k in range(begin, begin + count * Shape.inp_row):
            m.inp_pairs[k] = m.inp[k]
    else:
        for k in range(first * Shape.inp_row, (first + count) * Shape.inp_row):
            m.inp_pairs[2 * k] = m.inp[k]


@intrinsic(pair_text)
def pair_part(
    wgt: Array[i64],
    wgt_at: i64,
    pairs: Array[i16],
    pairs_at: i64,
) -> None:
    """Update the paired copy of one part of a WGT row."""
    for lane in range(Shape.lanes):
        for i in range(Shape.block_in):
            pair = i // 2 * Shape.lanes + lane
            pairs[pairs_at + 2 * pair + i % 2] = wgt[wgt_at + lane * Shape.block_in + i]


@kernel
def pair_weights(m: Machine, row: i64) -> None:
    """Update the paired copy of one WGT row."""
    for part in range(Shape.block_out // Shape.lanes):
        pair_part(
            m.wgt,
            row * Shape.wgt_row + part * Shape.lanes * Shape.block_in,
            m.wgt_pairs,
            row * Shape.wgt_pairs + part * 2 * Shape.pairs * Shape.lanes,
        )


@kernel
def pair_up(m: Machine) -> None:
    """Rebuild both paired copies from the state."""
    pair_inputs(m, 0, Shape.inp_depth)
    for row in range(Shape.wgt_depth):
        pair_weights(m, row)


@kernel
def load_parameters(m: Machine, row: i64, at: i64) -> None:
    """Load one PAR row from byte `at`."""
    size = Shape.par_memory_bits // 8
    m_offset = Shape.acc_bits
    s_offset = Shape.acc_bits + Shape.multiplier_bits
    for k in range(Shape.block_out):
        to = row * Shape.block_out + k
        m.bias[to] = wrapped(packed_bits(m, at + k * size, 0, Shape.acc_bits), Shape.acc_bits)
        m.multiplier[to] = packed_bits(m, at + k * size, m_offset, Shape.multiplier_bits)
        m.shift[to] = packed_bits(m, at + k * size, s_offset, Shape.shift_bits)


@kernel
def load_weights(m: Machine, first: i64, count: i64, at: i64, bits: i64) -> None:
    """Load `count` WGT rows, from row `first` on, of `bits`-bit weights from byte `at`."""
    for row in range(first, first + count):
        begin = (row - first) * Shape.wgt_row
        for k in range(Shape.wgt_row):
            m.wgt[row * Shape.wgt_row + k] = element(m, at, begin + k, bits)
        pair_weights(m, row)


@kernel
def load_rows(m: Machine, memory: i64, first: i64, count: i64, at: i64) -> None:
    """Load `count` rows, from row `first` on, from dense memory at byte `at`."""
    if memory == LoadMemory.INP:
        # A row has a whole number of bytes.
        for k in range(count * Shape.inp_row):
            m.inp[first * Shape.inp_row + k] = element(m, at, k, Shape.inp_bits)
        pair_inputs(m, first, count)
    elif memory == LoadMemory.WGT:
        load_weights(m, first, count, at, Shape.wgt_bits)
    elif memory == LoadMemory.WGT_NARROW:
        load_weights(m, first, count, at, Shape.narrow_wgt_bits)
    elif memory == LoadMemory.ACC:
        for k in range(count * Shape.acc_row):
            value = element(m, at, k, Shape.acc_memory_bits)
            m.acc[first * Shape.acc_row + k] = wrapped(value, Shape.acc_bits)
    elif memory == LoadMemory.ACC_NARROW:
        for k in range(count * Shape.acc_row):
            m.acc[first * Shape.acc_row + k] = element(m, at, k, Shape.inp_bits)
    elif memory == LoadMemory.PAR:
        size = Shape.block_out * Shape.par_memory_bits // 8
        for row in range(count):
            load_parameters(m, first + row, at + row * size)
    elif memory == LoadMemory.UOP_GEMM:
        for k in range(count * Shape.uops_per_row):
            m.gemm_uops[first * Shape.uops_per_row + k] = m.memory64[(at >> 3) + k]
    elif memory == LoadMemory.TAB:
        for k in range(count * Shape.tab_row):
            m.tab[first * Shape.tab_row + k] = element(m, at, k, Shape.tab_bits)
    else:
        for k in range(count * Shape.uops_per_row):
            m.alu_uops[first * Shape.uops_per_row + k] = m.memory64[(at >> 3) + k]


@kernel
def pad_rows(m: Machine, memory: i64, first: i64, count: i64, value: i64) -> None:
    """Fill `count` rows, from row `first` on, with the pad value."""
    if memory == LoadMemory.INP:
        kept = wrapped(value, Shape.inp_bits)
        for k in range(first * Shape.inp_row, (first + count) * Shape.inp_row):
            m.inp[k] = kept
        pair_inputs(m, first, count)
    else:
        for k in range(count * Shape.acc_row):
            m.acc[first * Shape.acc_row + k] = value


@kernel
def loaded_depth(memory: i64) -> i64:
    """Rows of a LOAD's scratchpad; 0 for an invalid code."""
    if memory == LoadMemory.INP:
        return Shape.inp_depth
    if memory == LoadMemory.WGT:
        return Shape.wgt_depth
    if memory == LoadMemory.WGT_NARROW:
        return Shape.wgt_depth if Shape.narrow_wgt_bits > 0 else 0
    if memory == LoadMemory.ACC or memory == LoadMemory.ACC_NARROW:
        return Shape.acc_depth
    if memory == LoadMemory.PAR:
        return Shape.par_depth
    if memory == LoadMemory.UOP_GEMM:
        return Shape.gemm_uop_depth
    if memory == LoadMemory.TAB:
        return Shape.tab_depth
    return Shape.alu_uop_depth if memory == LoadMemory.UOP_ALU else 0


@kernel
def loaded_bytes(memory: i64) -> i64:
    """Bytes of one row of a LOAD in memory."""
    if memory == LoadMemory.INP:
        return Shape.inp_row * Shape.inp_bits // 8
    if memory == LoadMemory.WGT:
        return Shape.wgt_row * Shape.wgt_bits // 8
    if memory == LoadMemory.WGT_NARROW:
        return Shape.wgt_row * Shape.narrow_wgt_bits // 8
    if memory == LoadMemory.ACC:
        return Shape.acc_row * Shape.acc_memory_bits // 8
    if memory == LoadMemory.ACC_NARROW:
        return Shape.acc_row * Shape.inp_bits // 8
    if memory == LoadMemory.PAR:
        return Shape.block_out * Shape.par_memory_bits // 8
    if memory == LoadMemory.TAB:
        return Shape.tab_row * Shape.tab_bits // 8
    return Shape.uops_per_row * WORD_BYTES


@kernel
def load(m: Machine, at: i64) -> bool:
    """Run the LOAD at ``m.table[at]``; returns False, without effects, if it cannot.

    It cannot if the LOAD is illegal, or its base is not a multiple of `WORD_BYTES`.
    """
    t = m.table
    memory = t[at + LoadColumn.memory]
    if loaded_depth(memory) == 0:
        return False
    blocks = t[at + LoadColumn.blocks]
    rows = t[at + LoadColumn.rows]
    cols = t[at + LoadColumn.cols]
    top = t[at + LoadColumn.pad_top]
    left = t[at + LoadColumn.pad_left]
    height = top + rows + t[at + LoadColumn.pad_bottom]
    width = left + cols + t[at + LoadColumn.pad_right]
    row_bytes = loaded_bytes(memory)
    paddable = (
        memory == LoadMemory.INP or memory == LoadMemory.ACC or memory == LoadMemory.ACC_NARROW
    )
    if height - rows + width - cols > 0 and not paddable:
        return False
    row = t[at + LoadColumn.row]
    if row + blocks * height * width > loaded_depth(memory):
        return False
    base = m.bases[t[at + LoadColumn.base]]
    begin = base + t[at + LoadColumn.offset_beats] * Shape.bus_bytes
    row_stride = t[at + LoadColumn.row_stride_beats] * Shape.bus_bytes
    block_stride = t[at + LoadColumn.block_stride_beats] * Shape.bus_bytes
    if blocks > 0 and rows > 0 and cols > 0:
        last = begin + (blocks - 1) * block_stride + (rows - 1) * row_stride + cols * row_bytes
        if base < 0 or base % WORD_BYTES != 0 or last > len(m.memory8):
            return False
        if last - base > m.region_words[t[at + LoadColumn.base]] * Shape.bus_bytes:
            return False
    value = t[at + LoadColumn.pad_value]
    for block in range(blocks):
        for y in range(height):
            if top <= y < top + rows:
                pad_rows(m, memory, row, left, value)
                start = begin + block * block_stride + (y - top) * row_stride
                load_rows(m, memory, row + left, cols, start)
                pad_rows(m, memory, row + left + cols, width - left - cols, value)
            else:
                pad_rows(m, memory, row, width, value)
            row += width
    return True


@kernel
def put_element(m: Machine, at: i64, k: i64, bits: i64, value: i64) -> None:
    """The inverse of `element`: stores the low bits of `value`."""
    if bits == 4:
        shift = (k & 1) * 4
        rest = m.memory8[at + (k >> 1)] & (0xF0 >> shift)
        m.memory8[at + (k >> 1)] = rest | (value & 0xF) << shift
    elif bits == 8:
        m.memory8[at + k] = value
    elif bits == 16:
        m.memory16[(at >> 1) + k] = value
    elif bits == 32:
        m.memory32[(at >> 2) + k] = value
    else:
        m.memory64[(at >> 3) + k] = value


@kernel
def store(m: Machine, at: i64) -> bool:
    """Run the STORE at ``m.table[at]``; returns False, without effects, where `load` does."""
    t = m.table
    blocks = t[at + StoreColumn.blocks]
    rows = t[at + StoreColumn.rows]
    cols = t[at + StoreColumn.cols]
    row = t[at + StoreColumn.row]
    from_acc = t[at + StoreColumn.memory] == OutMemory.ACC
    bits = Shape.acc_memory_bits if from_acc else Shape.out_bits
    row_bytes = Shape.acc_row * bits // 8
    if row + blocks * rows * cols > (Shape.acc_depth if from_acc else Shape.out_depth):
        return False
    if blocks == 0 or rows == 0 or cols == 0:
        return True
    base = m.bases[t[at + StoreColumn.base]]
    begin = base + t[at + StoreColumn.offset_beats] * Shape.bus_bytes
    row_stride = t[at + StoreColumn.row_stride_beats] * Shape.bus_bytes
    block_stride = t[at + StoreColumn.block_stride_beats] * Shape.bus_bytes
    last = begin + (blocks - 1) * block_stride + (rows - 1) * row_stride + cols * row_bytes
    if base < 0 or base % WORD_BYTES != 0 or last > len(m.memory8):
        return False
    if last - base > m.region_words[t[at + StoreColumn.base]] * Shape.bus_bytes:
        return False
    for block in range(blocks):
        for y in range(rows):
            start = begin + block * block_stride + y * row_stride
            first = row * Shape.acc_row
            if from_acc:
                for k in range(cols * Shape.acc_row):
                    put_element(m, start, k, Shape.acc_memory_bits, m.acc[first + k])
            else:
                for k in range(cols * Shape.acc_row):
                    put_element(m, start, k, Shape.out_bits, m.out[first + k])
            row += cols
    return True
