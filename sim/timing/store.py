"""STORE's reader: rows out of a scratchpad, cut into bus words; and its acknowledgements."""

from daedal.isa.latencies import QUEUE_CYCLES, STORE_ROW_CYCLES, STORE_ROWS
from daedal.native.kernel import kernel
from daedal.native.types import i64
from daedal.sim.timing.gates import retire
from daedal.sim.timing.state import NEVER, RING, Core, Front, Mover, Plan

__all__ = ["cut_word", "read_row", "read_rows", "retire_stores"]

ACC = 2


@kernel
def read_row(p: Plan, m: Mover, t: i64) -> None:
    """The next row is read in cycle t.

    One of the accumulators was granted only then, and the reader goes on a cycle later.
    """
    place = m.rows_read & (RING - 1)
    i = m.read_index
    late = i64(p.target[i] == ACC)
    m.row_ready[place] = t + STORE_ROW_CYCLES
    m.row_size[place] = p.row_words[i]
    m.rows_read += 1
    m.read_row += 1
    m.read_from = t + 1 + late
    m.read_left -= 1
    m.row_ends[place] = i64(m.read_left == 0)
    if m.read_left == 0:
        m.reading = 0
        m.read_done = t + late


@kernel
def read_rows(p: Plan, m: Mover, c: Core) -> None:
    """Read what OUT holds as far ahead as there is room; ask for rows of the accumulators."""
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
            # The queue goes on a cycle later.
            m.job_pop[place] = at + 1
            m.job_out[1] = number + 1
            i = m.job_index[place]
            m.reading = 1
            m.read_index = i
            m.read_from = at + 1
            m.read_row = p.first_row[i]
            m.read_left = p.blocks[i] * p.rows[i] * p.cols[i]
        at = m.read_from
        old = m.rows_read - STORE_ROWS
        if old >= 0:
            if m.rows_popped <= old:
                return
            at = max(at, m.row_pop[old & (RING - 1)] + 1)
        if p.target[m.read_index] == ACC:
            c.store_try = at
            return
        read_row(p, m, at)


@kernel
def cut_word(m: Mover) -> bool:
    """Put the next word of the oldest row into the register before the master, if it is free."""
    if m.word_ready > 0 or m.rows_cut == m.rows_read:
        return False
    place = m.rows_cut & (RING - 1)
    at = max(m.row_ready[place], m.store_move)
    m.word_ready = 1
    m.word_cut = at
    m.word_ends = 0
    if m.cut_word == 0:
        m.row_pop[place] = at
        m.rows_popped += 1
    m.cut_word += 1
    if m.cut_word == m.row_size[place]:
        m.cut_word = 0
        m.rows_cut += 1
        m.word_ends = m.row_ends[place]
    return True


@kernel
def retire_stores(p: Plan, f: Front, m: Mover) -> None:
    """Let instructions go whose writes are acknowledged, in order."""
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
