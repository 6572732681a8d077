"""Sets the memory offsets of LOADs and STOREs after every tensor has its place."""

from daedal.compiler.link.memory_plan import CONSTANTS, MemoryPlan
from daedal.compiler.link.placed import BeatRange, PlacedInstruction
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import LoadMemory, Opcode, OutMemory
from daedal.isa.variant import Variant

__all__ = ["Resolver"]


class Resolver:
    """Sets the base register and offset of LOADs and STOREs."""

    def __init__(self, variant: Variant, plan: MemoryPlan) -> None:
        self._bus_bytes = variant.bus_bytes
        self._places = plan.places
        pads = scratchpads(variant)
        self._row_beats = {
            **{
                (Opcode.LOAD, target.value): pads[target.memory].row_beats(variant)
                for target in LoadMemory
            },
            **{
                (Opcode.STORE, target.value): pads[target.memory].row_beats(variant)
                for target in OutMemory
            },
        }
        # Accumulators loaded from inputs have the inputs' width.
        narrow = pads[Memory.ACC].elements * variant.array.input_bits // 8
        self._row_beats[Opcode.LOAD, LoadMemory.ACC_NARROW.value] = narrow // variant.bus_bytes

    def __call__(self, item: PlacedInstruction) -> PlacedInstruction:
        """The instruction with its memory offset; one that moves nothing is returned unchanged."""
        if item.tensor is None:
            return item
        place = self._places[item.tensor]
        get = item.instruction.values.get
        offset = get("offset_beats", 0) + place.offset_bytes // self._bus_bytes
        moved = item.instruction.replace(base=place.base, offset_beats=offset)
        blocks, rows, cols = get("blocks", 0), get("rows", 0), get("cols", 0)
        if place.base == CONSTANTS or not blocks * rows * cols:
            # Constants are never stored to, and a LOAD of pads alone touches no memory.
            return item._replace(instruction=moved)
        row_beats = self._row_beats[moved.opcode, get("memory", 0)]
        strides = get("row_stride_beats", 0), get("block_stride_beats", 0)
        beats = BeatRange(place.base, offset, blocks, rows, cols * row_beats, *strides)
        return item._replace(instruction=moved, beats=beats)
