"""`sector_requests`: how much of global memory the threads of a warp fetch together.

Memory is read and written in sectors of 32 bytes. An access of a warp is one request for all
sectors that any of its threads needs: with neighbouring words, 128 bytes are four sectors; with
words that lie far apart, 32. Source: NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to
Global Memory".
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.sim.gpu.accesses import Noted
from daedal.sim.gpu.banks import Place, positions

__all__ = ["Requests", "sector_requests"]

SECTOR_BYTES = 32
WARP = 32

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Requests:
    """Of all warps at one place of a kernel.

    Attributes
    ----------
    count : requests for anything.
    sectors : that they fetch or store.
    size_bytes : that threads asked for, each byte once for a request.
    """

    count: int
    sectors: int
    size_bytes: int

    @property
    def used(self) -> float:
        """The share of the sectors' bytes that threads asked for."""
        return self.size_bytes / (self.sectors * SECTOR_BYTES)


def sector_requests(accesses: npt.NDArray[Any]) -> dict[Place, Requests]:
    """The requests at each place that needs any memory.

    Parameters
    ----------
    accesses : (accesses, columns of `Noted`), those of each thread in the order of its program;
        `Noted.OFFSET` is an address, and a size of 0 one that a thread left out.
    """
    found: dict[Place, Requests] = {}
    site, size = accesses[:, Noted.SITE], accesses[:, Noted.SIZE]
    for number in np.unique(site).tolist():
        for is_write in (False, True):
            rows = accesses[(site == number) & ((size < 0) == is_write)]
            if rows[:, Noted.SIZE].any():
                found[number, is_write] = _requests(rows)
    return found


def _requests(rows: Integers) -> Requests:
    """Of the accesses at one place."""
    block, thread = rows[:, Noted.BLOCK], rows[:, Noted.THREAD]
    order = np.lexsort((np.arange(len(rows)), thread, block))
    rows, block, thread = rows[order], block[order], thread[order]
    keys = np.column_stack([block, positions(block, thread), thread // WARP])
    address, size = rows[:, Noted.OFFSET], np.abs(rows[:, Noted.SIZE])
    asked = size > 0
    keys, address, size = keys[asked], address[asked], size[asked]
    wanted = np.unique(np.column_stack([keys, address, size]), axis=0)
    count = int(size.max() - 1) // SECTOR_BYTES + 2
    sectors = address[:, None] // SECTOR_BYTES + np.arange(count)
    inside = sectors * SECTOR_BYTES < (address + size)[:, None]
    repeated = np.repeat(keys[:, None, :], count, axis=1)[inside]
    fetched = np.unique(np.column_stack([repeated, sectors[inside]]), axis=0)
    requests = np.unique(keys, axis=0)
    return Requests(len(requests), len(fetched), int(wanted[:, -1].sum()))
