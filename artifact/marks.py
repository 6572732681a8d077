"""`check_marks`: checks that a program's marks match the layers that an artifact lists for it.

Profiles, checks and traces derive an instruction's layer from the marks.
"""

from collections.abc import Sequence

from daedal.common.errors import ArtifactError
from daedal.isa.program import Program
from daedal.isa.table import Opcode, Unit

__all__ = ["check_marks"]


def check_marks(program: Program, tags: Sequence[int], source: str) -> None:
    """Check the marks of `program`, which `source` names in errors.

    Parameters
    ----------
    tags : of the artifact's layers, in order.

    Raises
    ------
    ArtifactError
        Unless layers are numbered from 0, every mark names one of them, every one has a mark, no
        two successive marks of a unit name the same one, and every instruction but FINISH has a
        mark of its unit at or after it.
    """
    problem = _problem(program, tags)
    if problem:
        raise ArtifactError(
            f"{source} must mark each unit's last instruction before another of its {len(tags)} "
            f"layers, and {problem}; compile the model again"
        )


def _problem(program: Program, tags: Sequence[int]) -> str:
    """What is wrong with the marks; empty if they are right."""
    every = list(range(len(tags)))
    if list(tags) != every or sorted(program.marks) != every:
        return "its layers are not numbered from 0 in program and manifest"
    following: dict[Unit, int] = {}
    seen: set[int] = set()
    for number, item in reversed(list(enumerate(program.instructions))):
        if item.mark:
            if item.tag not in program.marks:
                return f"instruction {number} ({item.opcode.name}) has the mark of layer {item.tag}"
            if following.get(item.unit) == item.tag:
                return f"{item.unit.name} marks layer {item.tag} twice in a row"
            following[item.unit] = item.tag
            seen.add(item.tag)
        elif item.opcode is not Opcode.FINISH and item.unit not in following:
            return f"instruction {number} ({item.opcode.name}) belongs to none of them"
    missing = set(every) - seen
    return f"layer {min(missing)} has no mark" if missing else ""
