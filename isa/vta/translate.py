"""`translate`: converts a VTA program to a `Program` of ours that leaves the same bytes in memory.

VTA runs GEMM, ALU and the loads of micro-ops and accumulators on one queue; here each unit has its
own, and the dependency tokens are derived again from each instruction's accesses. Program order
defines the result: a stream whose tokens forbid that order is refused.

Scratchpad contents do not persist between runs: a program must itself load, compute or reset
everything it reads.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from daedal.common.errors import VariantError
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Opcode, Unit
from daedal.isa.tokens import with_tokens
from daedal.isa.variant import Variant
from daedal.isa.vta.dump import VtaProgram
from daedal.isa.vta.emit import Emitter
from daedal.isa.vta.fuse import fold_resets, redirect_results
from daedal.isa.vta.memory_map import MemoryMap, SegmentPlace
from daedal.isa.vta.pieces import Limits
from daedal.isa.vta.resolve import resolve
from daedal.isa.vta.stream import VtaMemory

__all__ = ["Translation", "translate"]


@dataclass(frozen=True)
class Translation:
    """A program, and where the segments of the VTA program that it moves lie in its regions."""

    program: Program
    places: tuple[SegmentPlace, ...]

    def region(self, base: int) -> bytes:
        """Contents of a region before the run."""
        data = bytearray(self.program.region_bytes[base])
        if base == 0:
            data[: len(self.program.constants)] = self.program.constants
        for place in self.places:
            if place.base == base:
                data[place.offset_bytes : place.end_bytes] = place.segment.data
        return bytes(data)

    def mismatches(self, regions: Sequence[bytes]) -> list[str]:
        """Segments whose contents after a run differ from those the VTA program is known to leave.

        Parameters
        ----------
        regions : contents of all regions after the run, in the order of their registers.
        """
        return [
            f"{place.segment.role} at {place.segment.address:#x}"
            for place in self.places
            if regions[place.base][place.offset_bytes : place.end_bytes]
            != (place.segment.data if place.segment.after is None else place.segment.after)
        ]


def translate(program: VtaProgram, variant: Variant, *, fuse: bool = True) -> Translation:
    """Translate a VTA program for `variant`.

    Parameters
    ----------
    fuse : fold resets into the products after them and write results to OUT directly. Otherwise
        every VTA instruction remains a separate pass.

    Raises
    ------
    ProgramError
        The program cannot run in program order, or accesses rows or memory that do not exist; the
        message names the instruction.
    VariantError
        The variant's array or scratchpads cannot hold VTA's.
    """
    check_variant(variant)
    depth = scratchpad(variant, Memory.ACC).depth_rows
    memory = MemoryMap(program.segments)
    operations = resolve(program, memory)
    if fuse:
        operations = fold_resets(operations, depth, Limits.of(variant, Unit.GEMM))
        operations = redirect_results(operations, depth)
    places = memory.place(operations)
    emitter = Emitter(variant, memory, operations)
    for item in operations:
        emitter.emit(item)
    bare = Program(
        variant,
        (*emitter.instructions, Instruction.of(Opcode.FINISH)),
        bytes(emitter.constants),
        (len(emitter.constants), *memory.region_bytes, emitter.workspace_bytes),
    )
    return Translation(with_tokens(bare), places)


def check_variant(variant: Variant) -> None:
    """Raise VariantError where VTA's elements or rows do not fit the scratchpads of `variant`."""
    for memory, vta in (
        (Memory.INP, VtaMemory.INP),
        (Memory.WGT, VtaMemory.WGT),
        (Memory.ACC, VtaMemory.ACC),
        (Memory.OUT, VtaMemory.OUT),
    ):
        pad = scratchpad(variant, memory)
        bits = 32 if memory is Memory.ACC else 8
        if (pad.row_bytes, pad.element_bits) != (vta.element_bytes, bits) or (
            pad.depth_rows < vta.depth
        ):
            raise VariantError(
                f"VTA programs need {vta.depth} rows of {vta.element_bytes} bytes, {bits} bits an "
                f"element, in scratchpad {memory.value!r}, not {pad.depth_rows} of "
                f"{pad.row_bytes} with {pad.element_bits} (variant {variant.name!r}); use one "
                "like 'vta'"
            )
