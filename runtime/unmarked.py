"""`without_marks`: an artifact whose programs record no profile of their layers.

A mark is a write to memory at the end of a layer, for each unit. Where a launch has many small
layers, as that of a decoder, these writes take a part of the bus's time.
"""

from dataclasses import replace

from daedal.artifact.artifact import Artifact, Launch
from daedal.isa.instruction import Instruction

__all__ = ["without_marks"]

_FIELDS = ("mark", "tag")


def without_marks(artifact: Artifact) -> Artifact:
    """The same artifact to run, without marks and without the layers that they are for.

    It is not for a file: there, marks and layers belong together.
    """
    parts = (_unmarked(part) if isinstance(part, Launch) else part for part in artifact.parts)
    return replace(artifact, parts=tuple(parts))


def _unmarked(launch: Launch) -> Launch:
    program = launch.program
    instructions = tuple(
        Instruction(
            item.opcode,
            {name: value for name, value in item.values.items() if name not in _FIELDS},
        )
        for item in program.instructions
    )
    return replace(launch, program=replace(program, instructions=instructions, marks={}), layers=())
