"""Expands hardware loops and micro-ops without data: banks of GEMM products, rows of ALU vectors.

`isa.microcode.expand` is the definition; a test compares the two.
"""

from daedal.native.kernel import kernel
from daedal.native.record import record
from daedal.native.types import Array, i32, i64, u8, u64
from daedal.sim.timing.state import ALU, GEMM, LOAD, Plan

__all__ = ["GOOD", "NO_UOPS", "Loops", "expand_program"]

GOOD = -1
NO_UOPS = 0
"""Value of `Loops.largest` for micro-ops that do not exist."""


@record
class Loops:
    """Loop nests by instruction, and the memory that micro-ops are loaded from.

    Elements 3 i to 3 i + 2 of `extents` and the factors are the three loops of instruction i. `row`
    is the accumulator row of GEMM and the destination of the ALU, `source` the ALU's source.
    """

    begin: Array[i64]
    end: Array[i64]
    extents: Array[i64]
    row_base: Array[i64]
    row_factors: Array[i64]
    source_base: Array[i64]
    source_factors: Array[i64]
    uop_memory: Array[i64]
    """LOAD: the unit whose micro-ops it loads, or -1."""
    row_limit: Array[i64]
    operand_base: Array[i64]
    """Elements 2 i and 2 i + 1: INP and WGT of a GEMM, PAR of an ALU and one that is 0."""
    operand_factors: Array[i64]
    """Elements 6 i to 6 i + 2 for the first of them, 6 i + 3 to 6 i + 5 for the second."""
    operand_limit: Array[i64]
    operand_shift: Array[i64]
    operand_mask: Array[i64]

    memory: Array[u64]

    bus_words: i64 = 1
    """Micro-ops per bus word."""
    row_mask: i64 = 0
    target_mask: i64 = 0
    target_shift: i64 = 0
    source_mask: i64 = 0
    source_shift: i64 = 0
    source_limit: i64 = 0
    largest: i64 = 0
    """Largest row of a refused instruction, or NO_UOPS."""


@kernel
def _load(p: Plan, s: Loops, i: i64, uops: Array[u64]) -> bool:
    """Load micro-ops from memory; returns whether source and destination exist."""
    size = p.cols[i] * p.row_words[i] * s.bus_words
    at = p.first_row[i] * p.row_words[i] * s.bus_words
    for block in range(p.blocks[i]):
        for row in range(p.rows[i]):
            begin = p.address[i] + block * p.block_stride[i] + row * p.row_stride[i]
            begin *= s.bus_words
            if begin + size > len(s.memory) or at + size > len(uops):
                return False
            for k in range(size):
                uops[at + k] = s.memory[begin + k]
            at += size
    return True


@kernel
def _banks(p: Plan, s: Loops, i: i64, uops: Array[u64], out: Array[u8]) -> i64:
    """Banks of the accumulator rows of a GEMM; returns the largest row."""
    at = p.step_at[i]
    largest = 0
    low = (1 << p.bank_bits) - 1
    for k0 in range(s.extents[3 * i]):
        row0 = s.row_base[i] + k0 * s.row_factors[3 * i]
        for k1 in range(s.extents[3 * i + 1]):
            row1 = row0 + k1 * s.row_factors[3 * i + 1]
            for k2 in range(s.extents[3 * i + 2]):
                row2 = row1 + k2 * s.row_factors[3 * i + 2]
                for uop in range(s.begin[i], s.end[i]):
                    row = row2 + (uops[uop] & s.row_mask)
                    largest = max(largest, row)
                    out[at] = (row & low) | (row >> p.top_bit & 1) << p.bank_bits
                    at += 1
    return largest


@kernel
def _rows(p: Plan, s: Loops, i: i64, uops: Array[u64], target: bool, out: Array[i32]) -> i64:
    """Destinations or sources of an ALU instruction; returns the largest."""
    at = p.step_at[i]
    base = s.row_base[i] if target else s.source_base[i]
    shift = s.target_shift if target else s.source_shift
    mask = s.target_mask if target else s.source_mask
    f0 = s.row_factors[3 * i] if target else s.source_factors[3 * i]
    f1 = s.row_factors[3 * i + 1] if target else s.source_factors[3 * i + 1]
    f2 = s.row_factors[3 * i + 2] if target else s.source_factors[3 * i + 2]
    largest = 0
    for k0 in range(s.extents[3 * i]):
        for k1 in range(s.extents[3 * i + 1]):
            for k2 in range(s.extents[3 * i + 2]):
                offset = base + k0 * f0 + k1 * f1 + k2 * f2
                for uop in range(s.begin[i], s.end[i]):
                    row = offset + (uops[uop] >> shift & mask)
                    largest = max(largest, row)
                    out[at] = row
                    at += 1
    return largest


@kernel
def _operand(s: Loops, i: i64, uops: Array[u64], which: i64) -> i64:
    """The largest row of an operand that costs no cycles of its own."""
    j = 2 * i + which
    last = 0
    for uop in range(s.begin[i], s.end[i]):
        last = max(last, uops[uop] >> s.operand_shift[j] & s.operand_mask[j])
    for k in range(3):
        last += (s.extents[3 * i + k] - 1) * s.operand_factors[3 * j + k]
    return s.operand_base[j] + last


@kernel
def expand_program(
    p: Plan,
    s: Loops,
    gemm_uops: Array[u64],
    alu_uops: Array[u64],
    banks: Array[u8],
    sources: Array[i32],
    targets: Array[i32],
) -> i64:
    """Fill `banks`, `sources` and `targets` in program order.

    Returns GOOD, or the number of the first instruction whose rows or micro-ops do not exist.
    """
    for i in range(len(p.unit)):
        unit = p.unit[i]
        if unit == LOAD and s.uop_memory[i] >= 0:
            gemm = s.uop_memory[i] == GEMM
            if not (_load(p, s, i, gemm_uops) if gemm else _load(p, s, i, alu_uops)):
                s.largest = NO_UOPS
                return i
        elif unit == GEMM and p.steps[i] > 0:
            if s.end[i] > len(gemm_uops):
                s.largest = NO_UOPS
                return i
            s.largest = _banks(p, s, i, gemm_uops, banks)
            if s.largest >= s.row_limit[i]:
                return i
            for which in range(2):
                s.largest = _operand(s, i, gemm_uops, which)
                if s.largest >= s.operand_limit[2 * i + which]:
                    return i
        elif unit == ALU and p.steps[i] > 0:
            if s.end[i] > len(alu_uops):
                s.largest = NO_UOPS
                return i
            s.largest = _rows(p, s, i, alu_uops, True, targets)
            if s.largest >= s.row_limit[i]:
                return i
            s.largest = _rows(p, s, i, alu_uops, False, sources)
            if s.largest >= s.source_limit:
                return i
            s.largest = _operand(s, i, alu_uops, 0)
            if s.largest >= s.operand_limit[2 * i]:
                return i
    return GOOD
