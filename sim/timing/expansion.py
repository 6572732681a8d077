"""Hardware loops without their data: accumulator banks of products, rows of vectors.

The definition is `isa.microcode.expand`; a test compares the two.
"""

from daedal.native.kernel import kernel
from daedal.native.types import Array, i32, i64, u8, u64

__all__ = ["expand_banks", "expand_rows"]


@kernel
def expand_banks(
    uops: Array[u64],
    begin: i64,
    end: i64,
    mask: i64,
    loops: Array[i64],
    base: i64,
    low_bits: i64,
    top_bit: i64,
    out: Array[u8],
    at: i64,
) -> i64:
    """Banks of the rows of a loop nest, from `out[at]` on; returns the largest row.

    `loops`: three extents, then three factors. The field is the lowest of a micro-op's.
    """
    largest = 0
    low = (1 << low_bits) - 1
    for k0 in range(loops[0]):
        row0 = base + k0 * loops[3]
        for k1 in range(loops[1]):
            row1 = row0 + k1 * loops[4]
            for k2 in range(loops[2]):
                row2 = row1 + k2 * loops[5]
                for uop in range(begin, end):
                    row = row2 + (uops[uop] & mask)
                    largest = max(largest, row)
                    out[at] = (row & low) | (row >> top_bit & 1) << low_bits
                    at += 1
    return largest


@kernel
def expand_rows(
    uops: Array[u64],
    begin: i64,
    end: i64,
    shift: i64,
    mask: i64,
    loops: Array[i64],
    base: i64,
    out: Array[i32],
    at: i64,
) -> i64:
    """Rows of a loop nest, from `out[at]` on; returns the largest. `loops` as above."""
    largest = 0
    for k0 in range(loops[0]):
        row0 = base + k0 * loops[3]
        for k1 in range(loops[1]):
            row1 = row0 + k1 * loops[4]
            for k2 in range(loops[2]):
                row2 = row1 + k2 * loops[5]
                for uop in range(begin, end):
                    row = row2 + (uops[uop] >> shift & mask)
                    largest = max(largest, row)
                    out[at] = row
                    at += 1
    return largest
