"""`bank_conflicts`: how often accesses of shared memory take longer, as threads need the same bank.

The memory has 32 banks of 4 bytes, and word w is in bank w % 32. The threads of a warp access it
together, 128 bytes at a time: those of 8 bytes in two halves, those of 16 bytes, and rows of
``ldmatrix``, in four quarters. If one of these needs n different words of a bank, it takes n times
as long: an n-way conflict. Source: NVIDIA, CUDA C++ Programming Guide, "Shared Memory"; for wide
accesses, Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking", 2018.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Place", "bank_conflicts", "positions"]

Place = tuple[int, bool]
"""A place in the text of a kernel (`reports.Site` for those without a number), and whether it
writes."""

BANKS = 32
WORD_BYTES = 4
LINE_BYTES = BANKS * WORD_BYTES
WARP = 32

Integers = npt.NDArray[np.int64]


def bank_conflicts(accesses: npt.NDArray[Any]) -> dict[Place, int]:
    """The most ways of a conflict at each place: 1 where there is none.

    Parameters
    ----------
    accesses : (accesses, columns of `Noted`), those of each thread in the order of its program.
    """
    found: dict[Place, int] = {}
    block, thread, site, offset, size = accesses.T
    for number in np.unique(site).tolist():
        for is_write in (False, True):
            chosen = (site == number) & ((size < 0) == is_write)
            if chosen.any():
                parts = (block[chosen], thread[chosen], offset[chosen], np.abs(size[chosen]))
                found[number, is_write] = _ways(*parts)
    return found


def _ways(block: Integers, thread: Integers, offset: Integers, size: Integers) -> int:
    """Of the accesses at one place."""
    order = np.lexsort((np.arange(len(thread)), thread, block))
    block, thread, offset, size = (item[order] for item in (block, thread, offset, size))
    times = positions(block, thread)
    together = np.maximum(size * WARP // LINE_BYTES, 1)
    phase = thread % WARP // (WARP // together)
    count = int(size.max() + WORD_BYTES - 1) // WORD_BYTES
    words = offset[:, None] // WORD_BYTES + np.arange(count)
    inside = words * WORD_BYTES < (offset + size)[:, None]
    keys = np.stack([block, times, thread // WARP, phase], axis=1)
    rows = np.repeat(keys[:, None, :], count, axis=1)[inside]
    distinct = np.unique(np.column_stack([rows, words[inside]]), axis=0)
    banks = np.column_stack([distinct[:, :-1], distinct[:, -1] % BANKS])
    return int(np.unique(banks, axis=0, return_counts=True)[1].max())


def positions(block: Integers, thread: Integers) -> Integers:
    """How many accesses of the same thread are before each."""
    begins = np.ones(len(thread), bool)
    begins[1:] = (block[1:] != block[:-1]) | (thread[1:] != thread[:-1])
    numbers = np.arange(len(thread))
    return numbers - np.maximum.accumulate(np.where(begins, numbers, 0))
