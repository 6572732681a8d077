"""Amaranth layouts of instructions, micro-ops and retirement records, derived from the isa table.

Input: a variant. Output: `data.Layout`s whose field positions equal `isa.table`'s.
"""

from amaranth.lib import data

from daedal.isa.latencies import MAX_BURST_BEATS
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import (
    BitField,
    LoadMemory,
    Opcode,
    OutMemory,
    Unit,
    instruction_bits,
    instruction_layout,
    micro_op_layout,
)
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant

__all__ = [
    "INDEX_BITS",
    "entry_layout",
    "instruction_struct",
    "issue_layout",
    "micro_op_struct",
    "request_beats_bits",
    "retire_layout",
    "row_bits",
    "word_address_bits",
]

INDEX_BITS = 24
"""Width of an instruction's index in its program, kept for error reports and marks."""


def _flexible(fields: dict[str, BitField], size: int) -> data.FlexibleLayout:
    return data.FlexibleLayout(
        size,
        {name: data.Field(_shape(item), item.offset) for name, item in fields.items()},
    )


def _shape(item: BitField):
    from amaranth.hdl import signed, unsigned

    return signed(item.width) if item.field.signed else unsigned(item.width)


def instruction_struct(variant: Variant, opcode: Opcode) -> data.FlexibleLayout:
    """Layout of one instruction, at its full width; fields have their names in the isa table."""
    return _flexible(instruction_layout(variant, opcode), instruction_bits(variant))


def micro_op_struct(variant: Variant, unit: Unit) -> data.FlexibleLayout:
    """Layout of the used bits of a micro-op of GEMM or ALU."""
    fields = micro_op_layout(variant, unit)
    return _flexible(fields, max(item.offset + item.width for item in fields.values()))


def entry_layout(variant: Variant) -> data.StructLayout:
    """Entry that FETCH puts into a unit's queue: the raw instruction and its index."""
    return data.StructLayout({"instruction": instruction_bits(variant), "index": INDEX_BITS})


def issue_layout(variant: Variant, opcode: Opcode) -> data.StructLayout:
    """Issued instruction: the decoded instruction and its index."""
    return data.StructLayout(
        {"instruction": instruction_struct(variant, opcode), "index": INDEX_BITS}
    )


def retire_layout() -> data.StructLayout:
    """Retirement record of an instruction: tokens to give, and the mark, if any."""
    return data.StructLayout({"push": 4, "mark": 1, "tag": 16, "index": INDEX_BITS})


def row_bits(variant: Variant, memory: Memory) -> int:
    """Width of a row number of a scratchpad."""
    return scratchpad(variant, memory).index_bits


def word_address_bits(variant: Variant) -> int:
    """Width of the address of a bus word."""
    return variant.bus.address_bits - variant.word_offset_bits


def request_beats_bits(variant: Variant) -> int:
    """Width of the length of a request: that of the longest row of a LOAD or STORE, in words."""
    longest = MAX_BURST_BEATS  # of FETCH
    for opcode, kinds in ((Opcode.LOAD, LoadMemory.of(variant)), (Opcode.STORE, OutMemory)):
        cols = (1 << instruction_layout(variant, opcode)["cols"].width) - 1
        longest = max(longest, *(cols * memory_beats(variant, kind) for kind in kinds))
    return longest.bit_length()
