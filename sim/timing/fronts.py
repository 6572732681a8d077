"""Fronts of LOAD, STORE and FETCH: memory requests in order, as far ahead as times are known."""

from daedal.isa.latencies import (
    MAX_BURST_BEATS,
    QUEUE_CYCLES,
    STORE_AHEAD,
    STORE_REQUESTS_IN_MASTER,
)
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.reads import offer, split
from daedal.sim.timing.state import (
    LOAD,
    NEVER,
    RING,
    STORE,
    TODO_LOADS,
    TODO_STORES,
    Bus,
    Front,
    Mover,
    Plan,
)

__all__ = ["accept_move", "run_front", "run_requests"]


@kernel
def accept_move(p: Plan, m: Mover, f: Front, d: i64, i: i64, t: i64) -> None:
    """LOAD (d = 0) or STORE (1) takes instruction i in cycle t."""
    moves = i64(p.blocks[i] * p.rows[i] * p.cols[i] > 0)
    m.held[d] = i + 1
    m.held_from[d] = t + 1
    m.left_at[d] = t + 1
    m.slot_due = d if d else m.slot_due
    m.job_due[d] = moves if d else 1
    m.walk_due[d] = moves
    f.ready[STORE if d else LOAD] = NEVER
    f.todo |= TODO_STORES if d else TODO_LOADS


@kernel
def _room(m: Mover, d: i64, depth: i64) -> i64:
    """When the job queue can accept its next entry; NEVER if not known yet."""
    old = m.job_in[d] - depth
    if old < 0:
        return 0
    if m.job_out[d] < old:
        return NEVER
    place = d * RING
    at = m.job_push[place + (old & (RING - 1))] + QUEUE_CYCLES
    if old > 0:
        at = max(at, m.job_pop[place + ((old - 1) & (RING - 1))] + 1)
    return at


@kernel
def _slot_room(p: Plan, m: Mover) -> i64:
    """When STORE's queue of instructions awaiting acknowledgement can accept its next entry."""
    old = m.slot_in - p.write_bursts
    if old < 0:
        return 0
    if m.slot_out < old:
        return NEVER
    at = m.slot_push[old & (RING - 1)] + QUEUE_CYCLES
    if old > 0:
        at = max(at, m.slot_pop[(old - 1) & (RING - 1)] + 1)
    return at


@kernel
def _take_slot(p: Plan, f: Front, m: Mover) -> bool:
    """Enter STORE's held instruction into the queue of those awaiting acknowledgement."""
    at = max(m.held_from[1], _slot_room(p, m))
    if at >= NEVER:
        return False
    i = m.held[1] - 1
    place = m.slot_in & (RING - 1)
    m.slot_push[place] = at
    m.slot_index[place] = i
    m.slot_ack[place] = NEVER if m.walk_due[1] else 0
    m.slot_in += 1
    m.slot_due = 0
    # Its rows and requests are issued in the same cycle at the earliest.
    m.held_from[1] = at
    m.left_at[1] = at
    if not m.walk_due[1]:
        f.done[STORE] += 1
        f.done_at[STORE] = max(f.done_at[STORE], at)
    return True


@kernel
def _leave(p: Plan, f: Front, m: Mover, d: i64) -> bool:
    """Issue the held instruction's job and requests; returns whether any part was issued."""
    if not m.held[d]:
        return False
    if d == 1 and m.slot_due > 0 and not _take_slot(p, f, m):
        return False
    i = m.held[d] - 1
    some = False
    room = _room(m, d, STORE_AHEAD if d else p.read_bursts)
    if m.job_due[d] > 0 and room < NEVER:
        at = max(m.held_from[d], room)
        place = d * RING + (m.job_in[d] & (RING - 1))
        m.job_push[place] = at
        m.job_index[place] = i
        m.job_in[d] += 1
        m.job_due[d] = 0
        m.left_at[d] = max(m.left_at[d], at)
        some = True
    if m.walk_due[d] > 0 and m.walking[d] == 0:
        at = max(m.held_from[d], m.walk_free[d])
        m.walking[d] = 1
        m.walk_index[d] = i
        m.walk_at[d] = at + 1
        m.walk_rows[d] = p.rows[i]
        m.walk_blocks[d] = p.blocks[i]
        m.row_address[d] = p.address[i]
        m.block_address[d] = p.address[i]
        m.walk_due[d] = 0
        m.left_at[d] = max(m.left_at[d], at)
        some = True
    if m.job_due[d] == 0 and m.walk_due[d] == 0:
        m.held[d] = 0
        f.ready[STORE if d else LOAD] = m.left_at[d] + 1
        some = True
    return some


@kernel
def _ask(p: Plan, b: Bus, m: Mover, d: i64) -> None:
    """Offer the request for the current row."""
    if m.walking[d] == 0 or b.offered[d + 1] > 0:
        return
    i = m.walk_index[d]
    at = m.walk_at[d]
    if d == 1:
        old = m.requests - (p.write_bursts + STORE_REQUESTS_IN_MASTER)
        if old >= 0:
            if m.responses <= old:
                return
            at = max(at, m.response[old & (RING - 1)] + 1)
    last = m.walk_rows[d] == 1 and m.walk_blocks[d] == 1
    offer(b, d + 1, at, m.row_address[d], p.request_beats[i], i64(last))


@kernel
def _step(p: Plan, m: Mover, d: i64, t: i64) -> None:
    """The current request was accepted in cycle t: step to the next row."""
    i = m.walk_index[d]
    m.walk_at[d] = t + 1
    if d == 1:
        m.requests += 1
    if m.walk_rows[d] > 1:
        m.row_address[d] += p.row_stride[i]
        m.walk_rows[d] -= 1
        return
    m.block_address[d] += p.block_stride[i]
    m.row_address[d] = m.block_address[d]
    m.walk_rows[d] = p.rows[i]
    m.walk_blocks[d] -= 1
    if m.walk_blocks[d] == 0:
        m.walking[d] = 0
        m.walk_free[d] = t


@kernel
def run_front(p: Plan, f: Front, b: Bus, m: Mover, d: i64) -> None:
    """Advance a front, its row walk and its splitter until none can make progress."""
    while True:
        left = _leave(p, f, m, d)
        _ask(p, b, m, d)
        taken = split(p, b, d + 1)
        if taken >= 0:
            _step(p, m, d, taken)
        elif not left:
            return


@kernel
def run_requests(p: Plan, b: Bus) -> None:
    """FETCH's requests: the program in chunks of at most MAX_BURST_BEATS words."""
    while True:
        size = min(p.program_words - b.fetch_asked, MAX_BURST_BEATS)
        if size > 0 and b.offered[0] == 0:
            offer(b, 0, b.fetch_from, p.program_address + b.fetch_asked, size, 0)
            b.fetch_asked += size
        taken = split(p, b, 0)
        if taken < 0:
            return
        b.fetch_from = taken + 1
