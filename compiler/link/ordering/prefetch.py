"""Fills the time in which LOAD waits for a result with LOADs that later layers need.

A layer's activations wait for the STOREs of the layer before it, and LOAD is one in-order queue.
Where layers are small, as those of a decoder, LOAD waits longer than it loads, although weights of
later layers could be loaded meanwhile. Here these LOADs move before the one that waits, as long as
their rows are free. How long that waits is estimated: units in order, each instruction after those
that it conflicts with.

Input and output: placed instructions with their memory, before tokens are inserted.
"""

from collections.abc import Iterator

import numpy as np

from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.placement.earlier_loads import EarlierLoads
from daedal.compiler.link.placement.hazards import NUM_QUEUES, hazards
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.isa.memory_model import MemoryModel
from daedal.isa.table import Unit

__all__ = ["prefetch"]

SHORTEST_CYCLES = 16
"""Shorter waits are not filled. What fills a longer one may take longer than it."""

WINDOW = 1024
"""Instructions over which a LOAD may move."""


def prefetch(program: PlacedProgram, memory: MemoryModel = DDR) -> tuple[PlacedProgram, int]:
    """The same program with some LOADs earlier, and an estimate of its cycles.

    A LOAD stays behind every instruction that touches its rows or stores to its source, so the
    result is unchanged.
    """
    schedule = _Schedule(program, memory)
    order = np.fromiter(schedule.order(), dtype=np.int64)
    return program.reordered(order), schedule.cycles


class _Schedule:
    """An estimate of when each instruction ends, and the order that follows from it."""

    def __init__(self, program: PlacedProgram, memory: MemoryModel) -> None:
        self._units = [item.unit for item in program.items]
        self._conflicts = [
            [other for other in found if other >= 0] for found in hazards(program).tolist()
        ]
        self._before = EarlierLoads(program.touched)
        cost = InstructionCost(program.variant, memory)
        self._cycles = [
            0 if unread else cost.alone(item.instruction)
            for item, unread in zip(program.items, program.unread.tolist(), strict=True)
        ]
        machine = machine_cost(program.variant, memory)
        self._latency = machine.latency
        # What runs without a profile has no STOREs of what nothing reads.
        count = len(program.items) - int(program.unread.sum())
        self._fetched = int(count * machine.instruction_cycles)
        self._loads = [n for n, unit in enumerate(self._units) if unit is Unit.LOAD]
        self._ends = [0] * len(program.items)
        self._free = [0] * NUM_QUEUES
        self._moved: set[int] = set()
        self._passed = 0

    def order(self) -> Iterator[int]:
        """The numbers of the instructions."""
        for number, unit in enumerate(self._units):
            if number in self._moved:
                continue
            if unit is Unit.LOAD:
                yield from self._fill(number)
            self._run(number)
            yield number

    @property
    def cycles(self) -> int:
        """When all instructions so far have ended: at least what LOADs, STOREs and the instructions
        themselves take of the bus."""
        moved = sum(
            cycles
            for unit, cycles in zip(self._units, self._cycles, strict=True)
            if unit in (Unit.LOAD, Unit.STORE)
        )
        return max(*self._ends, moved + self._fetched)

    def _fill(self, waiting: int) -> Iterator[int]:
        """LOADs that fit in before `waiting` begins."""
        begin = self._ready(waiting)
        while self._passed < len(self._loads) and self._loads[self._passed] <= waiting:
            self._passed += 1
        for place in range(self._passed, len(self._loads)):
            number = self._loads[place]
            left = begin - self._free[Unit.LOAD]
            if left < SHORTEST_CYCLES or number - waiting > WINDOW:
                return
            if number in self._moved:
                continue
            needed = (*self._before.of(number), *self._conflicts[number])
            if any(other >= waiting and other not in self._moved for other in needed):
                continue
            if self._ready(number) > self._free[Unit.LOAD]:
                continue
            self._moved.add(number)
            self._run(number)
            yield number

    def _ready(self, number: int) -> int:
        """When all that an instruction waits for has ended."""
        return max((self._ends[other] for other in self._conflicts[number]), default=0)

    def _run(self, number: int) -> None:
        unit = self._units[number]
        end = max(self._ready(number), self._free[unit]) + self._cycles[number]
        self._free[unit] = end
        self._ends[number] = end + self._latency[unit]
