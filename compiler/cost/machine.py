"""`MachineCost`: what the units of a variant take, for the estimates of linker and tiles.

Input: a variant, and the memory behind it. Output: cycles. Rates follow from the variant, latencies
from `isa/latencies.py`, the memory model and the table of units in docs/hardware.md.
"""

from functools import cache

from daedal.compiler.cost.memory import DDR, MemoryCost, latencies
from daedal.isa.latencies import (
    ACC_READ_TO_WRITE_CYCLES,
    QUEUE_CYCLES,
    QUIET_CYCLES,
    READ_WORD_CYCLES,
    STORE_ROW_CYCLES,
    alu_latency_cycles,
    gemm_lead_cycles,
)
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import scratchpads
from daedal.isa.table import AluOp, LoadMemory, Opcode, OutMemory, Unit, instruction_bytes
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant

__all__ = [
    "CONTENTION_CYCLES",
    "HAND_OVER_CYCLES",
    "LOAD_STALL_CYCLES",
    "SHARED_BUS",
    "TRANSFER_CYCLES",
    "MachineCost",
    "machine_cost",
]

HAND_OVER_CYCLES = 4
"""What an accumulated tile takes beyond the work of the busiest unit, about: units wait for each
other. 0 to 16 were measured."""

SHARED_BUS, TRANSFER_CYCLES = 1.25, 8
"""What a LOAD or a STORE takes for a bus word that FETCH and each other may delay, and beyond its
words: chosen by the ledger."""

LOAD_STALL_CYCLES = 1 / 8
"""Cycles that GEMM loses for a row that LOAD writes to the same accumulators: 0 to 0.5 were
measured, which depends on the order in which both meet the banks."""

CONTENTION_CYCLES = 1 / 8
"""Cycles that a vector of the ALU costs where it is as busy as GEMM, and this accumulates another
row in each cycle: 0 to 0.4 were measured."""

ACCEPT_CYCLES = {Unit.LOAD: 5, Unit.GEMM: 6, Unit.ALU: 8, Unit.STORE: 5}
"""From the acceptance of an instruction to its first effect (docs/hardware.md, Units)."""

LOAD_RETIRE_CYCLES, STORE_RETIRE_CYCLES = 7, 4
"""From the last word, and from the last B, to `retire` (docs/hardware.md, Units)."""

TOKEN_CYCLES = 1
"""From a token that is given to the first cycle in which it can be taken."""


class MachineCost:
    """The costs of one variant with a memory.

    Attributes
    ----------
    word_cycles : of a bus word in long transfers: 1 where the memory moves one in every cycle.
    row_beats : bus words of a row of each scratchpad.
    row_cycles : what these take.
    transfer_beats : bus words of a row that a LOAD or STORE moves, by opcode and field ``memory``.
    transfer_cycles : what these take.
    instruction_cycles : what FETCH takes to read an instruction.
    requantize, operation : the ALU's cycles for a vector, with a change of scale and without.
    reuse : cycles from an operation on a row of accumulators to the next one of the instruction
        that can read it.
    dependent : the same for an operation of the next instruction. Measured on softmax and norms of
        one to 64 rows: 22 to 28 on `attention`, for which it is 26.
    latency : from an instruction's last step to the first one of an instruction that waits for it.
    launch : what nothing hides in a program: its first instruction and its first operands are read,
        and after the work of the last tile, its pipelines and the acknowledgement of its STORE.
    """

    def __init__(self, variant: Variant, memory: MemoryModel = DDR) -> None:
        array, units = variant.array, variant.units
        elements = array.batch * array.block_out
        pads = scratchpads(variant)
        cost = MemoryCost.of(memory)
        self.word_cycles: float = cost.word_cycles if cost.slows_words else 1
        self.row_beats = {name: pad.row_beats(variant) for name, pad in pads.items()}
        self.row_cycles = {name: beats * self.word_cycles for name, beats in self.row_beats.items()}
        self.transfer_beats = {
            **{
                (Opcode.LOAD, target.value): memory_beats(variant, target)
                for target in LoadMemory.of(variant)
            },
            **{(Opcode.STORE, target.value): self.row_beats[target.memory] for target in OutMemory},
        }
        self.transfer_cycles = {
            key: beats * self.word_cycles for key, beats in self.transfer_beats.items()
        }
        self.instruction_cycles = instruction_bytes(variant) / variant.bus_bytes * self.word_cycles
        self.requantize = -(-elements // units.requantize_lanes)
        self.operation = -(-elements // units.alu_lanes)
        self.reuse = alu_latency_cycles(variant) + 1
        self.dependent = ACCEPT_CYCLES[Unit.ALU] + self.reuse
        read, write = latencies(memory)
        retire = {
            Unit.LOAD: read + LOAD_RETIRE_CYCLES,
            Unit.GEMM: gemm_lead_cycles(variant) + ACC_READ_TO_WRITE_CYCLES + 1,
            Unit.ALU: self.reuse,
            Unit.STORE: STORE_ROW_CYCLES + write + STORE_RETIRE_CYCLES,
        }
        self.latency = {
            unit: ACCEPT_CYCLES[unit] + cycles + TOKEN_CYCLES for unit, cycles in retire.items()
        }
        fetch = read + READ_WORD_CYCLES + QUEUE_CYCLES
        self.launch = fetch + sum(self.latency.values()) + QUIET_CYCLES

    def roofline(self, products: float, words: float) -> float:
        """What a layer takes at least: the cycles of its products, one for each of the array, or of
        its bus words."""
        return max(products, words * self.word_cycles)

    def alu(self, operation: AluOp) -> int:
        """The ALU's cycles for a vector."""
        return self.requantize if operation.requantizes else self.operation


machine_cost = cache(MachineCost)
