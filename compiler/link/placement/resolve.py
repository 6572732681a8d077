"""Sets the memory offsets of LOADs and STOREs after every tensor has its place."""

from daedal.compiler.link.placement.memory_plan import CONSTANTS, MemoryPlan
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.compiler.link.placement.transfer_beats import TransferBeats
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
        offset = place.offset_bytes // self._bus_bytes
        moved = item.instruction.shifted({"base": place.base, "offset_beats": offset})
        # Constants are never stored to.
        beats = None if place.base == CONSTANTS else self._beats.of(moved, place.base)
        return PlacedInstruction(moved, item.layer, item.rows, item.tensor, beats)
