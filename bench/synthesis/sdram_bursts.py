"""Random bursts for the SDRAM controller, and what its memory and answers must be after them.

Input: a generator of random numbers. Output: bursts, and a sentence for everything that is wrong.
"""

import numpy as np
import numpy.typing as npt

from daedal.sim.rtl.sdram import Bursts, HostAccesses, Played, SdramSimulation

__all__ = ["WORD_BYTES", "play_and_check", "random_bursts", "random_rows"]

WORD_BYTES = 8
PAGE_BYTES = 4096
_LENGTHS = (1, 2, 3, 7, 8, 16, 31, 32, 100, 256)
_DECERR = 3

Memory = npt.NDArray[np.uint8]


def random_bursts(
    rng: np.random.Generator, count: int, size_bytes: int, *, beyond: float = 0.05
) -> Bursts:
    """Reads of one half of the memory, writes to the other; some beyond its end.

    Half of the addresses are in few rows, so that banks and rows meet again.
    """
    half = size_bytes // 2 // PAGE_BYTES * PAGE_BYTES
    writes = rng.random(count) < 0.5
    beats = rng.choice(_LENGTHS, count)
    reach = np.where(rng.random(count) < 0.5, 16 * PAGE_BYTES, half)
    start = (rng.random(count) * reach).astype(np.int64) // WORD_BYTES * WORD_BYTES
    # None crosses 4 KiB.
    offset = np.minimum(start % PAGE_BYTES, PAGE_BYTES - beats * WORD_BYTES)
    addresses = start // PAGE_BYTES * PAGE_BYTES + offset
    addresses += np.where(writes ^ (rng.random() < 0.5), half, 0)
    addresses += np.where(rng.random(count) < beyond, size_bytes, 0)
    return _with_words(rng, writes, addresses, beats)


def random_rows(
    rng: np.random.Generator, count: int, size_bytes: int, row_bytes: int, *, writes: float
) -> Bursts:
    """Bursts of one length at random multiples of it."""
    addresses = rng.integers(size_bytes // row_bytes, size=count) * row_bytes
    beats = np.full(count, row_bytes // WORD_BYTES)
    return _with_words(rng, rng.random(count) < writes, addresses, beats)


def _with_words(
    rng: np.random.Generator,
    writes: npt.NDArray[np.bool_],
    addresses: npt.NDArray[np.int64],
    beats: npt.NDArray[np.int64],
) -> Bursts:
    total = int(beats[writes].sum())
    strobes = rng.integers(256, size=total, dtype=np.uint8)
    strobes[rng.random(total) < 0.8] = 255
    return Bursts(
        writes=writes,
        addresses=addresses,
        beats=beats,
        words=rng.integers(1 << 64, size=total, dtype=np.uint64),
        strobes=strobes,
        ids=rng.integers(2, size=len(beats)),
    )


def play_and_check(
    simulation: SdramSimulation,
    bursts: Bursts,
    host: HostAccesses | None = None,
    **options: object,
) -> tuple[Played, list[str]]:
    """Play bursts whose reads and writes do not meet; a sentence for each wrong burst.

    Accesses of the host must be to words that no burst touches.
    """
    before = simulation.memory.copy()
    played = simulation.play(bursts, host, **options)  # type: ignore[arg-type]
    wrong = list(_wrong_reads(bursts, before, played))
    after = _written(bursts, before)
    if host is not None:
        wrong += _wrong_accesses(host, after, played)
    differs = np.flatnonzero(after != simulation.memory)
    if differs.size:
        wrong.append(f"{differs.size} bytes of memory differ, the first at {differs[0]:#x}")
    return played, wrong


def _wrong_reads(bursts: Bursts, memory: Memory, played: Played) -> list[str]:
    wrong, first = [], 0
    for number, (writes, address, beats) in enumerate(
        zip(bursts.writes, bursts.addresses, bursts.beats, strict=True)
    ):
        beyond = address >= memory.size
        if played.answers[number] != (_DECERR if beyond else 0):
            wrong.append(f"burst {number} got response {played.answers[number]}")
        elif not writes and not beyond:
            wanted = memory[address : address + beats * WORD_BYTES].view(np.uint64)
            if not np.array_equal(played.read_words[first : first + beats], wanted):
                wrong.append(f"burst {number} read other words at {address:#x}")
        first += beats
    return wrong


def _written(bursts: Bursts, memory: Memory) -> Memory:
    """Memory after the writes, in their order."""
    memory, first = memory.copy(), 0
    assert bursts.strobes is not None
    lanes = np.unpackbits(bursts.strobes[:, None], axis=1, bitorder="little").astype(bool)
    for writes, address, beats in zip(bursts.writes, bursts.addresses, bursts.beats, strict=True):
        if not writes:
            continue
        some = slice(first, first + beats)
        if address < memory.size:
            place = memory[address : address + beats * WORD_BYTES]
            mask = lanes[some].ravel()
            place[mask] = bursts.words[some].view(np.uint8)[mask]
        first += beats
    return memory


def _wrong_accesses(host: HostAccesses, memory: Memory, played: Played) -> list[str]:
    """The host's accesses follow one another; `memory` takes its writes."""
    wrong = []
    words = memory.view(np.uint64)
    for number, (address, strobes) in enumerate(zip(host.addresses, host.strobes, strict=True)):
        if not strobes and played.host_words[number] != words[address]:
            wrong.append(f"access {number} of the host read another word at {address:#x}")
        mask = np.unpackbits(np.uint8(strobes), bitorder="little").astype(bool)
        words[address : address + 1].view(np.uint8)[mask] = host.words[number : number + 1].view(
            np.uint8
        )[mask]
    return wrong
