"""A serial port and a board behind it in simulated time: what the line rate and latencies allow.

Takes the place of `serial.Serial`, and of the module `time`. The board is that of `serial_board`;
it holds two requests, as docs/boards.md says, and ignores what comes when it has no room.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.serial_board import CHECKSUMS, WRITE_MEMORY, SerialBoard

__all__ = ["TimedBoard", "TimedSerial"]

HELD = 2
SILENCE_SECONDS = 0.01
BOARD_HZ = 70e6
CYCLES_PER_WORD = 25
WORDS_PER_BLOCK = 128


@dataclass
class TimedBoard:
    """The board and the line to it.

    Attributes
    ----------
    board
        Answers frames.
    baud
        The rate of the board: at others, nothing is understood.
    latency_seconds
        Between the host and its serial chip, each way.
    hold_seconds
        How long the serial chip keeps an answer back, hoping for more.
    now, wire_bytes, overflows
        Time; bytes that went to the board; requests that it could not take.
    """

    board: SerialBoard
    baud: int = 3_000_000
    latency_seconds: float = 0.001
    hold_seconds: float = 0.0
    now: float = 0.0
    wire_bytes: int = 0
    overflows: int = 0
    _wire_free: float = 0.0
    _held_until: list[float] = field(default_factory=list)
    _arriving: list[tuple[float, bytes]] = field(default_factory=list)

    def monotonic(self) -> float:
        """In place of `time.monotonic`."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """In place of `time.sleep`."""
        self.now += seconds

    def send(self, frame: bytes, baud: int) -> None:
        """Take one frame from the host."""
        begin = max(self.now + self.latency_seconds, self._wire_free)
        if begin - self._wire_free > SILENCE_SECONDS:
            self._answer(self.board.notice_silence(), self._wire_free + SILENCE_SECONDS)
        self._wire_free = end = begin + 10 * len(frame) / baud
        self.wire_bytes += len(frame)
        if sum(until > end for until in self._held_until) >= HELD:
            self.overflows += 1
            return
        if baud != self.baud:
            frame = bytes(byte ^ 0x55 for byte in frame)
            self.board._ignores = True
        self._answer(self.board.hear(frame), end, frame)

    def receive(self, timeout: float) -> bytes:
        """Bytes for the host; time passes until there are some, or for `timeout`."""
        if not self._arriving and self.now + timeout > self._wire_free + SILENCE_SECONDS:
            self._answer(self.board.notice_silence(), self._wire_free + SILENCE_SECONDS)
        limit = self.now + timeout
        if not self._arriving or self._arriving[0][0] > limit:
            self.now = limit
            return b""
        self.now = max(self.now, self._arriving[0][0])
        return self.arrived(take=True)

    def arrived(self, *, take: bool) -> bytes:
        """What is there for the host to read."""
        data = b"".join(piece for at, piece in self._arriving if at <= self.now)
        if take:
            self._arriving = [item for item in self._arriving if item[0] > self.now]
        return data

    def _answer(self, answers: list[bytes], at: float, frame: bytes = b"") -> None:
        """Execute one request after the other, and send its answer."""
        for answer in answers:
            begin = max([at, *self._held_until])
            done = begin + _cycles(frame) / BOARD_HZ + 10 * len(answer) / self.baud
            self._held_until = [until for until in self._held_until if until > at] + [done]
            self._arriving.append((done + self.latency_seconds + self.hold_seconds, answer))


def _cycles(frame: bytes) -> int:
    """What a board with SDRAM needs for a request, sending its answer apart."""
    op, count = frame[2:3], int.from_bytes(frame[3:5], "little")
    if op == bytes([CHECKSUMS]):
        return CYCLES_PER_WORD * count // 8 * WORDS_PER_BLOCK
    return 5 * count if op == bytes([WRITE_MEMORY]) else 0


class TimedSerial:
    """`serial.Serial` as far as `serial_line` uses it."""

    def __init__(self, timed: TimedBoard, path: str, baudrate: int, **options: Any) -> None:
        self._timed, self._handle = timed, os.open(path, os.O_RDONLY)
        self._timeout = options["timeout"]
        self.baudrate = baudrate

    @classmethod
    def factory(cls, timed: TimedBoard) -> Callable[..., "TimedSerial"]:
        """In place of the class."""
        return lambda path, baudrate, **options: cls(timed, path, baudrate, **options)

    @property
    def in_waiting(self) -> int:
        return len(self._timed.arrived(take=False))

    def fileno(self) -> int:
        return self._handle

    def write(self, frame: bytes) -> None:
        self._timed.send(frame, self.baudrate)

    def read(self, _size: int) -> bytes:
        return self._timed.receive(self._timeout)

    def reset_input_buffer(self) -> None:
        self._timed.arrived(take=True)

    def close(self) -> None:
        os.close(self._handle)
