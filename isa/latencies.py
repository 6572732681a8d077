"""Latencies and buffer depths of each part of the machine, by name and by variant.

The one definition of each: `hw/` is built from them, and `sim/timing` counts with them. Where a
latency follows from the stages of a block, `tests/isa/test_latencies.py` compares the two.
docs/hardware.md describes what happens in those cycles.
"""

from daedal.isa.lane import FACTOR_BITS
from daedal.isa.table import instruction_bits
from daedal.isa.variant import ArrayConfig, MultiplierStyle, Variant

__all__ = [
    "ACC_READ_CYCLES",
    "ACC_READ_TO_SUM_CYCLES",
    "ACC_READ_TO_WRITE_CYCLES",
    "ALU_OPERAND_CYCLES",
    "BANK_CYCLES",
    "GEMM_AHEAD_CYCLES",
    "GEMM_OPERAND_CYCLES",
    "LIMB_BITS",
    "LOOKUP_CYCLES",
    "MARKS_IN_FLIGHT",
    "MARKS_PER_UNIT",
    "MARK_HEARD_CYCLES",
    "MAX_BURST_BEATS",
    "PAGE_BYTES",
    "PATIENCE_CYCLES",
    "QUEUE_CYCLES",
    "QUIET_CYCLES",
    "QUIET_SEEN_CYCLES",
    "RAM_READ_CYCLES",
    "READ_WORD_CYCLES",
    "START_CYCLES",
    "STORE_AHEAD",
    "STORE_REQUESTS_IN_MASTER",
    "STORE_ROWS",
    "STORE_ROW_CYCLES",
    "STORE_WORDS",
    "adder_tree_cycles",
    "alu_latency_cycles",
    "fifo_depth_words",
    "gemm_lead_cycles",
    "multiply_latency_cycles",
]

QUEUE_CYCLES = 2
"""From a queue's input to its output."""

LIMB_BITS = FACTOR_BITS - 1
"""Unsigned bits of an operand of a signed multiplier."""

MAX_BURST_BEATS = 32
"""Longest burst that the machine issues."""

PAGE_BYTES = 4096
"""No burst crosses a multiple of this (IHI 0022, A3.4.1), and allocations are aligned to it."""

RAM_READ_CYCLES = 2
"""From a row's number to the row in a block RAM: its own register and the output register."""

BANK_CYCLES = 2
"""Registers before the RAMs of scratchpads and banks of accumulators, for reads and writes."""

ACC_READ_CYCLES = BANK_CYCLES + RAM_READ_CYCLES
"""From an accepted read of an accumulator row to the row."""

LOOKUP_CYCLES = RAM_READ_CYCLES + 1
"""From a result to its entry of a table: the RAM and the select of an entry from a bus word."""

READ_WORD_CYCLES = 1 + RAM_READ_CYCLES + 2
"""From R to the reader: one register before the FIFO, four cycles through the FIFO."""

_FETCH_BURSTS = 4
"""Minimum size of FETCH's FIFO in bursts: three cover 64 cycles of latency, one is being read."""

_FETCH_INSTRUCTIONS = 32
"""Minimum size of FETCH's FIFO in instructions: covers the time that memory serves LOAD."""

PATIENCE_CYCLES = 4
"""Refused cycles after which a request for an accumulator bank takes a slot from GEMM."""

GEMM_OPERAND_CYCLES = RAM_READ_CYCLES + 1
"""From the issue of a product to its operands: the block RAM, one register."""

GEMM_AHEAD_CYCLES = 1
"""GEMM announces its reads and writes of accumulator rows this many cycles early."""

ACC_READ_TO_SUM_CYCLES = ACC_READ_CYCLES + 2
"""From GEMM's read of an accumulator row to the addition: the read and two registers."""

ACC_READ_TO_WRITE_CYCLES = ACC_READ_TO_SUM_CYCLES
"""From that read to the write of the row; its data follows a cycle later."""

ALU_OPERAND_CYCLES = ACC_READ_CYCLES + 2
"""From the start of a group to its operands: the read, row register, lane register."""

STORE_ROWS = 16
"""Rows that STORE buffers between a scratchpad's read port and the bus."""

STORE_ROW_CYCLES = ACC_READ_CYCLES + 2
"""From a row's read to the head of that buffer."""

STORE_WORDS = 2
"""Words buffered between STORE's rows and the write master."""

STORE_AHEAD = 4
"""Instructions queued between STORE's front and its row reader."""

STORE_REQUESTS_IN_MASTER = 4
"""Requests of STORE held in the write master beyond its open bursts."""

MARKS_PER_UNIT = 4
"""Mark records of one unit buffered on chip; with all in use, marked instructions wait."""

MARKS_IN_FLIGHT = 4
"""Mark records whose writes may be unacknowledged at once."""

MARK_HEARD_CYCLES = 2
"""From a marked retirement to the recorder's arbitration among records."""

QUIET_CYCLES = 4
"""Cycles without any activity before FINISH ends the run: longer than an instruction takes from one
observed place to the next."""

QUIET_SEEN_CYCLES = 1
"""From activity to the check for it, beyond a register."""

START_CYCLES = 3
"""From the write that starts a run to the cycle before FETCH's first request is made: cycle 0 of
the cycle model."""

_ALU_LANE_CYCLES = 7
_REQUANTIZE_CYCLES = 6
_REDUCTION_LEVEL_CYCLES = 2
_REDUCTION_SATURATE_CYCLES = 1


def adder_tree_cycles(num_terms: int) -> int:
    """Latency of a balanced tree of registered adders."""
    return (num_terms - 1).bit_length()


def _dot_cycles(array: ArrayConfig) -> int:
    """From operands in registers to their sums."""
    tree = adder_tree_cycles(array.block_in)
    match array.style:
        case MultiplierStyle.DSP:
            return 2 + tree
        case MultiplierStyle.PACKED:
            return 4 + tree
        case MultiplierStyle.LUT:
            return 1 + adder_tree_cycles(array.weight_bits) + tree


def gemm_lead_cycles(variant: Variant) -> int:
    """From the issue of a product to the read of its accumulator row."""
    latency = GEMM_OPERAND_CYCLES + _dot_cycles(variant.array)
    return max(GEMM_AHEAD_CYCLES, latency - ACC_READ_TO_SUM_CYCLES)


def multiply_latency_cycles(a_bits: int, b_bits: int) -> int:
    """Latency of signed `a_bits` times unsigned `b_bits`, from limbs of 18 x 18 signed bits."""
    a_limbs = max(1, -(-(a_bits - 1) // LIMB_BITS))
    b_limbs = -(-b_bits // LIMB_BITS)
    return 1 + adder_tree_cycles(a_limbs * b_limbs)


def alu_latency_cycles(variant: Variant) -> int:
    """From the start of a group of lanes to its result at the write queue, for any operation.

    Tables lie behind REQUANTIZE's lanes, whether an operation looks up or not.
    """
    multiply = multiply_latency_cycles(
        variant.array.accumulator_bits + 1, variant.units.multiplier_bits
    )
    look_up = LOOKUP_CYCLES if variant.memory.tables else 0
    reduce = 0
    if variant.units.lane_reductions:
        levels = adder_tree_cycles(variant.array.block_out)
        reduce = levels * _REDUCTION_LEVEL_CYCLES + _REDUCTION_SATURATE_CYCLES
    return ALU_OPERAND_CYCLES + max(
        _ALU_LANE_CYCLES, _REQUANTIZE_CYCLES + multiply + look_up, reduce
    )


def fifo_depth_words(variant: Variant, reader: int) -> int:
    """Words in the read master's FIFO of a reader: 0 is FETCH; LOAD's holds every open burst."""
    if reader == 0:
        words = _FETCH_INSTRUCTIONS * instruction_bits(variant) // variant.bus.data_bits
        return max(_FETCH_BURSTS * MAX_BURST_BEATS, words)
    return max(2, variant.bus.read_bursts) * MAX_BURST_BEATS
