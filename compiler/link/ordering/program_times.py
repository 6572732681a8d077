"""`ProgramTimes`: an estimate of when the instructions of a program begin and end.

FETCH hands out instructions in program order, as long as the queue of the next one has space; units
execute in order, each instruction after those that it conflicts with.

Input: placed instructions with their memory, before tokens are inserted. Output: cycles.
"""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from daedal.compiler.link.ordering.prefetch import earlier_loads
from daedal.compiler.link.placement.hazards import NUM_QUEUES, hazards
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.instruction import Instruction
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["LATENCY_CYCLES", "ProgramTimes", "Times"]

LATENCY_CYCLES = {Unit.LOAD: 80, Unit.GEMM: 16, Unit.ALU: 24, Unit.STORE: 80}
"""From an instruction's last step to the first of one that waits for it, with preset `ddr` and
others on the bus: chosen by the ledger."""

_FETCH_CYCLES, _QUEUE_CYCLES = 2, 4
"""From one instruction to the next, and from FETCH to the unit."""


class Times(NamedTuple):
    """When each instruction leaves FETCH, begins, and ends, by its number."""

    handed: Sequence[int]
    begins: Sequence[int]
    ends: Sequence[int]


class ProgramTimes:
    """What an estimate of a program's times needs.

    Parameters
    ----------
    unread : the numbers of STOREs that will store nothing.
    cost : cycles of an instruction on its unit.

    Attributes
    ----------
    conflicts, before : by the number of an instruction, those of other units that it has to wait
        for, and the last LOADs before it into its rows.
    constant : whether an instruction is a LOAD of what is never written.
    """

    def __init__(
        self,
        variant: Variant,
        region_bytes: tuple[int, int, int, int],
        items: Sequence[PlacedInstruction],
        unread: Collection[int],
        cost: Callable[[Instruction], int],
    ) -> None:
        self.units = [item.unit for item in items]
        self.conflicts = [
            [other for other in found if other >= 0]
            for found in hazards(variant, region_bytes, items)
        ]
        self.before = earlier_loads(variant, items)
        self.constant = [item.unit is Unit.LOAD and item.beats is None for item in items]
        self.depth = variant.units.queue_depth
        self.cycles = [
            0 if number in unread else cost(item.instruction) for number, item in enumerate(items)
        ]

    def times(self, order: Sequence[int]) -> Times:
        """Of the program in this order."""
        handed, begins, ends = ([0] * len(self.units) for _ in range(3))
        # By unit, when its instructions leave its queue: when those in front of them begin.
        leave: list[list[int]] = [[] for _ in range(NUM_QUEUES)]
        last_begin, free = [0] * NUM_QUEUES, [0] * NUM_QUEUES
        at = 0
        for number in order:
            unit = self.units[number]
            at += _FETCH_CYCLES
            if len(leave[unit]) >= self.depth:
                at = max(at, leave[unit][-self.depth])
            leave[unit].append(max(last_begin[unit], at))
            begin = max(self.ready(number, ends), free[unit], at + _QUEUE_CYCLES)
            handed[number], begins[number], last_begin[unit] = at, begin, begin
            free[unit] = begin + self.cycles[number]
            ends[number] = free[unit] + LATENCY_CYCLES[unit]
        return Times(handed, begins, ends)

    def ready(self, number: int, ends: Sequence[int]) -> int:
        """When all that an instruction waits for has ended."""
        return max((ends[other] for other in self.conflicts[number]), default=0)
