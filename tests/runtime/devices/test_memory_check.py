"""The memory test finds stuck and joined wires and memory that forgets, and names them."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from daedal.runtime.devices.memory_check import check_memory

BASE, SIZE = 0x1000_0000, 1 << 16


@dataclass
class FaultyMemory:
    """A port of which only memory works. `place` is where a byte really goes, `seen` what is read
    of one."""

    place: Callable[[int], int] = lambda offset: offset
    seen: Callable[[int, int], int] = lambda _offset, byte: byte
    cells: bytearray = field(default_factory=lambda: bytearray(SIZE))

    def read_memory(self, address: int, size_bytes: int) -> bytes:
        assert address % 8 == size_bytes % 8 == 0, "whole words"
        offsets = range(address - BASE, address - BASE + size_bytes)
        assert offsets.start >= 0 and offsets.stop <= SIZE
        return bytes(self.seen(at, self.cells[self.place(at)]) for at in offsets)

    def write_memory(self, address: int, data: bytes) -> None:
        assert address % 8 == len(data) % 8 == 0, "whole words"
        assert 0 <= address - BASE <= address - BASE + len(data) <= SIZE
        for at, byte in enumerate(data, address - BASE):
            self.cells[self.place(at)] = byte


def faults(memory: FaultyMemory, *, seed: int = 0, pause: Callable[[], None] = lambda: None):
    report = check_memory(
        memory,  # type: ignore[arg-type]
        range(BASE, BASE + SIZE),
        seed=seed,
        sleep=lambda seconds: pause() if seconds else None,
    )
    assert report.num_bytes > 8192
    return report.faults


def test_a_small_memory_is_asked_for_whole_words() -> None:
    """So is one whose parts are no longer than a block."""
    for size in (1 << 13, 1 << 14, 1 << 15):
        report = check_memory(
            FaultyMemory(),  # type: ignore[arg-type]
            range(BASE, BASE + size),
            seed=0,
            sleep=lambda _seconds: None,
        )
        assert report.faults == ()


@pytest.mark.parametrize("seed", [0, 1])
def test_a_good_memory_has_no_faults(seed: int) -> None:
    assert faults(FaultyMemory(), seed=seed) == ()


@pytest.mark.parametrize("bit", [0, 13, 63])
@pytest.mark.parametrize("level", [0, 1])
def test_a_stuck_bit_is_named(bit: int, level: int) -> None:
    def seen(offset: int, byte: int) -> int:
        mask = 1 << bit % 8
        return byte if offset % 8 != bit // 8 else byte | mask if level else byte & ~mask

    first, *_ = faults(FaultyMemory(seen=seen))
    assert first.startswith(f"bits {bit} of a word must be what was written")


@pytest.mark.parametrize("bit", [3, 9, 15])
def test_a_missing_address_wire_is_named(bit: int) -> None:
    found = faults(FaultyMemory(place=lambda offset: offset & ~(1 << bit)))
    assert any(f"must be two: look at bits {bit} of the address" in text for text in found)


def test_memory_that_forgets_is_found_after_a_pause() -> None:
    memory = FaultyMemory()

    def forget() -> None:
        memory.cells[40_000:50_000] = bytes(10_000)

    (text,) = faults(memory, pause=forget)
    assert "after 0.2 s" in text and "look at the phase of the memory's clock" in text
