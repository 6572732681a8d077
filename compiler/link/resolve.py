"""Memory offsets of LOADs and STOREs, once every tensor has its place."""

from dataclasses import replace

from daedal.compiler.link.memory_plan import CONSTANTS, MemoryPlan
from daedal.compiler.link.placed import BeatRange, PlacedInstruction
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import scratchpads
from daedal.isa.table import LoadMemory, Opcode, OutMemory
from daedal.isa.variant import Variant

__all__ = ["resolve", "row_beats"]


def resolve(variant: Variant, plan: MemoryPlan, item: PlacedInstruction) -> PlacedInstruction:
    """Give a LOAD or STORE its base register and its offset above it; others pass unchanged."""
    if item.tensor is None:
        return item
    place = plan.places[item.tensor]
    offset = item.instruction.offset_beats + place.offset_bytes // variant.bus_bytes
    moved = item.instruction.replace(base=place.base, offset_beats=offset)
    if place.base == CONSTANTS or not moved.blocks * moved.rows * moved.cols:
        # Nothing is stored into constants, and pads alone touch no memory.
        return replace(item, instruction=moved)
    beats = BeatRange(
        place.base,
        offset,
        moved.blocks,
        moved.rows,
        moved.cols * row_beats(variant, moved),
        moved.row_stride_beats,
        moved.block_stride_beats,
    )
    return replace(item, instruction=moved, beats=beats)


def row_beats(variant: Variant, instruction: Instruction) -> int:
    """Bus words of one scratchpad row as a LOAD or STORE moves it."""
    narrow = False
    if instruction.opcode is Opcode.LOAD:
        target = LoadMemory(instruction.memory)
        memory, narrow = target.memory, target is LoadMemory.ACC_NARROW
    else:
        memory = OutMemory(instruction.memory).memory
    pad = scratchpads(variant)[memory]
    bits = variant.array.input_bits if narrow else pad.memory_bits
    return pad.elements * bits // 8 // variant.bus_bytes
