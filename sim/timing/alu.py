"""The ALU: a rigid sequencer, an issue point behind it, and a result queue before the memories.

The sequencer advances one tick per cycle. A step that leaves it enters the issue point, or waits
before it while the previous step is still there; until it enters, the sequencer stalls.
"""

from daedal.isa.latencies import QUEUE_CYCLES
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.gates import retire
from daedal.sim.timing.state import ALU, NEVER, RING, Core, Front, Plan

__all__ = [
    "READS_SOURCE",
    "READS_TARGET",
    "WRITES_ACC",
    "accept_alu",
    "alu_ready_time",
    "alu_waits",
    "enter_alu",
    "fire_alu",
    "leave_alu",
]

READS_SOURCE, READS_TARGET, WRITES_ACC = 1, 2, 4
"""Bits of `Plan.form`."""

_EXIT_TICKS = 6
"""Ticks from acceptance by the loops until the first step's rows are summed and decoded."""

_SEEN_CYCLES = 3
"""Cycles from a result's write to the first step that may read its row."""

_SPARE = 3
"""Groups that fit between issue and write, beyond the latencies of the pipeline and the queue."""


@kernel
def accept_alu(p: Plan, c: Core, i: i64, t: i64) -> None:
    """The ALU's loops take instruction i in cycle t, which is a tick."""
    tick = c.alu_tick + t - c.alu_end
    place = c.alu_in & (RING - 1)
    c.alu_index[place] = i
    c.alu_first[place] = tick + _EXIT_TICKS
    c.alu_need = tick + max(1, p.steps[i])
    c.alu_in += 1
    if c.alu_exit == NEVER:
        c.alu_exit = t + _EXIT_TICKS
        if c.alu_in == c.alu_out + 1:
            c.alu_step = 0
            c.alu_arrival = max(c.alu_exit, c.alu_over) + 1
            c.alu_try = c.alu_arrival


@kernel
def alu_ready_time(c: Core, at: i64) -> i64:
    """First cycle from `at` on in which the loops accept an instruction; NEVER if not known yet."""
    at = max(at, c.alu_end + c.alu_need - c.alu_tick)
    return at if at <= c.alu_exit else NEVER


@kernel
def enter_alu(p: Plan, c: Core) -> None:
    """The next step enters the issue point; the sequencer runs until the following one leaves."""
    place = c.alu_out & (RING - 1)
    c.alu_entered = 1
    c.alu_tick = c.alu_first[place] + c.alu_step
    c.alu_end = c.alu_arrival - 1
    c.alu_exit = NEVER
    if c.alu_step + 1 < p.steps[c.alu_index[place]]:
        c.alu_exit = c.alu_arrival
    elif c.alu_out + 1 < c.alu_in:
        c.alu_exit = c.alu_end + c.alu_first[c.alu_out + 1 & (RING - 1)] - c.alu_tick


@kernel
def _in_flight(c: Core, row: i64, t: i64) -> bool:
    """Whether `row` counts as in flight in cycle t: less than _SEEN_CYCLES after its write."""
    if c.flight[row] > 0:
        return True
    for before in range(1, _SEEN_CYCLES):
        place = t - before & 1
        if c.left_at[place] == t - before and c.left_row[place] == row:
            return True
    return False


@kernel
def alu_waits(p: Plan, c: Core, t: i64) -> bool:
    """Whether the group at the issue point stalls: pipeline and queue full, or a row in flight."""
    left = i64(c.left_at[t - 1 & 1] == t - 1)
    if c.write_in - c.write_out + left >= p.alu_latency + QUEUE_CYCLES + _SPARE:
        return True
    if c.alu_group > 0:
        return False
    i = c.alu_index[c.alu_out & (RING - 1)]
    if p.steps[i] == 0:
        return False
    k = p.step_at[i] + c.alu_step
    if p.form[i] & READS_SOURCE > 0 and _in_flight(c, p.sources[k], t):
        return True
    return p.form[i] & READS_TARGET > 0 and _in_flight(c, p.targets[k], t)


@kernel
def _end_step(p: Plan, f: Front, c: Core, t: i64) -> None:
    """The last group of the step at the issue point starts in cycle t."""
    i = c.alu_index[c.alu_out & (RING - 1)]
    c.alu_source = 0
    c.alu_target = 0
    c.alu_group = 0
    c.alu_entered = 0
    c.alu_over = t
    c.alu_step += 1
    if c.alu_step >= p.steps[i]:
        f.done[ALU] += 1
        f.done_at[ALU] = t
        c.alu_out += 1
        c.alu_step = 0
    c.alu_arrival = NEVER if c.alu_exit == NEVER else max(c.alu_exit, t) + 1
    c.alu_try = c.alu_arrival


@kernel
def fire_alu(p: Plan, f: Front, c: Core, t: i64) -> None:
    """A group starts in cycle t; if nothing can stall the step, all its groups are scheduled."""
    i = c.alu_index[c.alu_out & (RING - 1)]
    some = p.steps[i] > 0
    groups = p.groups[i] if some else 1
    into_acc = some and p.form[i] & WRITES_ACC != 0
    ends = c.alu_step + 1 >= p.steps[i]
    landing = t + p.alu_latency + QUEUE_CYCLES
    if some and c.alu_group == 0:
        f.work[ALU] += 1
        c.alu_vector = t
    if some:
        c.alu_begin = t
        c.alu_busy = t
    if not into_acc and c.write_in == c.write_out:
        # Results enter OUT one per cycle, without back-pressure.
        c.write_end = max(landing + groups - 1, c.write_end + groups)
        if some:
            f.busy[ALU] += groups
            c.alu_busy = t + groups - 1
        _end_step(p, f, c, t + groups - 1)
        if ends:
            retire(p, f, i, c.write_end + 1, 0, 0)
        return
    f.busy[ALU] += i64(some)
    final = c.alu_group == groups - 1
    place = c.write_in & (RING - 1)
    c.write_ready[place] = landing
    c.write_kind[place] = i64(into_acc) + (2 if final and ends else 0)
    c.write_index[place] = i
    if into_acc:
        row = p.targets[p.step_at[i] + c.alu_step]
        c.write_row[place] = row
        c.flight[row] += 1
    if c.write_in == c.write_out:
        c.write_try = max(landing, c.write_end + 1)
    c.write_in += 1
    if final:
        _end_step(p, f, c, t)
    else:
        c.alu_group += 1
        c.alu_try = t + 1


@kernel
def leave_alu(p: Plan, f: Front, c: Core, t: i64) -> None:
    """The oldest result is written in cycle t."""
    place = c.write_out & (RING - 1)
    c.write_out += 1
    c.write_end = t
    c.left_row[t & 1] = -1
    c.left_at[t & 1] = t
    if c.write_kind[place] & 1:
        c.flight[c.write_row[place]] -= 1
        c.left_row[t & 1] = c.write_row[place]
    if c.write_kind[place] & 2:
        retire(p, f, c.write_index[place], t + 1, 0, 0)
    if c.alu_blocked:
        c.alu_blocked = 0
        c.alu_try = t + 1
    c.write_try = NEVER
    if c.write_out < c.write_in:
        c.write_try = max(c.write_ready[c.write_out & (RING - 1)], t + 1)
