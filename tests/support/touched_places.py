"""Places that instructions read and write, from the expansion of every step that `effects` makes.

The verifier derives the same by other means (`isa.footprints`).
"""

from collections.abc import Iterator

import numpy as np

from daedal.isa.effects import effects, external
from daedal.isa.program import Program
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.semantics import State, execute
from daedal.isa.table import BASES, Unit

__all__ = ["Place", "touched_places"]

Place = tuple[str, int]
"""A scratchpad or region by name, and the row, micro-op or bus word in it."""


def touched_places(program: Program) -> Iterator[tuple[set[Place], set[Place]]]:
    """Per instruction, in program order: what it reads and what it writes."""
    variant, state = program.variant, State(program.variant)
    bases = np.cumsum([0, *program.region_bytes[:3]]).tolist()
    memory = np.zeros(sum(program.region_bytes), dtype=np.uint8)
    memory[: len(program.constants)] = np.frombuffer(program.constants, np.uint8)
    for instruction in program.instructions:
        found: tuple[set[Place], set[Place]] = (set(), set())
        for access in effects(variant, instruction, state.uops.get(instruction.unit)):
            rows = access.rows
            if access.write and access.memory in (Memory.UOP_GEMM, Memory.UOP_ALU):
                per_row = scratchpad(variant, access.memory).elements
                rows = (rows[:, None] * per_row + np.arange(per_row)).reshape(-1)
            found[access.write].update((access.memory.value, row) for row in rows.tolist())
        moved = external(variant, instruction)
        if moved is not None:
            places = ((BASES[moved.base], beat) for beat in moved.beats.tolist())
            found[moved.write].update(places)
        if instruction.unit is Unit.LOAD:
            execute(state, instruction, memory, bases, program.region_words)  # brings the micro-ops
        yield found
