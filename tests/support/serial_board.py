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
IDENTIFY, READ_REGISTERS, WRITE_REGISTERS, READ_MEMORY, WRITE_MEMORY, RESET = range(1, 7)
MOST = 1024
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
    asked
        Operation and count of every whole request.
    """

    machine: Any
    memory_base: int = 0
    memory_bytes: int = 1 << 16
    version: int = 1
    to_board: list[Line] = field(default_factory=list)
    to_host: list[Line] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)
    path: str = ""
    errors: list[BaseException] = field(default_factory=list)
    _last: tuple[bytes, bytes] | None = None

    def serve(self, descriptor: int, ended: threading.Event) -> None:
        """Answer what comes, a frame at a time."""
        try:
            while not ended.is_set():
                burst = self._burst(descriptor)
                if not burst or self.machine is None:
                    continue
                burst = self.to_board.pop(0)(burst) if self.to_board else burst
                answer = self._answer(burst)
                answer = self.to_host.pop(0)(answer) if self.to_host else answer
                os.write(descriptor, answer)
        except BaseException as error:  # shown by the test, in its own thread
            self.errors.append(error)

    def _burst(self, descriptor: int) -> bytes:
        """Bytes until they are a whole frame, or until a silence."""
        burst = b""
        while select.select([descriptor], [], [], SILENCE_SECONDS)[0]:
            burst += os.read(descriptor, 65536)
            if _whole(burst):
                break
        return burst

    def _answer(self, burst: bytes) -> bytes:
        if not _whole(burst):
            return _frame(0, DAMAGED)
        tag, op = burst[1], burst[2]
        count, address = (int.from_bytes(piece, "little") for piece in (burst[3:5], burst[5:9]))
        self.asked.append((op, count))
        single = op in (READ_REGISTERS, WRITE_REGISTERS) and count == 4
        if single and self._last is not None and self._last[0] == burst:
            return self._last[1]
        answer = self._carry_out(tag, op, count, address, burst[9:-4])
        self._last = (burst, answer) if single and answer[2] == OK else None
        return answer

    def _carry_out(self, tag: int, op: int, count: int, address: int, payload: bytes) -> bytes:
        if op == IDENTIFY:
            numbers = ((self.version, 2), (MOST, 2), (self.memory_bytes, 4), (80_000_000, 4))
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
        offsets = range(address, address + count, 4)
        if op == READ_REGISTERS:
            values = self.machine.read_registers(offsets)
            return _frame(tag, OK, b"".join(value.to_bytes(4, "little") for value in values))
        assert op == WRITE_REGISTERS
        words = [int.from_bytes(payload[at : at + 4], "little") for at in range(0, count, 4)]
        self.machine.write_registers(list(zip(offsets, words, strict=True)))
        return _frame(tag, OK)


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
    board = SerialBoard(machine, path=os.ttyname(theirs), **options)
    ended = threading.Event()
    thread = threading.Thread(target=board.serve, args=(ours, ended))
    thread.start()
    try:
        yield board
    finally:
        ended.set()
        thread.join()
        os.close(ours)
        os.close(theirs)
    assert not board.errors, board.errors
