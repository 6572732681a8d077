"""Sets the memory offsets of LOADs and STOREs after every tensor has its place."""

from daedal.compiler.link.placement.memory_plan import CONSTANTS, MemoryPlan
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.compiler.link.placement.transfer_beats import TransferBeats
from daedal.isa.instruction import Instruction
from daedal.isa.variant import Variant

__all__ = ["Resolver"]


class Resolver:
    """Sets the base register and offset of LOADs and STOREs."""

    def __init__(self, variant: Variant, plan: MemoryPlan) -> None:
        self._bus_bytes = variant.bus_bytes
        self._places = plan.places
        self._beats = TransferBeats(variant)

    def __call__(self, item: PlacedInstruction) -> PlacedInstruction:
        """The instruction with its memory offset; one that moves nothing is returned unchanged."""
        if item.tensor is None:
            return item
        place = self._places[item.tensor]
        instruction = item.instruction
        values = dict(instruction.values)
        offset = values.pop("offset_beats", 0) + place.offset_bytes // self._bus_bytes
        # As in `Instruction.of`, fields of value 0 are left out.
        if place.base:
            values["base"] = place.base
        if offset:
            values["offset_beats"] = offset
        moved = Instruction(instruction.opcode, values)
        # Constants are never stored to.
        beats = None if place.base == CONSTANTS else self._beats.of(moved, place.base)
        return PlacedInstruction(moved, item.layer, item.rows, item.tensor, beats)
