"""The write master: bursts, words in flight to W, acknowledgements, and mark records."""

from daedal.isa.latencies import MARK_HEARD_CYCLES, MARKS_IN_FLIGHT
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.gates import SNAPS, gate_time
from daedal.sim.timing.reads import offer, split, take_burst
from daedal.sim.timing.state import (
    MARK,
    NEVER,
    RING,
    SDRAM,
    TODO_MARKS,
    TODO_STORES,
    Bus,
    Front,
    Mover,
    Plan,
)
from daedal.sim.timing.store import cut_word

__all__ = [
    "acknowledge",
    "choose_mark",
    "choose_mark_time",
    "end_write",
    "grant_write",
    "grant_write_time",
    "move_words",
    "run_marks",
]

_CHOOSES, _ASKS, _GIVES = 0, 1, 2


@kernel
def grant_write_time(p: Plan, b: Bus) -> i64:
    """First cycle in which the write master starts a burst; NEVER if not known yet."""
    at = b.aw_free
    if b.writes >= p.write_bursts:
        old = b.writes - p.write_bursts
        if b.writes_acked <= old:
            return NEVER
        at = max(at, b.write_ack[old & (RING - 1)] + 2)
    first = NEVER
    for s in range(2, 4):
        if b.loaded[s]:
            first = min(first, b.shown[s])
    return max(at, first)


@kernel
def grant_write(p: Plan, f: Front, b: Bus, t: i64) -> None:
    """Start the burst `grant_write_time` predicted for cycle t; STORE has priority over marks."""
    s = 2 if b.loaded[2] > 0 and b.shown[2] <= t else MARK
    place = b.writes & (RING - 1)
    b.write_writer[place] = s
    b.write_beats[place] = b.burst[s]
    b.write_where[place] = b.burst_where[s]
    b.write_last[place] = b.burst_last[s]
    b.write_grant[place] = t
    b.writes += 1
    take_burst(b, s, t)
    f.todo |= TODO_STORES if s == 2 else TODO_STORES | TODO_MARKS
    b.aw_free = NEVER
    ask_write(p, b)


@kernel
def ask_write(p: Plan, b: Bus) -> None:
    """AW handshake of the burst granted last, once memory can accept it."""
    if b.writes_asked == b.writes:
        return
    place = b.writes_asked & (RING - 1)
    at = b.write_grant[place] + 1
    old = b.writes_asked - p.max_writes
    if old >= 0:
        if b.writes_acked <= old:
            return
        at = max(at, b.write_ack[old & (RING - 1)] + 1)
    b.writes_asked += 1
    b.write_open[place] = at
    b.aw_free = at


@kernel
def _move_word(p: Plan, f: Front, b: Bus, m: Mover) -> bool:
    """Move the next word of the oldest burst into the buffer before W; returns whether it did."""
    if b.word_held > 1 or b.bursts_moved == b.writes:
        return False
    place = b.bursts_moved & (RING - 1)
    at = max(b.write_grant[place] + 2, b.burst_move + 1, b.word_room)
    if b.write_writer[place] == MARK:
        if m.mark_state != _GIVES:
            return False
        at = max(at, m.mark_from)
        m.mark_word += 1
        if m.mark_word == p.mark_words:
            m.mark_word = 0
            m.mark_state = _CHOOSES
            m.mark_from = at + 2
            u = m.mark_unit
            m.mark_out[u] += 1
            f.place_times[u * RING + (f.places_freed[u] & (RING - 1))] = at + 1
            f.places_freed[u] += 1
            f.gate[u] = gate_time(p, f, u)
    else:
        if m.words_cut == m.words_moved:
            return False
        number = m.words_moved & (RING - 1)
        at = max(at, m.word_at[number] + 1)
        m.word_left[number] = at
        m.words_moved += 1
    if b.word_held == 0:
        b.word_from = at + 1
    else:
        b.spare_from = at + 1
    b.word_held += 1
    b.word_room = max(b.word_room, at + 1)
    b.move_beat += 1
    if b.move_beat == b.write_beats[place]:
        b.move_beat = 0
        b.burst_move = at
        b.bursts_moved += 1
    return True


@kernel
def move_words(p: Plan, f: Front, b: Bus, m: Mover) -> bool:
    """Cut and move words until neither can make progress; returns whether a word was cut."""
    cut = False
    while True:
        if cut_word(f, m):
            cut = True
        elif not _move_word(p, f, b, m):
            return cut


@kernel
def end_write(p: Plan, f: Front, b: Bus, m: Mover, t: i64) -> None:
    """The last beat of the oldest burst crosses W in cycle t; an SDRAM acknowledges it later."""
    b.write_end[b.writes_moved & (RING - 1)] = t
    b.writes_moved += 1
    b.write_beat = 0
    if p.sharing != SDRAM:
        acknowledge(p, f, b, m, t + p.write_latency)


@kernel
def acknowledge(p: Plan, f: Front, b: Bus, m: Mover, t: i64) -> None:
    """The oldest burst without a B gets it in cycle t, or after the B before it."""
    place = b.writes_acked & (RING - 1)
    at = max(t, b.ack_last + 1)
    b.ack_last = at
    b.write_ack[place] = at
    b.writes_acked += 1
    f.still = max(f.still, at + 2)
    f.todo |= TODO_STORES | TODO_MARKS
    ask_write(p, b)
    if not b.write_last[place]:
        return
    if b.write_writer[place] == MARK:
        m.mark_response[m.marks_answered & (RING - 1)] = at + 2
        m.marks_answered += 1
        f.still = max(f.still, at + 3)
        return
    m.response[m.responses & (RING - 1)] = at + 2
    m.responses += 1
    if b.write_last[place] == 2:
        while m.slot_ack[m.slot_acked & (RING - 1)] != NEVER:
            m.slot_acked += 1
        m.slot_ack[m.slot_acked & (RING - 1)] = at + 3
        m.slot_acked += 1


@kernel
def _seen(f: Front, m: Mover, u: i64) -> i64:
    """When the recorder sees the oldest record of u that it has not taken yet."""
    return f.snap_time[SNAPS * u + (m.mark_out[u] & (SNAPS - 1))] + MARK_HEARD_CYCLES


@kernel
def choose_mark_time(p: Plan, f: Front, m: Mover) -> i64:
    """When the recorder sees a record and is free to take it."""
    if m.mark_state != _CHOOSES or not p.has_recorder:
        return NEVER
    first = NEVER
    for u in range(4):
        if m.mark_out[u] < f.snap_in[u]:
            first = min(first, _seen(f, m, u))
    return max(first, m.mark_from)


@kernel
def choose_mark(f: Front, m: Mover, t: i64) -> None:
    """The recorder takes the record of the lowest-numbered unit that has one."""
    m.mark_unit = -1
    for u in range(4):
        waits = m.mark_unit < 0 and m.mark_out[u] < f.snap_in[u]
        if waits and _seen(f, m, u) <= t:
            m.mark_unit = u
    m.mark_state = _ASKS
    m.mark_from = t + 1
    f.todo |= TODO_MARKS


@kernel
def run_marks(p: Plan, f: Front, b: Bus, m: Mover) -> None:
    """Advance the recorder's request and its splitter."""
    if m.mark_state == _ASKS and b.offered[MARK] == 0:
        at = m.mark_from
        old = m.marks_sent - MARKS_IN_FLIGHT
        if old >= 0 and m.marks_answered <= old:
            return
        if old >= 0:
            at = max(at, m.mark_response[old & (RING - 1)] + 1)
        offer(b, MARK, at, p.marks_address + m.marks_sent * p.mark_words, p.mark_words, 0)
    taken = split(p, b, MARK)
    if taken >= 0:
        m.marks_sent += 1
        m.mark_state = _GIVES
        m.mark_from = taken + 1
        f.todo |= TODO_STORES
