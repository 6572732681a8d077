"""Scratchpads of a variant: rows, elements and their form in memory, derived from its parameters.

The array reads or writes one *row* per cycle. In external memory a row is stored densely, each
element padded to a power-of-two number of bits; every row is a whole number of bus words (beats).
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from daedal.common.errors import VariantError
from daedal.isa.variant import Variant

__all__ = [
    "NARROW_WEIGHT_BITS",
    "SHIFT_BITS",
    "TABLE_ENTRIES",
    "TABLE_ENTRY_BITS",
    "TABLE_ROWS",
    "Memory",
    "Scratchpad",
    "check_scratchpads",
    "scratchpad",
    "scratchpads",
]

UOP_BYTES = 8
"""Size of a micro-op in external memory; on chip only the bits used by its fields are stored."""

SHIFT_BITS = 6
"""Bits of the shift of a REQUANTIZE, 0 to 63."""

NARROW_WEIGHT_BITS = 4
"""Bits of a weight in memory that a LOAD into WGT_NARROW reads."""

TABLE_ENTRIES = 256
"""Entries of a table: one for each 8-bit result."""

TABLE_ENTRY_BITS = 16
"""Bits of a table's entry, signed."""

_TABLE_ROW_ENTRIES = 32
"""Entries of a row of tables: a whole number of bus words at every width of the bus."""

TABLE_ROWS = TABLE_ENTRIES // _TABLE_ROW_ENTRIES
"""Rows of one table."""


class Memory(enum.Enum):
    """The scratchpads by name."""

    INP = "inp"
    WGT = "wgt"
    ACC = "acc"
    OUT = "out"
    PAR = "par"
    UOP_GEMM = "uop_gemm"
    UOP_ALU = "uop_alu"
    TAB = "tab"

    # By identity: tables by scratchpad are read for every row of a program, and the hash of an
    # enumeration is computed in Python.
    __hash__ = object.__hash__


@dataclass(frozen=True)
class Scratchpad:
    """One on-chip memory.

    `shape` is one row as an array of elements; `element_bits` is an element on chip and
    `memory_bits` the same in external memory. A parameter element is a packed entry
    (bias, multiplier, shift), a micro-op row holds `shape[0]` micro-ops. Entry e of table t is
    entry t * `TABLE_ENTRIES` + e of the tables; e is a result's low 8 bits as an unsigned number.
    """

    memory: Memory
    shape: tuple[int, ...]
    element_bits: int
    memory_bits: int
    depth_rows: int

    @property
    def elements(self) -> int:
        """Elements of one row."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def row_bits(self) -> int:
        """Bits of one row on chip."""
        return self.elements * self.element_bits

    @property
    def row_bytes(self) -> int:
        """Bytes of one row in external memory."""
        return self.elements * self.memory_bits // 8

    @property
    def index_bits(self) -> int:
        """Width of a row number."""
        return (self.depth_rows - 1).bit_length()

    def row_beats(self, variant: Variant) -> int:
        """Bus words of one row."""
        return self.row_bytes // variant.bus_bytes


def parameter_bits(variant: Variant) -> int:
    """Bits of one channel's parameters in memory: bias, multiplier and shift, rounded up."""
    used = variant.array.accumulator_bits + variant.units.multiplier_bits + SHIFT_BITS
    return 1 << (used - 1).bit_length()


@lru_cache(maxsize=256)
def scratchpads(variant: Variant) -> Mapping[Memory, Scratchpad]:
    """All scratchpads of `variant`; `Memory.TAB` is there only if it has tables."""
    array, memory = variant.array, variant.memory
    acc_memory_bits = 1 << (array.accumulator_bits - 1).bit_length()
    par_bits = parameter_bits(variant)
    uops = max(1, variant.bus_bytes // UOP_BYTES)
    forms: list[tuple[Memory, tuple[int, ...], int, int, int]] = [
        (Memory.INP, (array.batch, array.block_in), array.input_bits, array.input_bits,
         memory.inp_bytes),
        (Memory.WGT, (array.block_out, array.block_in), array.weight_bits, array.weight_bits,
         memory.wgt_bytes),
        (Memory.ACC, (array.batch, array.block_out), array.accumulator_bits, acc_memory_bits,
         memory.acc_bytes),
        (Memory.OUT, (array.batch, array.block_out), array.output_bits, array.output_bits,
         memory.out_bytes),
        (Memory.PAR, (array.block_out,), par_bits, par_bits, memory.par_bytes),
        (Memory.UOP_GEMM, (uops,), 8 * UOP_BYTES, 8 * UOP_BYTES, memory.gemm_uop_bytes),
        (Memory.UOP_ALU, (uops,), 8 * UOP_BYTES, 8 * UOP_BYTES, memory.alu_uop_bytes),
    ]  # fmt: skip
    if memory.tables:
        table_bytes = memory.tables * TABLE_ENTRIES * TABLE_ENTRY_BITS // 8
        forms.append(
            (
                Memory.TAB,
                (_TABLE_ROW_ENTRIES,),
                TABLE_ENTRY_BITS,
                TABLE_ENTRY_BITS,
                table_bytes,
            )
        )
    result = {}
    for name, shape, bits, memory_bits, capacity in forms:
        row = Scratchpad(name, shape, bits, memory_bits, 1)
        depth = capacity // row.row_bytes if row.row_bytes else 0
        result[name] = Scratchpad(name, shape, bits, memory_bits, depth)
    return MappingProxyType(result)


def scratchpad(variant: Variant, memory: Memory) -> Scratchpad:
    """One scratchpad of `variant`."""
    return scratchpads(variant)[memory]


def check_scratchpads(variant: Variant) -> None:
    """Raise VariantError if a row is not a whole number of bus words, or a memory is too small."""
    for pad in scratchpads(variant).values():
        name = pad.memory.value
        if pad.row_bytes == 0 or pad.row_bytes % variant.bus_bytes:
            raise VariantError(
                f"a row of scratchpad {name!r} must be a multiple of the bus width "
                f"({variant.bus_bytes} bytes), not {pad.elements * pad.memory_bits / 8:g} bytes; "
                "make the bus narrower or the block larger"
            )
        narrow_bytes = pad.elements * NARROW_WEIGHT_BITS // 8
        if (
            pad.memory is Memory.WGT
            and variant.units.narrow_weights
            and narrow_bytes % variant.bus_bytes
        ):
            raise VariantError(
                "units.narrow_weights needs rows of weights that are a multiple of the bus width "
                f"({variant.bus_bytes} bytes) at {NARROW_WEIGHT_BITS} bits, too, not "
                f"{narrow_bytes} bytes; make the bus narrower or the block larger"
            )
        least = max(4, variant.memory.acc_banks) if pad.memory is Memory.ACC else 4
        if pad.depth_rows < least:
            raise VariantError(
                f"scratchpad {name!r} must hold at least {least} rows of {pad.row_bytes} bytes, "
                f"not {pad.depth_rows}; give it {least * pad.row_bytes} bytes"
            )
