"""STORE's reader: reads rows of a scratchpad, cuts them into bus words; and acknowledgements."""

from daedal.isa.latencies import QUEUE_CYCLES, STORE_ROW_CYCLES, STORE_ROWS, STORE_WORDS
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.gates import retire
from daedal.sim.timing.state import NEVER, RING, STORE, Core, Front, Mover, Plan

__all__ = ["cut_after", "cut_word", "read_row", "read_rows", "retire_stores"]

ACC = 2


@kernel
def read_row(p: Plan, m: Mover, t: i64) -> None:
    """The next row is read in cycle t.

    A row of the accumulators is granted by arbitration in cycle t itself: the reader then advances
    a cycle later, and registering its next request costs another cycle.
    """
    place = m.rows_read & (RING - 1)
    i = m.read_index
    late = i64(p.target[i] == ACC)
    m.row_ready[place] = t + STORE_ROW_CYCLES
    m.row_size[place] = p.row_words[i]
    m.rows_read += 1
    m.read_row += 1
    m.read_from = t + 1 + 2 * late
    m.read_left -= 1
    m.row_ends[place] = i64(m.read_left == 0)
    if m.read_left == 0:
        m.reading = 0
        m.read_done = t + 1 + late


@kernel
def read_rows(p: Plan, m: Mover, c: Core) -> None:
    """Read rows of OUT as far ahead as the row buffer allows; request rows of the accumulators."""
    c.store_try = NEVER
    while True:
        if not m.reading:
            number = m.job_out[1]
            if number == m.job_in[1]:
                return
            place = RING + (number & (RING - 1))
            at = max(m.job_push[place] + QUEUE_CYCLES, m.read_done)
            if number > 0:
                at = max(at, m.job_pop[RING + ((number - 1) & (RING - 1))] + 1)
            # The queue pops a cycle later.
            m.job_pop[place] = at + 1
            m.job_out[1] = number + 1
            i = m.job_index[place]
            m.reading = 1
            m.read_index = i
            m.read_from = at + 1 + i64(p.target[i] == ACC)
            m.read_row = p.first_row[i]
            m.read_left = p.blocks[i] * p.rows[i] * p.cols[i]
        at = m.read_from
        old = m.rows_read - STORE_ROWS
        if old >= 0:
            if m.rows_popped <= old:
                return
            at = max(at, m.row_pop[old & (RING - 1)] + 2 + i64(p.target[m.read_index] == ACC))
        if p.target[m.read_index] == ACC:
            c.store_try = at
            return
        read_row(p, m, at)


@kernel
def _hold_word(m: Mover) -> bool:
    """The next word of the oldest row enters the register before the FIFO, once it is empty.

    The last word removes its row, however long it then waits in that register.
    """
    if m.words_held > m.words_cut or m.rows_popped == m.rows_read:
        return False
    place = m.rows_popped & (RING - 1)
    number = m.words_held
    at = m.row_ready[place]
    if number > 0:
        at = max(at, m.word_at[(number - 1) & (RING - 1)])
    m.held_at = at
    m.held_ends = 0
    m.words_held += 1
    m.row_word += 1
    if m.row_word == m.row_size[place]:
        m.row_word = 0
        m.row_pop[place] = at
        m.held_ends = m.row_ends[place]
        m.rows_popped += 1
    return True


@kernel
def _push_word(f: Front, m: Mover) -> bool:
    """The held word enters the FIFO before the write master, unless that is full."""
    number = m.words_cut
    if m.words_held == number or number - m.words_moved >= STORE_WORDS:
        return False
    at = m.held_at + 1
    if number >= STORE_WORDS:
        at = max(at, m.word_left[(number - STORE_WORDS) & (RING - 1)] + 1)
    m.word_at[number & (RING - 1)] = at
    m.words_cut += 1
    f.busy[STORE] += 1
    f.work[STORE] += 1
    if m.held_ends:
        f.done[STORE] += 1
        f.done_at[STORE] = max(f.done_at[STORE], at)
    return True


@kernel
def cut_word(f: Front, m: Mover) -> bool:
    """Move the next word of the oldest row a step further; returns whether it could."""
    return _hold_word(m) or _push_word(f, m)


@kernel
def cut_after(m: Mover, t: i64) -> i64:
    """Number of words already scheduled to be cut after cycle t."""
    number = m.words_cut
    while number > 0 and m.word_at[(number - 1) & (RING - 1)] > t:
        number -= 1
    return m.words_cut - number


@kernel
def retire_stores(p: Plan, f: Front, m: Mover) -> None:
    """Retire instructions whose writes are acknowledged, in order."""
    while m.slot_out < m.slot_in:
        place = m.slot_out & (RING - 1)
        if m.slot_ack[place] == NEVER:
            return
        at = max(m.slot_push[place] + QUEUE_CYCLES, m.slot_ack[place])
        if m.slot_out > 0:
            at = max(at, m.slot_pop[(m.slot_out - 1) & (RING - 1)] + 1)
        m.slot_pop[place] = at
        m.slot_out += 1
        retire(p, f, m.slot_index[place], at + 1, 0, 0)
