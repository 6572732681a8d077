"""A board that is nothing but a pseudo-terminal and a `Port` behind it, with a line that fails.

It is written from docs/boards.md, for tests of the host's side.
"""

import os
import select
import threading
import tty
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SerialBoard", "serial_board"]

OK, DAMAGED, UNKNOWN_OP, BAD_ADDRESS, BAD_COUNT = range(5)
(
    IDENTIFY,
    READ_REGISTERS,
    WRITE_REGISTERS,
    READ_MEMORY,
    WRITE_MEMORY,
    RESET,
    CHECKSUMS,
) = range(1, 8)
MOST = 1024
BLOCK = 1024
SILENCE_SECONDS = 0.02

Line = Callable[[bytes], bytes]


@dataclass
class SerialBoard:
    """Answers frames until it is ended.

    Attributes
    ----------
    machine
        A `runtime.devices.port.Port`; None: a board that says nothing.
    path
        The serial port.
    to_board, to_host
        What the line makes of the next frames, each used once: nothing changes after the last.
    memory_test
        What the next IDENTIFYs say of it; the last one stays.
    asked
        Operation and count of every whole request.
    """

    machine: Any
    memory_base: int = 0
    memory_bytes: int = 1 << 16
    version: int = 3
    memory_test: list[int] = field(default_factory=lambda: [0])
    failing_address: int = 0
    to_board: list[Line] = field(default_factory=list)
    to_host: list[Line] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)
    path: str = ""
    errors: list[BaseException] = field(default_factory=list)
    unplug: Callable[[], None] = lambda: None
    _last: tuple[bytes, bytes] | None = None
    _sent: bytes = b""
    _heard: bytes = b""
    _ignores: bool = False

    def serve(self, descriptor: int, ended: threading.Event) -> None:
        """Answer what comes."""
        try:
            while not ended.is_set():
                if select.select([descriptor], [], [], SILENCE_SECONDS)[0]:
                    answers = self.hear(os.read(descriptor, 65536))
                else:
                    answers = self.notice_silence()
                for answer in answers:
                    os.write(descriptor, answer)
        except BaseException as error:  # shown by the test, in its own thread
            if not ended.is_set():
                self.errors.append(error)

    def hear(self, data: bytes) -> list[bytes]:
        """The answers to what a host has sent, after what the line does to its frames."""
        self._sent += data
        answers = []
        while (size := _size(self._sent)) is not None and len(self._sent) >= size:
            frame, self._sent = self._sent[:size], self._sent[size:]
            answers += self._receive(self.to_board.pop(0)(frame) if self.to_board else frame)
        return answers

    def notice_silence(self) -> list[bytes]:
        """What a board says that has heard nothing for some time."""
        is_damaged = self._ignores or self._heard
        self._ignores, self._heard = False, b""
        return self._said(_frame(0, DAMAGED)) if is_damaged else []

    def _receive(self, data: bytes) -> list[bytes]:
        """Take frames one after the other; after anything else, ignore all up to a silence."""
        answers = []
        self._heard += data
        while self._heard and not self._ignores:
            size = _size(self._heard)
            if self._heard[0] == 0x5A and (size is None or len(self._heard) < size <= MOST + 13):
                return answers
            frame = self._heard[:size]
            if _whole(frame):
                self._heard = self._heard[len(frame) :]
                answers += self._said(self._answer(frame))
            else:
                self._ignores = True
        self._heard = b""
        return answers

    def _said(self, answer: bytes) -> list[bytes]:
        if self.machine is None:
            return []
        return [self.to_host.pop(0)(answer) if self.to_host else answer]

    def _answer(self, burst: bytes) -> bytes:
        tag, op = burst[1], burst[2]
        count, address = (int.from_bytes(piece, "little") for piece in (burst[3:5], burst[5:9]))
        self.asked.append((op, count))
        if self.machine is None:
            return b""
        single = op in (READ_REGISTERS, WRITE_REGISTERS) and count == 4
        if single and self._last is not None and self._last[0] == burst:
            return self._last[1]
        answer = self._carry_out(tag, op, count, address, burst[9:-4])
        self._last = (burst, answer) if single and answer[2] == OK else None
        return answer

    def _carry_out(self, tag: int, op: int, count: int, address: int, payload: bytes) -> bytes:
        if op == IDENTIFY:
            test = self.memory_test.pop(0) if self.memory_test[1:] else self.memory_test[0]
            numbers = (
                *((self.version, 2), (MOST, 2), (self.memory_bytes, 4), (80_000_000, 4)),
                *((test, 1), (self.failing_address, 4)),
            )
            return _frame(tag, OK, b"".join(n.to_bytes(size, "little") for n, size in numbers))
        if op == RESET:
            return _frame(tag, OK)
        if op in (READ_MEMORY, WRITE_MEMORY) and address + count > self.memory_bytes:
            return _frame(tag, BAD_ADDRESS)
        if op == READ_MEMORY:
            return _frame(tag, OK, self.machine.read_memory(address + self.memory_base, count))
        if op == WRITE_MEMORY:
            self.machine.write_memory(address + self.memory_base, payload)
            return _frame(tag, OK)
        if op == CHECKSUMS:
            blocks = range(address, address + count * (BLOCK // 8), BLOCK)
            if address % BLOCK or blocks.stop > self.memory_bytes:
                return _frame(tag, BAD_ADDRESS)
            return _frame(tag, OK, b"".join(self._checksum(at) for at in blocks))
        offsets = range(address, address + count, 4)
        if op == READ_REGISTERS:
            values = self.machine.read_registers(offsets)
            return _frame(tag, OK, b"".join(value.to_bytes(4, "little") for value in values))
        assert op == WRITE_REGISTERS
        words = [int.from_bytes(payload[at : at + 4], "little") for at in range(0, count, 4)]
        self.machine.write_registers(list(zip(offsets, words, strict=True)))
        return _frame(tag, OK)

    def _checksum(self, address: int) -> bytes:
        """CRC-64/XZ of a block, bit by bit but for the table."""
        crc = (1 << 64) - 1
        for byte in self.machine.read_memory(address + self.memory_base, BLOCK):
            crc = CRC_OF_BYTE[(crc ^ byte) & 0xFF] ^ crc >> 8
        return (crc ^ (1 << 64) - 1).to_bytes(8, "little")


def _crc_of(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0xC96C5795D7870F42 if byte & 1 else 0)
    return byte


CRC_OF_BYTE = [_crc_of(byte) for byte in range(256)]


def _size(burst: bytes) -> int | None:
    """Length of the frame that begins here, once its header is there."""
    if len(burst) < 9:
        return None
    return 13 + (int.from_bytes(burst[3:5], "little") if burst[2] in (3, 5) else 0)


def _whole(burst: bytes) -> bool:
    """Whether a burst is exactly one frame with a right CRC."""
    if len(burst) < 13 or burst[0] != 0x5A:
        return False
    payload = int.from_bytes(burst[3:5], "little") if burst[2] in (3, 5) else 0
    right = zlib.crc32(burst[:-4]) == int.from_bytes(burst[-4:], "little")
    return payload <= MOST and len(burst) == 13 + payload and right


def _frame(tag: int, status: int, payload: bytes = b"") -> bytes:
    frame = bytes([0xA5, tag, status]) + len(payload).to_bytes(2, "little") + payload
    return frame + zlib.crc32(frame).to_bytes(4, "little")


@contextmanager
def serial_board(machine: Any, **options: Any) -> Iterator[SerialBoard]:
    """A board at a serial port, for as long as the block lasts."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    ended = threading.Event()

    def unplug() -> None:
        """Pull the cable."""
        if not ended.is_set():
            ended.set()
            os.close(ours)
            os.close(theirs)

    board = SerialBoard(machine, path=os.ttyname(theirs), unplug=unplug, **options)
    thread = threading.Thread(target=board.serve, args=(ours, ended))
    thread.start()
    try:
        yield board
    finally:
        if not ended.is_set():
            ended.set()
            thread.join()
            os.close(ours)
            os.close(theirs)
        thread.join()
    assert not board.errors, board.errors
