"""Frame formats between a host and a board's serial bridge: one table for both ends.

`hw.boards` builds the bridge, `runtime.devices.uart` talks to it, docs/boards.md shows the layouts.
All numbers are little-endian. The CRC is `zlib.crc32` of all bytes of the frame before it.
"""

import enum
import struct
import zlib
from dataclasses import dataclass

from daedal.common.errors import DeviceError

__all__ = [
    "ANSWER_FIELDS",
    "ANSWER_HEADER_BYTES",
    "ANSWER_SYNC",
    "BAUD_RATES",
    "BLOCK_BYTES",
    "CHECKSUM_BYTES",
    "CRC_BYTES",
    "IDENTITY_FIELDS",
    "MAX_HELD_REQUESTS",
    "MAX_PAYLOAD_BYTES",
    "PROTOCOL_VERSION",
    "REQUEST_FIELDS",
    "REQUEST_HEADER_BYTES",
    "REQUEST_SYNC",
    "Answer",
    "Identity",
    "MemoryTest",
    "Op",
    "Status",
    "answer_frame",
    "parse_answer",
    "request_frame",
]

PROTOCOL_VERSION = 3
MAX_PAYLOAD_BYTES = 1024
"""Largest payload of a frame in either direction; it is buffered until the CRC is checked."""

MAX_HELD_REQUESTS = 2
"""Requests that a board holds: one is executed while the next one arrives."""

BLOCK_BYTES = 1024
"""Memory that a checksum covers; a block that differs fills a frame."""

CHECKSUM_BYTES = 8
"""CRC-64/XZ of a block."""

BAUD_RATES = (3_000_000, 2_000_000, 1_000_000, 500_000, 115_200)
"""Rates that a bitstream is built for unless another is asked for, fastest first.

Source: FTDI DS_FT231X, 4.2, "UART Interface": up to 3 Mbaud; AN_120: 3 MHz divided by 1, 1.5, 2 or
more eighths, so all of these are exact or off by 0.2 %.
"""

REQUEST_SYNC = 0x5A
ANSWER_SYNC = 0xA5

REQUEST_FIELDS = {"sync": 1, "tag": 1, "op": 1, "count": 2, "address": 4}
"""Bytes of a request's fields in order; the payload (`count` bytes, writes only) and the CRC
follow."""

ANSWER_FIELDS = {"sync": 1, "tag": 1, "status": 1, "count": 2}
"""Bytes of an answer's fields in order; `count` bytes of payload and the CRC follow."""

IDENTITY_FIELDS = {
    "version": 2,
    "max_payload_bytes": 2,
    "memory_bytes": 4,
    "clock_hz": 4,
    "memory_test": 1,
    "failing_address": 4,
}
"""Bytes of the fields of IDENTIFY's payload, in order."""

REQUEST_HEADER_BYTES = sum(REQUEST_FIELDS.values())
ANSWER_HEADER_BYTES = sum(ANSWER_FIELDS.values())
CRC_BYTES = 4

_CODES = {1: "B", 2: "H", 4: "I"}


class Op(enum.IntEnum):
    """What a request asks for."""

    IDENTIFY = 1
    READ_REGISTERS = 2
    WRITE_REGISTERS = 3
    READ_MEMORY = 4
    WRITE_MEMORY = 5
    RESET = 6
    CHECKSUMS = 7

    @property
    def has_payload(self) -> bool:
        """Whether `count` bytes follow the request's header."""
        return self in (Op.WRITE_REGISTERS, Op.WRITE_MEMORY)


class Status(enum.IntEnum):
    """How a request went.

    DAMAGED: no complete frame with a correct CRC arrived before the timeout; nothing was done. The
    other errors say what was wrong with a complete frame; nothing was done either.
    """

    OK = 0
    DAMAGED = 1
    UNKNOWN_OP = 2
    BAD_ADDRESS = 3
    BAD_COUNT = 4


class MemoryTest(enum.IntEnum):
    """The test of memory at start-up. NONE: on-chip memory is not tested."""

    NONE = 0
    RUNNING = 1
    PASSED = 2
    FAILED = 3


@dataclass(frozen=True)
class Answer:
    """A complete answer with a correct CRC."""

    tag: int
    status: int
    payload: bytes


@dataclass(frozen=True)
class Identity:
    """A board's description of itself: memory size (from address 0), the machine's clock, how the
    test of memory goes, and the first word that failed it."""

    version: int
    max_payload_bytes: int
    memory_bytes: int
    clock_hz: int
    memory_test: MemoryTest = MemoryTest.NONE
    failing_address: int = 0

    def encode(self) -> bytes:
        """The payload of IDENTIFY's answer."""
        return _struct(IDENTITY_FIELDS).pack(*(getattr(self, name) for name in IDENTITY_FIELDS))

    @classmethod
    def decode(cls, payload: bytes) -> "Identity":
        """Decode `payload`. Raises DeviceError if malformed or of another protocol version."""
        version = int.from_bytes(payload[: IDENTITY_FIELDS["version"]], "little")
        form = _struct(IDENTITY_FIELDS)
        values = form.unpack(payload) if len(payload) == form.size else ()
        found = dict(zip(IDENTITY_FIELDS, values, strict=False))
        known = found.get("memory_test") in list(MemoryTest)
        if version != PROTOCOL_VERSION or not known:
            said = "an unknown one" if version == PROTOCOL_VERSION or not payload else version
            raise DeviceError(
                f"the board must speak version {PROTOCOL_VERSION} of the protocol, not {said}; "
                "build its bitstream anew"
            )
        return cls(**{**found, "memory_test": MemoryTest(found["memory_test"])})


def request_frame(op: int, tag: int, address: int, count: int, payload: bytes = b"") -> bytes:
    """Bytes of a request; `count` is the length of the payload, or the number of bytes to read."""
    return _closed(_struct(REQUEST_FIELDS).pack(REQUEST_SYNC, tag, op, count, address) + payload)


def answer_frame(answer: Answer) -> bytes:
    """Bytes of an answer."""
    header = (ANSWER_SYNC, answer.tag, answer.status, len(answer.payload))
    return _closed(_struct(ANSWER_FIELDS).pack(*header) + answer.payload)


def parse_answer(received: bytes) -> tuple[Answer | None, int]:
    """Find the first complete answer in `received`.

    Returns it with the number of bytes consumed, or None with the number of bytes to discard, which
    precede a possible incomplete answer.
    """
    start = received.find(ANSWER_SYNC)
    while start >= 0:
        rest = received[start:]
        if len(rest) < ANSWER_HEADER_BYTES:
            return None, start
        _, tag, status, count = _struct(ANSWER_FIELDS).unpack_from(rest)
        if count <= MAX_PAYLOAD_BYTES:
            end = ANSWER_HEADER_BYTES + count
            if len(rest) < end + CRC_BYTES:
                return None, start
            if _closed(rest[:end]) == rest[: end + CRC_BYTES]:
                payload = rest[ANSWER_HEADER_BYTES:end]
                return Answer(tag, status, payload), start + end + CRC_BYTES
        start = received.find(ANSWER_SYNC, start + 1)
    return None, len(received)


def _struct(fields: dict[str, int]) -> struct.Struct:
    return struct.Struct("<" + "".join(_CODES[size] for size in fields.values()))


def _closed(frame: bytes) -> bytes:
    return frame + zlib.crc32(frame).to_bytes(CRC_BYTES, "little")
