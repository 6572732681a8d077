"""GEMM: runs of products that issue one per cycle, until a withheld bank delays them by a cycle.

A run is a sequence of steps in consecutive cycles; the pipeline behind the issue never stalls. So
the cycles of an instruction's products are known when GEMM accepts it; a hold delays the rest.
"""

from daedal.isa.latencies import ACC_READ_TO_WRITE_CYCLES
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.gates import retire
from daedal.sim.timing.state import GEMM, NEVER, NO_BANK, RING, Core, Front, Plan

__all__ = [
    "accept_gemm",
    "gemm_bank",
    "gemm_issues",
    "gemm_ready_time",
    "hold_gemm",
    "leave_gemm",
]

_ISSUE_CYCLES = 5
"""Cycles from acceptance by the loops to the first step at the issue point."""


@kernel
def accept_gemm(p: Plan, c: Core, i: i64, t: i64) -> None:
    """GEMM's loops accept instruction i in cycle t."""
    size = max(1, p.steps[i])
    place = c.runs & (RING - 1)
    c.run_at[place] = t + _ISSUE_CYCLES
    c.run_step[place] = p.step_at[i]
    c.run_size[place] = size
    c.runs += 1
    c.last_issue = t + _ISSUE_CYCLES + size - 1
    place = c.leaves_in & (RING - 1)
    c.leave_at[place] = c.last_issue
    c.leave_index[place] = i
    c.leaves_in += 1
    c.issues += p.steps[i]


@kernel
def gemm_ready_time(c: Core, at: i64) -> i64:
    """First cycle from `at` on in which the loops accept an instruction, barring later stalls.

    They hold the last step `_ISSUE_CYCLES` - 1 cycles before it issues; a stall stops them too.
    """
    return max(at, c.last_issue - _ISSUE_CYCLES + 1, c.stalled + 1)


@kernel
def _run_of(c: Core, t: i64) -> i64:
    """Number of the run that has a step in cycle t, or -1."""
    if t > c.last_issue:
        return -1
    number = c.runs - 1
    while number >= 0 and number > c.runs - RING:
        place = number & (RING - 1)
        if c.run_at[place] <= t:
            return number if t < c.run_at[place] + c.run_size[place] else -1
        number -= 1
    return -1


@kernel
def gemm_bank(p: Plan, c: Core, t: i64) -> i64:
    """Bank of the product that issues in cycle t, or -1."""
    number = _run_of(c, t)
    if number < 0:
        return -1
    place = number & (RING - 1)
    bank = p.banks[c.run_step[place] + t - c.run_at[place]]
    return -1 if bank == NO_BANK else bank


@kernel
def gemm_issues(p: Plan, c: Core, upto: i64) -> i64:
    """Products issued up to a recent cycle."""
    total = c.issues
    number = c.runs - 1
    while number >= 0 and number > c.runs - RING:
        place = number & (RING - 1)
        begin = c.run_at[place]
        if p.banks[c.run_step[place]] != NO_BANK:
            total -= max(0, begin + c.run_size[place] - 1 - max(upto, begin - 1))
        if begin <= upto:
            return total
        number -= 1
    return total


@kernel
def hold_gemm(p: Plan, c: Core, t: i64) -> None:
    """Cycle t withholds the banks of `hold`: a product for one of them stalls, and all after it."""
    hold = c.hold[t & 1]
    c.hold_due = t + 1 if c.hold_at[t + 1 & 1] == t + 1 else NEVER
    bank = gemm_bank(p, c, t)
    if bank < 0 or hold >> bank & 1 == 0:
        return
    number = _run_of(c, t)
    place = number & (RING - 1)
    before = t - c.run_at[place]
    if before > 0:
        # Split the run in two; later runs move up by one entry.
        later = c.runs
        while later > number + 1:
            to, source = later & (RING - 1), (later - 1) & (RING - 1)
            c.run_at[to] = c.run_at[source]
            c.run_step[to] = c.run_step[source]
            c.run_size[to] = c.run_size[source]
            later -= 1
        to = (number + 1) & (RING - 1)
        c.run_at[to] = t
        c.run_step[to] = c.run_step[place] + before
        c.run_size[to] = c.run_size[place] - before
        c.run_size[place] = before
        c.runs += 1
        number += 1
    for later in range(number, c.runs):
        c.run_at[later & (RING - 1)] += 1
    for leave in range(c.leaves_out, c.leaves_in):
        c.leave_at[leave & (RING - 1)] += 1
    c.last_issue += 1
    c.stalled = t


@kernel
def leave_gemm(p: Plan, f: Front, c: Core, t: i64) -> None:
    """The last step of an instruction issues in cycle t."""
    i = c.leave_index[c.leaves_out & (RING - 1)]
    c.leaves_out += 1
    f.done[GEMM] += 1
    f.done_at[GEMM] = t
    retire(p, f, i, t + p.gemm_lead + ACC_READ_TO_WRITE_CYCLES + 1, 0, 0)
