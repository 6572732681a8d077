"""`ProgramTimes`: an estimate of when the instructions of a program begin and end.

FETCH hands out instructions in program order, as long as the queue of the next one has space; units
execute in order, each instruction after those that it conflicts with.

Input: placed instructions with their memory, before tokens are inserted. Output: cycles.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daedal.compiler.link.placement.earlier_loads import EarlierLoads
from daedal.compiler.link.placement.hazards import NUM_QUEUES, hazards
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.isa.table import Unit
from daedal.native.kernel import kernel
from daedal.native.types import Array, i32, i64

__all__ = [
    "FETCH_CYCLES",
    "LATENCIES",
    "LATENCY_CYCLES",
    "QUEUE_CYCLES",
    "Integers",
    "ProgramTimes",
    "Times",
]

LATENCY_CYCLES = {Unit.LOAD: 80, Unit.GEMM: 16, Unit.ALU: 24, Unit.STORE: 80}
"""From an instruction's last step to the first of one that waits for it, with preset `ddr` and
others on the bus: chosen by the ledger."""

LATENCIES = np.array([LATENCY_CYCLES[unit] for unit in Unit if unit < NUM_QUEUES], dtype=np.int64)
_LOAD = int(Unit.LOAD)

Integers = npt.NDArray[np.int64]

FETCH_CYCLES, QUEUE_CYCLES = 2, 4
"""From one instruction to the next, and from FETCH to the unit."""


class Times(NamedTuple):
    """When each instruction leaves FETCH, begins, and ends, by its number."""

    handed: Integers
    begins: Integers
    ends: Integers


class ProgramTimes:
    """What an estimate of a program's times needs.

    Parameters
    ----------
    cycles : of each instruction on its unit, unless it is a STORE that will store nothing.

    Attributes
    ----------
    units : by the number of an instruction, as all of these.
    conflicts : by unit, the latest one that an instruction has to wait for, or NO_INSTRUCTION.
    before : the last LOADs before it into its rows.
    constant : whether an instruction is a LOAD of what is never written.
    cycles : on its unit.
    """

    def __init__(
        self,
        program: PlacedProgram,
        cycles: Integers,
    ) -> None:
        self.units = program.units
        self.conflicts = hazards(program)
        self.before = EarlierLoads(program.touched)
        moved = np.array([item.beats is not None for item in program.items], dtype=np.bool_)
        self.constant = ~moved & (self.units == _LOAD)
        self.depth = program.variant.units.queue_depth
        self.cycles: Integers = np.where(program.unread, 0, cycles)

    def times(self, order: Integers) -> Times:
        """Of the program in this order."""
        found = Times(*(np.zeros(len(self.units), dtype=np.int64) for _ in range(3)))
        leave = np.zeros(NUM_QUEUES * self.depth, dtype=np.int64)
        state = np.zeros(3 * NUM_QUEUES, dtype=np.int64)
        conflicts = self.conflicts.reshape(-1)
        _times(
            order, self.units, self.cycles, conflicts, LATENCIES, self.depth, leave, state, *found
        )
        return found

    def waits_for(self, number: int) -> list[int]:
        """The instructions of other units that one has to wait for."""
        return [other for other in self.conflicts[number].tolist() if other >= 0]

    def ready(self, number: int, times: Times) -> int:
        """When all that an instruction waits for has ended."""
        return max((int(times.ends[other]) for other in self.waits_for(number)), default=0)


@kernel
def _times(
    order: Array[i64],
    units: Array[i64],
    cycles: Array[i64],
    conflicts: Array[i32],
    latencies: Array[i64],
    depth: i64,
    leave: Array[i64],
    state: Array[i64],
    handed: Array[i64],
    begins: Array[i64],
    ends: Array[i64],
) -> None:
    """Fill the last three.

    `leave` has, by unit, when the last `depth` of its instructions left its queue: when those in
    front of them began. `state` has by unit how many these were, when the last one began, and when
    the unit is free.
    """
    at = 0
    for place in range(len(order)):
        number = order[place]
        unit = units[number]
        at += FETCH_CYCLES
        count = state[unit]
        slot = unit * depth + count % depth
        if count >= depth:
            at = max(at, leave[slot])
        leave[slot] = max(state[NUM_QUEUES + unit], at)
        state[unit] = count + 1
        begin = max(state[2 * NUM_QUEUES + unit], at + QUEUE_CYCLES)
        for other in range(number * NUM_QUEUES, (number + 1) * NUM_QUEUES):
            if conflicts[other] >= 0:
                begin = max(begin, ends[conflicts[other]])
        handed[number] = at
        begins[number] = begin
        state[NUM_QUEUES + unit] = begin
        state[2 * NUM_QUEUES + unit] = begin + cycles[number]
        ends[number] = begin + cycles[number] + latencies[unit]
