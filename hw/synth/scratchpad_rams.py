"""Scratchpads as block RAM: which unit holds them, and when fewer bytes take fewer blocks.

Input: a variant and a scratchpad's name. Source of the RAMs' forms: `hw.memory.scratchpad`,
`hw.memory.accumulators`.
"""

from functools import lru_cache

from daedal.hw.layouts import micro_op_struct
from daedal.hw.memory.fill_row import acc_grain
from daedal.hw.memory.scratchpad import out_group, read_shape
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["UNITS_OF_SCRATCHPADS", "block_count", "halving_frees", "ram_count", "ram_form"]

UNITS_OF_SCRATCHPADS = {
    "wgt": "wgt",
    "acc": "accumulators",
    "inp": "inp",
    "out": "out",
    "par": "par",
    "gemm_uop": "gemm",
    "alu_uop": "alu",
}
"""Units of the machine by the scratchpad, as `MemoryConfig` names it without ``_bytes``."""

_MEMORIES = {"gemm_uop": Memory.UOP_GEMM, "alu_uop": Memory.UOP_ALU}
_UNITS = {Memory.UOP_GEMM: Unit.GEMM, Memory.UOP_ALU: Unit.ALU}

# Rows of one block by the widest column that it has room for; 18 Kbit on all families.
# Source: AMD UG473 and UG573, chapter 1 (RAMB18); Lattice FPGA-TN-02204, table of DP16KD.
_BLOCK_ROWS = ((36, 512), (18, 1024), (9, 2048), (4, 4096))


def halving_frees(variant: Variant, memory: str) -> bool:
    """Whether half the bytes of a scratchpad take half its blocks: while its RAMs are deeper."""
    depth, column_bits = ram_form(variant, memory)
    rows = max([512, *(rows for bits, rows in _BLOCK_ROWS if column_bits <= bits)])
    return depth > rows


def block_count(depth: int, width: int) -> int:
    """Blocks of a RAM of `depth` rows with `width` bits, in the form that takes the fewest."""
    return min(-(-width // bits) * -(-depth // rows) for bits, rows in _BLOCK_ROWS)


def ram_count(variant: Variant, name: str) -> int:
    """Number of RAMs of `ram_form` that make a scratchpad, one for micro-ops."""
    if name in _MEMORIES:
        return 1
    pad = scratchpad(variant, Memory(name))
    depth, width = ram_form(variant, name)
    if pad.memory is Memory.TAB:
        return variant.units.requantize_lanes
    copies = 2 if pad.memory is Memory.OUT and variant.units.gemm_reads_out else 1
    return copies * (pad.depth_rows * pad.row_bits // (depth * width))


@lru_cache(maxsize=1024)
def ram_form(variant: Variant, name: str) -> tuple[int, int]:
    """Rows, and bits of a row, of each of the RAMs that make a scratchpad."""
    memory = _MEMORIES.get(name) or Memory(name)
    pad = scratchpad(variant, memory)
    if memory is Memory.ACC:
        return pad.depth_rows // variant.memory.acc_banks, acc_grain(variant) * pad.element_bits
    if memory is Memory.OUT:
        return pad.depth_rows, out_group(variant) * pad.element_bits
    if memory is Memory.TAB:
        return pad.depth_rows * pad.row_beats(variant), variant.bus.data_bits
    if memory in _UNITS:
        return pad.depth_rows, micro_op_struct(variant, _UNITS[memory]).size * pad.elements
    slices = pad.row_bits // read_shape(variant, memory)[1]
    banks = 4 if memory is Memory.INP and variant.array.depthwise_taps > 1 else 1
    return pad.depth_rows * slices // banks, variant.bus.data_bits
