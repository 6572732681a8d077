"""`without_marks`: an artifact whose programs have nothing for those who look at their layers.

A mark is a write to memory at the end of a layer, for each unit. A STORE of a result that nothing
reads (`Program.unread`) moves nothing, but it is fetched and waits for the result. Where a launch
has many small layers, as that of a decoder, both take a part of the bus's time.
"""

from dataclasses import replace

from daedal.artifact.artifact import Artifact, Launch
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.tokens import with_tokens

__all__ = ["without_marks"]

_FIELDS = ("mark", "tag")


def without_marks(artifact: Artifact) -> Artifact:
    """The same artifact to run, without marks, without the layers that they are for, and without
    STOREs of results that nothing reads.

    It is not for a file: there, marks and layers belong together.
    """
    parts = (_unmarked(part) if isinstance(part, Launch) else part for part in artifact.parts)
    return replace(artifact, parts=tuple(parts))


def _unmarked(launch: Launch) -> Launch:
    program = _without_unread(launch.program)
    instructions = tuple(
        Instruction(
            item.opcode,
            {name: value for name, value in item.values.items() if name not in _FIELDS},
        )
        for item in program.instructions
    )
    return replace(launch, program=replace(program, instructions=instructions, marks={}), layers=())


def _without_unread(program: Program) -> Program:
    """The program without STOREs that store nothing, and with the tokens that are needed then."""
    if not program.unread:
        return program
    items = enumerate(program.instructions)
    kept = tuple(item for number, item in items if number not in program.unread)
    return with_tokens(replace(program, instructions=kept, unread={}))
