"""Dependency tokens of placed instructions; `isa.tokens` decides which waits are needed."""

from collections.abc import Sequence

from daedal.common.errors import ProgramError, ScheduleError
from daedal.compiler.link.placement.hazards import hazards
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.tokens import Waits, find_waits
from daedal.isa.variant import Variant

__all__ = ["insert_tokens"]


def insert_tokens(
    variant: Variant,
    region_bytes: tuple[int, int, int, int],
    items: Sequence[PlacedInstruction],
) -> Waits:
    """Find the waits of a program with the instructions `items`, in order.

    Raises
    ------
    ScheduleError
        The counters are too narrow.
    """
    conflicts = hazards(variant, region_bytes, items)
    try:
        return find_waits([item.unit for item in items], conflicts, variant.units.token_bits)
    except ProgramError as error:
        raise ScheduleError(str(error)) from error
