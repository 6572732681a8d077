"""LOAD's filler: writes words and padding into scratchpads, cycle by cycle or a burst at once.

Only the accumulators can stall it. For other memories it runs ahead of the rest of the model, as
far as the arrival of words is known; for the accumulators it advances with them cycle by cycle.
"""

from daedal.isa.latencies import QUEUE_CYCLES
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.gates import retire
from daedal.sim.timing.reads import pop_word, word_at
from daedal.sim.timing.state import (
    LOAD,
    NEVER,
    RING,
    WORD_RING,
    Bus,
    Core,
    Front,
    Mover,
    Plan,
)

__all__ = ["bank_of", "fill_cycle", "filler_busy", "run_filler"]

ALL = (1 << 30) - 1
"""A mask that covers all columns of any row."""

INP, ACC = 1, 2


@kernel
def bank_of(p: Plan, row: i64) -> i64:
    """Accumulator bank of a row."""
    return (row & ((1 << p.bank_bits) - 1)) | (row >> p.top_bit & 1) << p.bank_bits


@kernel
def _busy(f: Front, c: Core, first: i64, last: i64) -> None:
    """The filler is busy in cycles first to last."""
    f.busy[LOAD] += last - first + 1
    place = 2 * (c.span_count & (RING - 1))
    if c.span_count > 0 and c.spans[place + 1] == first - 1:
        c.spans[place + 1] = last
    else:
        c.span_count += 1
        place = 2 * (c.span_count & (RING - 1))
        c.spans[place] = first
        c.spans[place + 1] = last
    while c.pending_out < c.pending_in:
        at = c.pending[c.pending_out & (RING - 1)]
        if at > last:
            return
        if at >= first:
            # Count the cycle once: at the acceptance the unit did not count as busy yet.
            f.alone[LOAD] -= 1
        c.pending_out += 1


@kernel
def filler_busy(c: Core, t: i64) -> bool:
    """Whether the filler is busy in cycle t, in which LOAD accepts an instruction."""
    if t >= c.now:
        c.pending[c.pending_in & (RING - 1)] = t
        c.pending_in += 1
        return False
    number = c.span_count
    while number > 0 and number > c.span_count - RING:
        place = 2 * (number & (RING - 1))
        if c.spans[place] <= t:
            return c.spans[place + 1] >= t
        number -= 1
    return False


@kernel
def _start(p: Plan, m: Mover, c: Core) -> bool:
    """Take the next job, if there is one."""
    number = m.job_out[0]
    if number == m.job_in[0]:
        return False
    place = number & (RING - 1)
    shown = m.job_push[place] + QUEUE_CYCLES
    at = max(shown, c.over)
    # The queue pops a cycle later, and an idle filler needs another cycle to set up its walks.
    m.job_pop[place] = at + 1
    m.job_out[0] = number + 1
    i = m.job_index[place]
    c.on = 1
    c.index = i
    c.begin = max(at + 1, shown + 2)
    c.target = p.target[i]
    c.words = p.row_words[i]
    c.beat = 0
    shape = p.rows[i] * p.cols[i]
    pads = p.pad_top[i] + p.pad_bottom[i] + p.pad_left[i] + p.pad_right[i] > 0
    height = p.pad_top[i] + p.rows[i] + p.pad_bottom[i]
    width = p.pad_left[i] + p.cols[i] + p.pad_right[i]
    some = p.blocks[i] > 0
    c.has_data = i64(shape > 0 and some)
    c.data_done = 1 - c.has_data
    c.data_in = i64(c.has_data > 0 and p.pad_top[i] == 0)
    c.data_left = p.cols[i]
    c.data_y = 0
    c.data_block = 0
    c.data_row = p.first_row[i] + p.pad_left[i]
    c.pad_done = 1 - i64((pads or shape == 0) and some and height * width > 0)
    c.bare = c.pad_done
    c.words_left = p.blocks[i] * shape * c.words
    c.pad_in_x = i64(p.pad_left[i] == 0)
    c.pad_in_y = c.data_in
    c.pad_x = 0
    c.pad_y = 0
    c.pad_block = 0
    c.pad_row = p.first_row[i]
    c.missing = (1 << p.inp_words) - 1
    return True


@kernel
def _next_line(p: Plan, c: Core) -> None:
    """Advance the data walk to its next line."""
    i = c.index
    y = c.data_y + 1
    top = p.pad_top[i]
    inside = c.has_data > 0 and (c.data_in > 0 or y == top) and y != top + p.rows[i]
    if y == top + p.rows[i] + p.pad_bottom[i]:
        y = 0
        inside = c.has_data > 0 and top == 0
        c.data_block += 1
    c.data_y = y
    c.data_in = i64(inside)


@kernel
def _step_data(p: Plan, c: Core) -> bool:
    """Advance past a row of data, or a line without data; returns whether it was the last data."""
    i = c.index
    top, rows = p.pad_top[i], p.rows[i]
    last_line = c.data_y + 1 == top + rows and c.data_block == p.blocks[i] - 1
    last = c.data_in > 0 and c.data_left == 1 and last_line
    if c.data_in > 0 and c.data_left > 1:
        c.data_left -= 1
        c.data_row += 1
        return False
    if c.data_in:
        c.data_row += p.pad_left[i] + p.pad_right[i] + 1
    else:
        c.data_row += p.pad_left[i] + p.cols[i] + p.pad_right[i]
    c.data_left = p.cols[i]
    _next_line(p, c)
    return last


@kernel
def _step_pads(p: Plan, c: Core) -> bool:
    """Advance past a row of padding, or a line's data; returns whether the walk is over."""
    i = c.index
    top, left, cols = p.pad_top[i], p.pad_left[i], p.cols[i]
    height = top + p.rows[i] + p.pad_bottom[i]
    width = left + cols + p.pad_right[i]
    at_data = c.pad_in_x > 0 and c.pad_in_y > 0
    line_end = p.pad_right[i] == 0 if at_data else c.pad_x == width - 1
    c.pad_row += cols if at_data else 1
    if not line_end:
        if at_data:
            c.pad_x = left + cols
            c.pad_in_x = 0
        else:
            c.pad_x += 1
            c.pad_in_x = i64((c.pad_in_x > 0 or c.pad_x == left) and c.pad_x != left + cols)
        return False
    last = c.pad_y == height - 1 and c.pad_block == p.blocks[i] - 1
    c.pad_x = 0
    c.pad_in_x = i64(left == 0)
    y = c.pad_y + 1
    inside = c.has_data > 0 and (c.pad_in_y > 0 or y == top) and y != top + p.rows[i]
    if y == height:
        y = 0
        inside = c.has_data > 0 and top == 0
        c.pad_block += 1
    c.pad_y = y
    c.pad_in_y = i64(inside)
    return last


@kernel
def fill_cycle(p: Plan, f: Front, b: Bus, c: Core, t: i64, may_end: bool) -> bool:
    """Cycle t of a job, when the scratchpads can take a word; returns whether the job is over.

    `moved` and `moved_bank` say what it sends to the scratchpads. A job does not end in its first
    cycle, nor while the last word of another job is at the scratchpads (not `may_end`).
    """
    work = False
    data_over = bool(c.data_done)
    row = c.data_row
    covered = 0
    if not c.data_done:
        if not c.data_in:
            _step_data(p, c)
        elif word_at(p, b, 1) <= t:
            work = True
            pop_word(b, 1, t)
            c.words_left -= 1
            f.work[LOAD] += 1
            covered = 1 << c.beat if c.target == INP else ALL
            c.beat += 1
            if c.beat == c.words:
                c.beat = 0
                data_over = _step_data(p, c)
    pads_over = bool(c.pad_done)
    padding = False
    if not c.pad_done:
        if c.pad_in_x > 0 and c.pad_in_y > 0:
            pads_over = _step_pads(p, c)
        else:
            padding = c.missing & ~covered != 0
            if padding and not work:
                row = c.pad_row
            c.missing &= covered
            if c.missing == 0:
                c.missing = (1 << p.inp_words) - 1
                pads_over = _step_pads(p, c)
    c.data_done = i64(data_over)
    c.pad_done = i64(pads_over)
    c.moved = i64(work or (padding and c.target == ACC))
    c.moved_bank = -1
    if work or padding:
        _busy(f, c, t, t)
        if c.target == ACC:
            c.moved_bank = bank_of(p, row)
    c.now = t + 1
    over = data_over and pads_over and may_end and t > c.begin
    if over:
        _end(f, c, t)
    return over


@kernel
def _end(f: Front, c: Core, t: i64) -> None:
    """The job is over in cycle t."""
    c.on = 0
    c.over = t
    c.now = t + 1
    f.done[LOAD] += 1
    f.done_at[LOAD] = t


@kernel
def _burst(p: Plan, f: Front, b: Bus, c: Core) -> None:
    """Take a chunk of words at once: a job without padding, so each word has its row."""
    place = WORD_RING + (b.piece_out[1] & (WORD_RING - 1))
    size = min(b.piece_size[place] - b.piece_word[1], c.words_left)
    there = b.piece_at[place] + b.piece_word[1] * p.beat
    popped = b.popped[1]
    at = max(c.now, there)
    first = at
    for k in range(size):
        if there > at:
            if at > first:
                _busy(f, c, first, at - 1)
            first = there
            at = there
        b.pop_time[WORD_RING + ((popped + k) & (WORD_RING - 1))] = at
        at += 1
        there += p.beat
    _busy(f, c, first, at - 1)
    b.popped[1] = popped + size
    b.piece_word[1] += size
    if b.piece_word[1] == b.piece_size[place]:
        b.piece_word[1] = 0
        b.piece_out[1] += 1
    f.work[LOAD] += size
    c.words_left -= size
    c.now = at
    if c.words_left == 0:
        _end(f, c, max(at - 1, c.begin + 1))


@kernel
def run_filler(p: Plan, f: Front, b: Bus, m: Mover, c: Core) -> None:
    """Advance as far as times are known, or to the next cycle that needs bank arbitration."""
    while True:
        if c.on == 0 and not _start(p, m, c):
            c.fill_try = c.now if c.fill_bank >= 0 or c.ending > 0 or c.spare > 0 else NEVER
            return
        if c.target == ACC or c.fill_bank >= 0 or c.ending > 0 or c.spare > 0:
            at = c.now
            if c.fill_bank < 0 and c.ending == 0 and c.spare == 0:
                at = max(at, c.begin)
                if c.pad_done > 0 and c.data_done == 0 and c.data_in > 0:
                    at = max(at, word_at(p, b, 1))
            c.fill_try = at
            return
        c.fill_try = NEVER
        c.now = max(c.now, c.begin)
        if c.bare > 0 and c.data_done == 0:
            if word_at(p, b, 1) == NEVER:
                return
            _burst(p, f, b, c)
        else:
            if c.data_done == 0 and c.data_in > 0:
                at = word_at(p, b, 1)
                if at == NEVER:
                    return
                if c.pad_done:
                    c.now = max(c.now, at)
            fill_cycle(p, f, b, c, c.now, True)
        if not c.on:
            # Nothing delays the last word: it is written in the next cycle.
            retire(p, f, c.index, c.over + 2, f.busy[LOAD], f.work[LOAD])
