"""CRC-64/XZ of blocks of memory: what a board answers to CHECKSUMS (`common.bridge`).

Input: bytes, a whole number of blocks. Output: one number for each block.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from daedal.common.bridge import BLOCK_BYTES

__all__ = ["block_checksums"]

# Source: ECMA-182, annex B; bits reversed, as the XZ file format has it.
_POLYNOMIAL = 0xC96C5795D7870F42
_WORD_BYTES = 8


def block_checksums(data: bytes) -> npt.NDArray[np.uint64]:
    """The checksum of each block of `data`; eight bytes of every block at a time."""
    words = np.frombuffer(data, "<u8").reshape(-1, BLOCK_BYTES // _WORD_BYTES)
    crc = np.full(len(words), ~np.uint64(0), "<u8")
    tables, places = _tables(), np.arange(_WORD_BYTES)
    for column in np.ascontiguousarray(words.T):
        pieces = (crc ^ column).view(np.uint8).reshape(-1, _WORD_BYTES)
        crc = np.bitwise_xor.reduce(tables[places, pieces], axis=1)
    return (~crc).astype(np.uint64)


@cache
def _tables() -> npt.NDArray[np.uint64]:
    """The CRC of byte b alone, followed by 7 - k zeros, at [k, b]."""
    crc = np.arange(256, dtype="<u8")
    for _ in range(8):
        crc = crc >> np.uint64(1) ^ np.where(crc & np.uint64(1), np.uint64(_POLYNOMIAL), 0)
    last, tables = crc, [crc]
    for _ in range(_WORD_BYTES - 1):
        crc = last[crc & np.uint64(0xFF)] ^ crc >> np.uint64(8)
        tables.append(crc)
    return np.stack(tables[::-1]).astype("<u8")
