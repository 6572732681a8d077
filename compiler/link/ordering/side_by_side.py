"""Interleaves two layers with products that do not depend on each other.

In attention, the weights keep the ALU busy for twice as long as the multipliers, and the projection
of the values needs hardly anything but multipliers. Side by side, each unit works on the tiles of
one layer while the other unit works on those of the other.

Input: the tiles of two layers. Output: the instructions of both, if that is faster.
"""

from collections.abc import Sequence

from daedal.compiler.codegen.segment import SegmentInstruction
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.memory import DDR
from daedal.isa.memory_model import MemoryModel
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["side_by_side"]

Tile = Sequence[SegmentInstruction]

MOST_CYCLES = 0.9
"""Of the busiest unit, as a share of those of both layers one after the other."""

FEWEST_TILES = 4
"""Of each layer: with fewer, the units wait for each other at begin and end."""


def side_by_side(
    first: Sequence[Tile],
    second: Sequence[Tile],
    variant: Variant,
    memory: MemoryModel = DDR,
) -> list[tuple[int, SegmentInstruction]] | None:
    """Instructions of both layers, each with 0 or 1, their tiles in proportion; None if it does not
    pay.

    One layer must be bound by the multipliers and the other by the ALU. LOAD is an in-order queue:
    a layer that waits for the bus would delay the other one.
    """
    if min(len(first), len(second)) < FEWEST_TILES:
        return None
    rates = InstructionCost(variant, memory)
    work = [rates.by_unit(item for tile in tiles for item in tile) for tiles in (first, second)]
    busiest = {max(busy, key=lambda unit: busy[unit]) for busy in work}
    apart = sum(max(busy.values()) for busy in work)
    together = max((work[0] + work[1]).values())
    if busiest != {Unit.GEMM.name, Unit.ALU.name} or together > MOST_CYCLES * apart:
        return None
    places = [
        ((number + 0.5) / len(tiles), which, number)
        for which, tiles in enumerate((first, second))
        for number in range(len(tiles))
    ]
    return [
        (which, item)
        for _, which, number in sorted(places)
        for item in (first, second)[which][number]
    ]
