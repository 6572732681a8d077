"""Locates instructions and data of a program: an instruction's layer, the tensor behind a row.

Input: a program or a launch, and indices. Output: layers, and places in external memory by
region, tensor and coordinates.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from daedal.artifact.artifact import Launch, Layer
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory
from daedal.isa.table import BASES, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.transfer import transfer

__all__ = ["Place", "behind_row", "in_memory", "layer_of"]


@dataclass(frozen=True)
class Place:
    """A byte of a region, and the tensor element (n, c, h, w) stored there, if known.

    `instruction` is the LOAD or STORE that moves it.
    """

    region: str
    offset_bytes: int
    tensor: str | None = None
    element: tuple[int, int, int, int] | None = None
    instruction: int | None = None

    def __str__(self) -> str:
        text = f"{self.region} + {self.offset_bytes:#x}"
        if self.tensor is not None:
            text += f", tensor {self.tensor!r}, element {self.element}"
        return text


def layer_of(launch: Launch, number: int) -> Layer | None:
    """The layer of an instruction: that of its unit's next marked instruction.

    The last instruction of each unit in a layer carries the layer's mark.
    """
    instructions = launch.program.instructions
    unit = instructions[number].unit
    layers = {layer.tag: layer for layer in launch.layers}
    for instruction in instructions[number:]:
        if instruction.unit is unit and unit is not Unit.FETCH and instruction.mark:
            return layers.get(instruction.tag)
    return None


def in_memory(program: Program, base: int, offset_bytes: int) -> Place:
    """The place of a byte of region `base`."""
    for spec in (*program.inputs, *program.outputs):
        if spec.base == base and 0 <= offset_bytes - spec.offset_bytes < spec.size_bytes:
            element = spec.element_at((offset_bytes - spec.offset_bytes) * 8 // spec.element_bits)
            return Place(BASES[base], offset_bytes, spec.name, element)
    return Place(BASES[base], offset_bytes)


def behind_row(
    program: Program, number: int, memory: Memory, row: int, element: int
) -> Place | None:
    """Where element `element` of a row comes from (if `number` is a LOAD), or where the next STORE
    after instruction `number` writes it; None if neither moves it.
    """
    instructions = program.instructions
    if instructions[number].opcode is Opcode.LOAD:
        candidates: Sequence[int] = (number,)
    else:
        candidates = range(number + 1, len(instructions))
    for candidate in candidates:
        instruction = instructions[candidate]
        if instruction.opcode is Opcode.LOAD:
            moved = LoadMemory(instruction.memory).memory
        elif instruction.opcode is Opcode.STORE:
            moved = OutMemory(instruction.memory).memory
        else:
            continue
        if moved is not memory:
            continue
        move = transfer(program.variant, instruction)
        (at,) = np.nonzero(move.rows == row)
        if len(at):
            within = element * move.element_bits // 8
            offset = int(move.offsets_bytes[at[0]]) + within
            place = in_memory(program, instruction.base, offset)
            return Place(place.region, offset, place.tensor, place.element, candidate)
    return None
