"""Burst splitters of both masters, the read master's grants, and words in flight to a reader."""

from daedal.isa.latencies import MAX_BURST_BEATS, READ_WORD_CYCLES
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.state import (
    NEVER,
    RING,
    SEPARATE,
    TODO_FETCH,
    TODO_LOADS,
    WORD_RING,
    Bus,
    Front,
    Plan,
)

__all__ = [
    "deliver",
    "end_read",
    "grant_read",
    "grant_read_time",
    "offer",
    "pop_word",
    "split",
    "take_burst",
    "word_at",
]


@kernel
def offer(b: Bus, r: i64, at: i64, where: i64, beats: i64, last: i64) -> None:
    """Offer splitter r a request from cycle `at` on; `last`: it ends its instruction."""
    b.offered[r] = 1
    b.offer_at[r] = at
    b.offer_where[r] = where
    b.offer_beats[r] = beats
    b.offer_last[r] = last


@kernel
def _load(p: Plan, b: Bus, r: i64) -> None:
    """Split bursts off the current request while the splitter's output has a free entry."""
    while b.left[r] > 0 and b.loaded[r] < 2:
        at = max(b.begin[r], b.free[r])
        size = min(b.left[r], MAX_BURST_BEATS, p.page_words - b.where[r] % p.page_words)
        where = b.where[r]
        b.where[r] = where + size
        b.left[r] -= size
        # 1: ends its request; 2: also ends its instruction.
        last = (1 + b.request_last[r]) if b.left[r] == 0 else 0
        if b.loaded[r] == 0:
            b.shown[r] = at + 1
            b.burst[r] = size
            b.burst_where[r] = where
            b.burst_last[r] = last
        else:
            b.spare_shown[r] = at + 1
            b.spare[r] = size
            b.spare_where[r] = where
            b.spare_last[r] = last
        b.loaded[r] += 1
        b.begin[r] = at + 1
        if b.left[r] == 0:
            b.ready[r] = at


@kernel
def take_burst(b: Bus, r: i64, t: i64) -> None:
    """The burst that splitter r offers starts in cycle t; the next one moves up."""
    b.loaded[r] -= 1
    if b.loaded[r] > 0:
        b.shown[r] = max(b.spare_shown[r], t + 1)
        b.burst[r] = b.spare[r]
        b.burst_where[r] = b.spare_where[r]
        b.burst_last[r] = b.spare_last[r]
        b.free[r] = t + 1


@kernel
def _advance(p: Plan, b: Bus, r: i64) -> None:
    """Advance the current request, and after its last burst the queued one."""
    _load(p, b, r)
    if b.left[r] > 0 or b.queued[r] == 0:
        return
    at = max(b.queued_at[r], b.ready[r])
    b.queued[r] = 0
    b.where[r] = b.queued_where[r]
    b.left[r] = b.queued_beats[r]
    b.request_last[r] = b.queued_last[r]
    b.begin[r] = at + 1
    b.room[r] = at + 1
    _load(p, b, r)


@kernel
def split(p: Plan, b: Bus, r: i64) -> i64:
    """Advance splitter r: returns when it accepted the offered request, or -1 if it did not."""
    _advance(p, b, r)
    if b.queued[r] > 0 or b.offered[r] == 0:
        return -1
    taken = max(b.offer_at[r], b.room[r])
    b.offered[r] = 0
    b.queued[r] = 1
    b.queued_at[r] = taken
    b.queued_where[r] = b.offer_where[r]
    b.queued_beats[r] = b.offer_beats[r]
    b.queued_last[r] = b.offer_last[r]
    _advance(p, b, r)
    return taken


@kernel
def grant_read_time(p: Plan, b: Bus) -> i64:
    """First cycle in which the read master starts a burst; NEVER if not known yet."""
    at = b.ar_free
    if b.reads >= p.read_bursts:
        old = b.reads - p.read_bursts
        if b.reads_ended <= old:
            return NEVER
        at = max(at, b.read_end[old & (RING - 1)] + 2)
    first = NEVER
    for r in range(2):
        wanted = NEVER
        if b.loaded[r]:
            wanted = b.shown[r]
            need = b.granted[r] + MAX_BURST_BEATS - (p.load_fifo if r else p.fetch_fifo)
            if need > 0:
                if b.popped[r] < need:
                    wanted = NEVER
                else:
                    place = r * WORD_RING + ((need - 1) & (WORD_RING - 1))
                    wanted = max(wanted, b.pop_time[place] + 2)
        b.wanted[r] = wanted
        first = min(first, wanted)
    return max(at, first)


@kernel
def grant_read(p: Plan, f: Front, b: Bus, t: i64) -> None:
    """Start the burst `grant_read_time` predicted for cycle t; FETCH has priority over LOAD."""
    r = 0 if b.wanted[0] <= t else 1
    place = b.reads & (RING - 1)
    b.read_reader[place] = r
    b.read_beats[place] = b.burst[r]
    b.read_where[place] = b.burst_where[r]
    b.read_grant[place] = t
    b.reads += 1
    b.granted[r] += b.burst[r]
    take_burst(b, r, t)
    f.todo |= TODO_LOADS if r else TODO_FETCH
    b.ar_free = NEVER
    ask_read(p, f, b)


@kernel
def ask_read(p: Plan, f: Front, b: Bus) -> None:
    """AR handshake of the burst granted last, once memory can accept it."""
    if b.reads_asked == b.reads:
        return
    number = b.reads_asked
    place = number & (RING - 1)
    at = b.read_grant[place] + 1
    if number >= p.max_reads:
        old = number - p.max_reads
        if b.reads_ended <= old:
            return
        at = max(at, b.read_end[old & (RING - 1)] + 1)
    b.reads_asked += 1
    b.ar_free = at
    b.read_due[place] = at + p.read_latency
    if p.sharing == SEPARATE:
        # Writes do not compete for the bus: the times of all beats are known.
        begin = max(at + p.read_latency, b.read_free)
        size = b.read_beats[place]
        deliver(f, b, b.read_reader[place], size, begin)
        b.read_free = begin + size * p.beat
        b.read_end[place] = begin + (size - 1) * p.beat
        b.reads_ended += 1
        f.still = max(f.still, b.read_end[place] + 2)


@kernel
def end_read(p: Plan, f: Front, b: Bus, t: i64) -> None:
    """The burst that memory served ends with its beat in cycle t."""
    b.read_end[b.reads_ended & (RING - 1)] = t
    b.reads_ended += 1
    b.read_beat = 0
    f.still = max(f.still, t + 2)
    ask_read(p, f, b)


@kernel
def deliver(f: Front, b: Bus, r: i64, size: i64, t: i64) -> None:
    """`size` beats of reader r cross the bus from cycle t on, `Plan.beat` cycles apart."""
    place = r * WORD_RING + (b.piece_in[r] & (WORD_RING - 1))
    b.piece_in[r] += 1
    b.piece_size[place] = size
    b.piece_at[place] = t + READ_WORD_CYCLES
    b.beats_read += size
    f.todo |= TODO_LOADS if r else TODO_FETCH


@kernel
def word_at(p: Plan, b: Bus, r: i64) -> i64:
    """When the next word of reader r is available; NEVER if not known yet."""
    if b.piece_out[r] == b.piece_in[r]:
        return NEVER
    place = r * WORD_RING + (b.piece_out[r] & (WORD_RING - 1))
    return b.piece_at[place] + b.piece_word[r] * p.beat


@kernel
def pop_word(b: Bus, r: i64, t: i64) -> None:
    """Reader r takes its next word in cycle t."""
    b.pop_time[r * WORD_RING + (b.popped[r] & (WORD_RING - 1))] = t
    b.popped[r] += 1
    b.piece_word[r] += 1
    place = r * WORD_RING + (b.piece_out[r] & (WORD_RING - 1))
    if b.piece_word[r] == b.piece_size[place]:
        b.piece_word[r] = 0
        b.piece_out[r] += 1
