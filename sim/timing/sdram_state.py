"""State of an SDRAM and its controller in the cycle model.

Times are cycles of the run. Rules are those of `hw.boards.sdram.controller`.
"""

import numpy as np

from daedal.isa.latencies import START_CYCLES
from daedal.isa.sdram_memory import SLOT_CYCLES, SdramMemory
from daedal.native.record import record
from daedal.native.types import Array, i64

__all__ = ["Sdram", "sdram_state"]


@record
class Sdram:
    """Distances between commands in cycles, and what splitter, segments and rows are at.

    `wait_at`, `held_at`: when the next command to a row may be decided, and when one may be closed.
    """

    rows: Array[i64]
    """Open row of each bank; -1: none."""

    row_words: i64
    bank_mask: i64
    bank_bits: i64
    precharge: i64
    activate: i64
    held: i64
    refresh: i64
    interval: i64
    word_cycles: i64
    """From a word's decision to its R."""

    decision: i64
    """The next decision that may change something."""
    due_at: i64
    """When the next refresh falls due."""
    is_due: i64 = 1
    is_shut: i64 = 0
    """1 if all rows were closed for the refresh that is due."""
    wait_at: i64 = -(1 << 60)
    held_at: i64 = -(1 << 60)

    reads_taken: i64 = 0
    writes_taken: i64 = 0
    read_from: i64 = 0
    """The next read may not be taken before; `write_from`: the next write."""
    write_from: i64 = 0
    writing: i64 = 0
    """1 if the burst that was taken last is a write; `in_a_row`: bursts of that direction."""
    in_a_row: i64 = 0

    has_burst: i64 = 0
    free_at: i64 = -(1 << 60)
    """When the splitter accepts a burst."""
    burst_write: i64 = 0
    burst_number: i64 = 0
    burst_at: i64 = 0
    burst_left: i64 = 0
    segment_at: i64 = 0
    """When the splitter offers a segment."""

    has_next: i64 = 0
    next_write: i64 = 0
    next_number: i64 = 0
    next_bank: i64 = 0
    next_row: i64 = 0
    next_words: i64 = 0
    next_last: i64 = 0
    """1 if the segment is the last of its burst."""

    end_at: i64 = -(1 << 60)
    """The decision of the current segment's last word."""
    current_write: i64 = 0
    current_bank: i64 = 0


def sdram_state(memory: SdramMemory) -> Sdram:
    """The SDRAM before a run: a refresh fell due `phase_cycles` before its start."""
    times = memory.times
    banks = 1 << memory.chip.bank_bits
    due = -memory.phase_cycles - START_CYCLES
    return Sdram(
        rows=np.full(banks, -1, dtype=np.int64),
        row_words=memory.chip.row_words,
        bank_mask=banks - 1,
        bank_bits=memory.chip.bank_bits,
        precharge=SLOT_CYCLES * times.precharge_to_row,
        activate=SLOT_CYCLES * (times.row_to_data - 1),
        held=SLOT_CYCLES * times.row_to_precharge,
        refresh=SLOT_CYCLES * times.refresh_to_any,
        interval=memory.refresh_cycles,
        word_cycles=memory.read_word_cycles,
        decision=due + SLOT_CYCLES,
        due_at=due + memory.refresh_cycles,
    )
