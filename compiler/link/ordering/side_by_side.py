"""Interleaves two layers with products that do not depend on each other.

In attention, the weights keep the ALU busy for twice as long as the multipliers, and the projection
of the values needs hardly anything but multipliers. Side by side, each unit works on the tiles of
one layer while the other unit works on those of the other.

Input: the tiles of two layers. Output: the instructions of both, if that is faster.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from daedal.compiler.codegen.segment import SegmentInstruction
from daedal.compiler.link.placement.transfer_beats import TransferBeats
from daedal.isa.table import LOOPS, AluOp, Unit
from daedal.isa.variant import Variant

__all__ = ["UnitCycles", "num_steps", "side_by_side"]

Tile = Sequence[SegmentInstruction]

MOST_CYCLES = 0.9
"""Of the busiest unit, as a share of those of both layers one after the other."""

FEWEST_TILES = 4
"""Of each layer: with fewer, the units wait for each other at begin and end."""


def side_by_side(
    first: Sequence[Tile], second: Sequence[Tile], variant: Variant
) -> list[tuple[int, SegmentInstruction]] | None:
    """Instructions of both layers, each with 0 or 1, their tiles in proportion; None if it does not
    pay.

    One layer must be bound by the multipliers and the other by the ALU. LOAD is an in-order queue:
    a layer that waits for the bus would delay the other one.
    """
    if min(len(first), len(second)) < FEWEST_TILES:
        return None
    rates = UnitCycles(variant)
    work = [rates.of(item for tile in tiles for item in tile) for tiles in (first, second)]
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


class UnitCycles:
    """Cycles of instructions on each unit and on the bus, without what they wait for."""

    def __init__(self, variant: Variant) -> None:
        elements = variant.array.batch * variant.array.block_out
        self._requantize = -(-elements // variant.units.requantize_lanes)
        self._others = -(-elements // variant.units.alu_lanes)
        self._transfers = TransferBeats(variant)

    def of(self, items: Iterable[SegmentInstruction]) -> Counter[str]:
        """The sums."""
        busy: Counter[str] = Counter()
        for item in items:
            unit = item.unit if item.unit in (Unit.GEMM, Unit.ALU) else None
            busy["bus" if unit is None else unit.name] += self._cycles(item)
        return busy

    def _cycles(self, item: SegmentInstruction) -> int:
        if item.unit is Unit.GEMM:
            return num_steps(item)
        if item.unit is Unit.ALU:
            operation = AluOp(item.template.values.get("operation", 0))
            rate = self._requantize if operation.requantizes else self._others
            return num_steps(item) * rate
        words = self._transfers.of(item.template)
        return 0 if words is None else words.blocks * words.rows * words.cols


def num_steps(item: SegmentInstruction) -> int:
    """Micro-ops that an instruction of GEMM or ALU executes."""
    values = item.template.values
    extents = (values.get(f"extent{level}", 1) for level in range(LOOPS))
    return len(item.uops or ()) * math.prod(extents)
