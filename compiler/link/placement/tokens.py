"""Dependency tokens of placed instructions; `isa.tokens` decides which waits are needed."""

from daedal.common.errors import ProgramError, ScheduleError
from daedal.compiler.link.placement.hazards import hazards
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.isa.tokens import Waits, find_waits

__all__ = ["insert_tokens"]


def insert_tokens(program: PlacedProgram) -> Waits:
    """Find the waits of a program.

    Raises
    ------
    ScheduleError
        The counters are too narrow.
    """
    units = [item.unit for item in program.items]
    try:
        return find_waits(units, hazards(program).tolist(), program.variant.units.token_bits)
    except ProgramError as error:
        raise ScheduleError(str(error)) from error
