"""Lets FETCH hand out LOADs and products while the queue of another unit is full.

FETCH hands out instructions in program order. Where the queue of a unit is full, as that of the ALU
is while many instructions wait for the products of a tile, FETCH waits, and so do the LOADs behind,
which could begin. Here they move before the instruction that waits for space. When that is is
estimated (`program_times`).

Before, where the ALU's queue has space for two instructions, and these wait for GEMM::

    GEMM a0 | ALU b0, b1, b2, b3 | LOAD c0, c1 | GEMM d0

After::

    GEMM a0 | ALU b0, b1 | LOAD c0, c1 | ALU b2, b3 | GEMM d0

Input and output: placed instructions with their memory, before tokens are inserted.
"""

import numpy as np

from daedal.compiler.cost.instructions import shared
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.ordering.program_times import (
    FETCH_CYCLES,
    LATENCIES,
    QUEUE_CYCLES,
    Integers,
    ProgramTimes,
)
from daedal.compiler.link.placement.hazards import NUM_QUEUES
from daedal.compiler.link.placement.placed_program import PlacedProgram
from daedal.isa.memory_model import MemoryModel
from daedal.isa.table import Unit
from daedal.native.kernel import kernel
from daedal.native.types import Array, i32, i64

__all__ = ["past_full_queues"]

WINDOW = 256
"""Instructions over which one may move."""

_MOVABLE = max(Unit.LOAD, Unit.GEMM) + 1
"""Units whose instructions move: they feed the multipliers. If the ALU's and STORE's moved, too,
others would wait for them."""


def past_full_queues(
    program: PlacedProgram, memory: MemoryModel = DDR
) -> tuple[PlacedProgram, float]:
    """The same program in another order, in which the instructions of each unit keep theirs, and
    the share of its cycles that this gains, by the estimate.

    An instruction stays behind all that it has to wait for, so the result is unchanged.
    """
    schedule = ProgramTimes(program, shared(program.cycles(memory), program.units))
    before = schedule.times(np.arange(len(program.items))).ends.max(initial=1)
    order = _handed(schedule)
    after = schedule.times(order).ends.max(initial=1)
    return program.reordered(order), float(1 - after / before)


def _handed(schedule: ProgramTimes) -> Integers:
    """The order in which FETCH would hand out instructions."""
    count = len(schedule.units)
    following = np.zeros(count, dtype=np.int64)
    firsts = np.zeros(NUM_QUEUES, dtype=np.int64)
    for unit in range(NUM_QUEUES):
        numbers = np.append(np.flatnonzero(schedule.units == unit), count)
        firsts[unit] = numbers[0]
        following[numbers[:-1]] = numbers[1:]
    order = np.zeros(count, dtype=np.int64)
    _hand_out(
        schedule.units,
        schedule.cycles,
        schedule.conflicts.reshape(-1),
        LATENCIES,
        schedule.depth,
        following,
        firsts,
        np.zeros(NUM_QUEUES * schedule.depth, dtype=np.int64),
        np.zeros(3 * NUM_QUEUES, dtype=np.int64),
        np.full(count, -1, dtype=np.int64),
        order,
    )
    return order


@kernel
def _hand_out(
    units: Array[i64],
    cycles: Array[i64],
    conflicts: Array[i32],
    latencies: Array[i64],
    depth: i64,
    following: Array[i64],
    firsts: Array[i64],
    leave: Array[i64],
    state: Array[i64],
    ends: Array[i64],
    order: Array[i64],
) -> None:
    """Fill `order`.

    `firsts` has the next instruction of each unit, `following` the one behind each of the same
    unit. `leave` and `state` are those of `program_times`. `ends` has -1 for instructions that have
    not been handed out.
    """
    count = len(order)
    at = head = 0
    for place in range(count):
        while ends[head] >= 0:
            head += 1
        number = head
        unit = units[number]
        at += FETCH_CYCLES
        time = at
        if state[unit] >= depth:
            time = max(at, leave[unit * depth + state[unit] % depth])
        if time > at:
            for other in range(_MOVABLE):
                first = firsts[other]
                if other == unit or first >= min(count, head + WINDOW):
                    continue
                when = at
                if state[other] >= depth:
                    when = max(at, leave[other * depth + state[other] % depth])
                if when < time and _is_free(first, conflicts, ends):
                    time = when
                    number = first
        at = time
        unit = units[number]
        leave[unit * depth + state[unit] % depth] = max(state[NUM_QUEUES + unit], at)
        state[unit] += 1
        begin = max(state[2 * NUM_QUEUES + unit], at + QUEUE_CYCLES)
        for k in range(number * NUM_QUEUES, (number + 1) * NUM_QUEUES):
            if conflicts[k] >= 0:
                begin = max(begin, ends[conflicts[k]])
        state[NUM_QUEUES + unit] = begin
        state[2 * NUM_QUEUES + unit] = begin + cycles[number]
        ends[number] = begin + cycles[number] + latencies[unit]
        firsts[unit] = following[number]
        order[place] = number


@kernel
def _is_free(number: i64, conflicts: Array[i32], ends: Array[i64]) -> bool:
    """Whether all that an instruction waits for has been handed out."""
    for k in range(number * NUM_QUEUES, (number + 1) * NUM_QUEUES):
        if conflicts[k] >= 0 and ends[conflicts[k]] < 0:
            return False
    return True
