"""A test of the memory behind a machine on a board, through the same port as everything else.

Input: a `Port`, the part of memory that may be overwritten. Output: one sentence for each kind of
fault, which names the wires that it points to. A good memory has none.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daedal.runtime.devices.port import Port

__all__ = ["MemoryReport", "check_memory"]

_WORD_BYTES = 8
_BLOCK_BYTES = 1024
_BLOCKS = 8
_PAUSE_SECONDS = 0.2
"""Some times the 64 ms in which an SDRAM loses a row that is not refreshed."""

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class MemoryReport:
    """What was tested and found.

    `faults` are sentences; `num_bytes` were written and read.
    """

    faults: tuple[str, ...]
    num_bytes: int
    seconds: float


def check_memory(
    port: Port,
    addresses: range,
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _step: None,
    sleep: Callable[[float], None] = time.sleep,
) -> MemoryReport:
    """Overwrite parts of the memory at `addresses`, and read them.

    Three tests, each after the others: every wire of the data alone, every wire of the address
    alone, random blocks all over the memory that are read twice, the second time after a pause in
    which a memory that is not refreshed forgets. Raises DeviceError as the port does.
    """
    begin = time.monotonic()
    memory = _Memory(port, addresses, np.random.default_rng(seed))
    faults: list[str] = []
    for what, found in (
        ("data wires", memory.data_wires),
        ("address wires", memory.address_wires),
        ("random blocks", lambda: memory.blocks(sleep)),
    ):
        progress(f"testing memory: {what}")
        faults += found()
    return MemoryReport(tuple(faults), memory.num_bytes, time.monotonic() - begin)


class _Memory:
    def __init__(self, port: Port, addresses: range, rng: np.random.Generator) -> None:
        self._port, self._base, self._size = port, addresses.start, len(addresses)
        self._rng = rng
        self.num_bytes = 0

    def _write(self, offset: int, words: Words) -> None:
        self._port.write_memory(self._base + offset, words.astype("<u8").tobytes())
        self.num_bytes += words.nbytes

    def _read(self, offset: int, count: int) -> Words:
        read = self._port.read_memory(self._base + offset, count * _WORD_BYTES)
        return np.frombuffer(read, dtype="<u8").astype(np.uint64)

    def data_wires(self) -> Iterator[str]:
        """One bit set, and one bit clear, in each place of a word."""
        ones = np.uint64(1) << np.arange(64, dtype=np.uint64)
        words = np.concatenate([ones, ~ones])
        self._write(0, words)
        wrong = np.bitwise_or.reduce(self._read(0, len(words)) ^ words)
        if wrong:
            yield (
                f"bits {_bits(int(wrong))} of a word must be what was written, at {self._base:#x}: "
                "look at the data pins"
            )

    def address_wires(self) -> Iterator[str]:
        """A different word at 0 and at each power of two; all are written before any is read."""
        shifts = range(_WORD_BYTES.bit_length() - 1, (self._size - 1).bit_length())
        offsets = [0, *(1 << shift for shift in shifts)]
        words = self._rng.integers(0, 1 << 63, len(offsets), dtype=np.uint64)
        for offset, word in zip(offsets, words, strict=True):
            self._write(offset, np.array([word], np.uint64))
        places = {int(word): offset for offset, word in zip(offsets, words, strict=True)}
        for offset, word in zip(offsets, words, strict=True):
            found = int(self._read(offset, 1)[0])
            if found == int(word):
                continue
            other = places.get(found)
            if other is None:
                yield f"the word at {self._base + offset:#x} must be {word:#x}, not {found:#x}"
            else:
                wires = _bits(offset ^ other)
                yield (
                    f"the words at {self._base + offset:#x} and {self._base + other:#x} must be "
                    f"two: look at bits {wires} of the address"
                )

    def blocks(self, sleep: Callable[[float], None]) -> Iterator[str]:
        """Random blocks all over the memory, read twice."""
        count = _BLOCK_BYTES // _WORD_BYTES
        step = max(self._size // _BLOCKS // _BLOCK_BYTES, 1) * _BLOCK_BYTES
        starts = range(0, self._size - _BLOCK_BYTES + 1, step)
        kept = {
            at: self._rng.integers(0, 1 << 64, count, dtype=np.uint64, endpoint=False)
            for at in starts
        }
        for at, words in kept.items():
            self._write(at, words)
        for when, seconds in (("at once", 0.0), (f"after {_PAUSE_SECONDS:g} s", _PAUSE_SECONDS)):
            sleep(seconds)
            wrong = [
                self._base + at + _WORD_BYTES * int(place)
                for at, words in kept.items()
                for place in np.flatnonzero(self._read(at, count) != words)
            ]
            if wrong:
                yield (
                    f"random words must be read as written; {when}, {len(wrong)} of "
                    f"{count * len(kept)} differ, the first at {wrong[0]:#x}: look at the phase of "
                    "the memory's clock, at its refresh, and at the bitstream's clock"
                )
                return


def _bits(mask: int) -> str:
    return ", ".join(str(bit) for bit in range(64) if mask >> bit & 1)
