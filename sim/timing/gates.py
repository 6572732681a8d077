"""Instruction queues, gates and tokens, and the classification of each unit's cycles."""

from daedal.isa.latencies import MARKS_PER_UNIT, QUEUE_CYCLES
from daedal.native.kernel import kernel
from daedal.native.types import Array, i64
from daedal.sim.timing.state import NEVER, RING, TODO_FETCH, Front, Plan

__all__ = ["COUNTS", "SNAPS", "gate_time", "record", "retire", "take", "waiting"]

COUNTS = 8
"""Numbers of a mark record: cycles by class, then work."""

SNAPS = 256
"""Ring entries per unit for retirements whose records are not taken yet."""


@kernel
def _shown(p: Plan, f: Front, u: i64, slot: i64) -> i64:
    """First cycle in which instruction `slot` of u is at the output of its queue."""
    at = f.dispatched[p.order[p.order_at[u] + slot]]
    if at < 0:
        return NEVER
    at += QUEUE_CYCLES
    return at if slot == 0 else max(at, f.passed[p.order_at[u] + slot - 1] + 1)


@kernel
def gate_time(p: Plan, f: Front, u: i64) -> i64:
    """First cycle in which the next instruction of u has its tokens and a free mark entry."""
    slot = f.head[u]
    if slot >= p.order_at[u + 1] - p.order_at[u]:
        return NEVER
    i = p.order[p.order_at[u] + slot]
    at = _shown(p, f, u, slot)
    for giver in range(4):
        if p.pop[i] >> giver & 1:
            pair = 4 * giver + u
            if f.given[pair] <= f.taken[pair]:
                return NEVER
            at = max(at, f.gives[p.give_at[pair] + f.taken[pair]] + 1)
    if p.mark[i] and p.has_recorder:
        number = f.places_taken[u] - MARKS_PER_UNIT
        if number >= 0:
            if f.places_freed[u] <= number:
                return NEVER
            at = max(at, f.place_times[u * RING + (number & (RING - 1))] + 1)
    return at


@kernel
def waiting(p: Plan, f: Front, u: i64, upto: i64, idle: Array[i64], waits: Array[i64]) -> None:
    """Add the cycles up to `upto` in which u was idle or waited for a token.

    They lie between the last active cycle of the instructions it has taken and its next one.
    """
    head = f.head[u]
    if f.done[u] < head:
        return
    at = f.done_at[u] + 1
    if at > upto:
        return
    draining = NEVER if f.retired[u] < head else f.retired_at[u]
    some = head < p.order_at[u + 1] - p.order_at[u]
    shown = _shown(p, f, u, head) if some else NEVER
    last = min(upto, shown - 1)
    idle[u] += max(0, last - max(at - 1, draining))
    at = max(at, shown)
    if not some:
        return
    i = p.order[p.order_at[u] + head]
    for giver in range(4):
        if p.pop[i] >> giver & 1:
            pair = 4 * giver + u
            end = upto
            if f.given[pair] > f.taken[pair]:
                end = min(end, f.gives[p.give_at[pair] + f.taken[pair]])
            if end >= at:
                waits[4 * u + giver] += end - at + 1
                at = end + 1


@kernel
def take(p: Plan, f: Front, u: i64, t: i64, busy: i64) -> i64:
    """The gate of u passes its next instruction in cycle t; returns it.

    `busy`: the cycle is already counted as busy.
    """
    waiting(p, f, u, t - 1, f.idle, f.waits)
    slot = f.head[u]
    i = p.order[p.order_at[u] + slot]
    for giver in range(4):
        if p.pop[i] >> giver & 1:
            f.taken[4 * giver + u] += 1
    if p.mark[i]:
        f.places_taken[u] += 1
    if not busy:
        f.alone[u] += 1
    f.passed[p.order_at[u] + slot] = t
    f.head[u] = slot + 1
    f.still = max(f.still, t + 1)
    f.todo |= TODO_FETCH
    f.gate[u] = gate_time(p, f, u)
    return i


@kernel
def retire(p: Plan, f: Front, i: i64, t: i64, busy: i64, work: i64) -> None:
    """Instruction i retires in cycle t: tokens, and a record where it is marked.

    `busy` and `work` are LOAD's counts up to cycle t - 2, as its filler may run ahead; other units
    pass 0, and `_take_records` in `loop.py` computes theirs.
    """
    u = p.unit[i]
    f.retired[u] += 1
    f.retired_at[u] = t
    f.changed = 1
    f.still = max(f.still, t + 1)
    for taker in range(4):
        if p.push[i] >> taker & 1:
            pair = 4 * u + taker
            f.gives[p.give_at[pair] + f.given[pair]] = t
            f.given[pair] += 1
            f.gate[taker] = gate_time(p, f, taker)
    if p.mark[i]:
        place = SNAPS * u + (f.snap_in[u] & (SNAPS - 1))
        f.snap_in[u] += 1
        f.snap_index[place] = i
        f.snap_time[place] = t
        f.snap_busy[place] = busy
        f.snap_work[place] = work


@kernel
def record(p: Plan, f: Front, u: i64, busy: i64, work: i64) -> None:
    """Take the record of the oldest retirement of u, in the cycle before it.

    Counters lag by two cycles. STALL counts the cycles that belong to no other class.
    """
    place = SNAPS * u + (f.snap_out[u] & (SNAPS - 1))
    f.snap_out[u] += 1
    i = f.snap_index[place]
    upto = f.snap_time[place] - 2
    idle, stays = f.idle[u], 0
    for giver in range(4):
        f.saved[giver] = f.waits[4 * u + giver]
    waiting(p, f, u, upto, f.idle, f.waits)
    at = COUNTS * i
    f.mark_cycle[i] = upto
    f.mark_counts[at] = f.idle[u]
    f.mark_counts[at + 1] = busy + f.alone[u]
    stays = upto - f.idle[u] - busy - f.alone[u]
    for giver in range(4):
        f.mark_counts[at + 2 + giver] = f.waits[4 * u + giver]
        stays -= f.waits[4 * u + giver]
        f.waits[4 * u + giver] = f.saved[giver]
    f.idle[u] = idle
    f.mark_counts[at + 6] = stays
    f.mark_counts[at + 7] = work
