"""An SDRAM behind the bus: which bursts are taken, and in which decision each segment starts.

The rules are those of `hw.boards.sdram.controller`. Only decisions in which something changes are
evaluated: a segment's words move in consecutive ones. The machine always takes R and B, so the
start of a segment determines when its words are on the bus.
"""

from daedal.isa.sdram_memory import (
    ANSWER_CYCLES,
    REQUEST_CYCLES,
    SLOT_CYCLES,
    SPLIT_CYCLES,
    TURN_BURSTS,
    WHOLE_CYCLES,
)
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.reads import deliver, end_read
from daedal.sim.timing.sdram_state import Sdram
from daedal.sim.timing.state import NEVER, RING, Bus, Front, Mover, Plan
from daedal.sim.timing.writes import acknowledge

__all__ = ["sdram_cycle", "sdram_time"]


@kernel
def _read_time(b: Bus, s: Sdram) -> i64:
    """Rule 1: when the next read waits."""
    if s.reads_taken == b.reads_asked:
        return NEVER
    return max(b.read_due[s.reads_taken & (RING - 1)], s.read_from)


@kernel
def _write_time(b: Bus, s: Sdram) -> i64:
    """Rule 1: when the next write waits, if its last W is known."""
    if s.writes_taken == b.writes_moved:
        return NEVER
    place = s.writes_taken & (RING - 1)
    at = max(b.write_open[place] + REQUEST_CYCLES, b.write_end[place] + WHOLE_CYCLES)
    return max(at, s.write_from)


@kernel
def _decision(s: Sdram, t: i64) -> i64:
    """The first decision cycle from t on."""
    return t + ((t - s.decision) & (SLOT_CYCLES - 1))


@kernel
def _take(b: Bus, s: Sdram, t: i64) -> None:
    """Rule 3: the splitter takes a burst in cycle t."""
    reads, writes = _read_time(b, s) <= t, _write_time(b, s) <= t
    turn_write = (s.writing != 0) != (s.in_a_row >= TURN_BURSTS)
    write = writes and (turn_write or not reads)
    if write == (s.writing != 0):
        s.in_a_row += 1
    else:
        s.in_a_row = 1
    s.writing = i64(write)
    s.has_burst = 1
    s.burst_write = i64(write)
    if write:
        place = s.writes_taken & (RING - 1)
        s.burst_number = s.writes_taken
        s.burst_at = b.write_where[place]
        s.burst_left = b.write_beats[place]
        s.writes_taken += 1
        s.write_from = t + 1
    else:
        place = s.reads_taken & (RING - 1)
        s.burst_number = s.reads_taken
        s.burst_at = b.read_where[place]
        s.burst_left = b.read_beats[place]
        s.reads_taken += 1
        s.read_from = t + 1
    s.segment_at = t + SPLIT_CYCLES


@kernel
def _accept(s: Sdram, t: i64) -> None:
    """Rules 4 and 5: the splitter's segment becomes the next one in decision t."""
    column = s.burst_at % s.row_words
    line = s.burst_at // s.row_words
    words = min(s.burst_left, s.row_words - column)
    s.has_next = 1
    s.next_write = s.burst_write
    s.next_number = s.burst_number
    s.next_bank = line & s.bank_mask
    s.next_row = line >> s.bank_bits
    s.next_words = words
    s.burst_at += words
    s.burst_left -= words
    s.next_last = i64(s.burst_left == 0)
    s.segment_at = t + SPLIT_CYCLES
    if s.burst_left == 0:
        s.has_burst = 0
        s.free_at = t


@kernel
def _start(p: Plan, f: Front, b: Bus, m: Mover, s: Sdram, t: i64) -> None:
    """Rules 6 and 11: the next segment becomes the current one in decision t."""
    s.has_next = 0
    s.current_write = s.next_write
    s.current_bank = s.next_bank
    s.end_at = t + SLOT_CYCLES * s.next_words
    if s.next_write:
        if s.next_last:
            acknowledge(p, f, b, m, s.end_at + ANSWER_CYCLES)
        return
    reader = b.read_reader[s.next_number & (RING - 1)]
    deliver(f, b, reader, s.next_words, t + SLOT_CYCLES + s.word_cycles)
    if s.next_last:
        end_read(p, f, b, s.end_at + s.word_cycles)


@kernel
def _starts(s: Sdram, t: i64) -> bool:
    """Rule 7."""
    if s.has_next == 0 or s.is_due != 0 or t < s.wait_at or s.rows[s.next_bank] != s.next_row:
        return False
    if t > s.end_at:
        return True
    return t == s.end_at and (s.current_write != 0 or s.next_write == 0)


@kernel
def _open(s: Sdram, t: i64) -> None:
    """Rule 8: a command for the next segment's row."""
    if s.has_next == 0 or s.is_due != 0 or t < s.wait_at or s.rows[s.next_bank] == s.next_row:
        return
    if t <= s.end_at and s.next_bank == s.current_bank:
        return
    if s.rows[s.next_bank] < 0:
        s.rows[s.next_bank] = s.next_row
        s.wait_at = t + s.activate
        s.held_at = t + s.held
    elif t >= s.held_at:
        s.rows[s.next_bank] = -1
        s.wait_at = t + s.precharge


@kernel
def _refresh(s: Sdram, t: i64) -> None:
    """Rule 9."""
    if s.is_due != 0 and t > s.end_at and t >= s.wait_at:
        if s.is_shut:
            s.is_shut = 0
            s.is_due = 0
            s.wait_at = t + s.refresh
        elif t >= s.held_at:
            s.is_shut = 1
            for bank in range(s.bank_mask + 1):
                s.rows[bank] = -1
            s.wait_at = t + s.precharge
    if t == s.due_at:
        s.is_due = 1
        s.due_at = t + s.interval


@kernel
def _next_decision(s: Sdram, t: i64) -> i64:
    """The first decision after t that may change something, if no burst is taken until then."""
    soon = t + SLOT_CYCLES
    at = s.due_at
    if s.is_due:
        work = max(soon, s.wait_at, s.end_at + SLOT_CYCLES)
        if s.is_shut == 0:
            work = max(work, s.held_at)
        at = min(at, work)
    elif s.has_next:
        work = max(soon, s.wait_at)
        row = s.rows[s.next_bank]
        if row == s.next_row:
            turns = s.current_write == 0 and s.next_write != 0
            work = max(work, s.end_at + SLOT_CYCLES if turns else s.end_at)
        else:
            if s.next_bank == s.current_bank:
                work = max(work, s.end_at + SLOT_CYCLES)
            if row >= 0:
                work = max(work, s.held_at)
        at = min(at, work)
    if s.has_burst != 0 and s.has_next == 0:
        at = min(at, max(soon, _decision(s, s.segment_at)))
    return at


@kernel
def _decide(p: Plan, f: Front, b: Bus, m: Mover, s: Sdram, t: i64) -> None:
    """Everything that decision t changes."""
    starts = _starts(s, t)
    accepts = s.has_burst != 0 and t >= s.segment_at and (s.has_next == 0 or starts)
    _open(s, t)
    _refresh(s, t)
    if starts:
        _start(p, f, b, m, s, t)
    if accepts:
        _accept(s, t)
    s.decision = _next_decision(s, t)


@kernel
def sdram_time(b: Bus, s: Sdram) -> i64:
    """The next cycle in which something changes; without bursts, that is none."""
    at = NEVER
    if s.has_burst == 0:
        at = max(min(_read_time(b, s), _write_time(b, s)), s.free_at)
    if s.has_burst + s.has_next > 0:
        at = min(at, s.decision)
    return at


@kernel
def sdram_cycle(p: Plan, f: Front, b: Bus, m: Mover, s: Sdram, t: i64) -> None:
    """Evaluate cycle t, after the refreshes before it."""
    while s.decision <= t:
        _decide(p, f, b, m, s, s.decision)
    if s.has_burst == 0 and min(_read_time(b, s), _write_time(b, s)) <= t:
        _take(b, s, t)
        if s.has_next == 0:
            s.decision = min(s.decision, _decision(s, s.segment_at))
