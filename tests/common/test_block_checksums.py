"""Checksums of blocks, against the definition bit by bit."""

import numpy as np

from daedal.common.block_checksums import block_checksums


def crc64(data: bytes) -> int:
    """CRC-64/XZ. Source: the catalogue of parametrised CRC algorithms."""
    crc = (1 << 64) - 1
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xC96C5795D7870F42 if crc & 1 else 0)
    return crc ^ (1 << 64) - 1


def test_checksums_equal_the_definition(rng: np.random.Generator) -> None:
    assert crc64(b"123456789") == 0x995DC9BBDF1939FA
    data = bytes(1024) + rng.bytes(1024)
    found = block_checksums(data)
    assert found.dtype == np.uint64
    assert [int(value) for value in found] == [crc64(data[:1024]), crc64(data[1024:])]
    assert len(block_checksums(b"")) == 0
