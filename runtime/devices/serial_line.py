"""A serial line to a board: requests of `common.bridge` and their answers, whatever it loses.

Input: requests. Output: the payloads of their answers.
"""

import contextlib
import os
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import serial

from daedal.common.bridge import (
    ANSWER_HEADER_BYTES,
    BAUD_RATES,
    CRC_BYTES,
    MAX_HELD_REQUESTS,
    MAX_PAYLOAD_BYTES,
    Answer,
    Identity,
    Op,
    Status,
    parse_answer,
    request_frame,
)
from daedal.common.errors import DeviceError, UserError, first_line
from daedal.runtime.devices.lock import lock_device

__all__ = ["Request", "SerialLine"]

_ATTEMPTS = 6
"""Attempts without an answer that end it: remains of a damaged request may corrupt the next two."""

_MOST_IN_FLIGHT = 8
"""Full writes without an answer: 28 ms at 3 Mbaud, longer than the 16 ms that an FTDI chip may keep
an answer back."""

_QUICK_SECONDS, _QUICK_ATTEMPTS = 0.1, 2
"""How long a rate is tried at first. The first request may run into the one at another rate."""


@dataclass(frozen=True)
class Request:
    """What a board is asked for; `count` bytes are to come, or `payload` goes with it."""

    op: Op
    address: int = 0
    count: int = 0
    payload: bytes = b""

    @property
    def num_bytes(self) -> int:
        """What the field `count` of the frame says."""
        return len(self.payload) or self.count

    @property
    def wanted_bytes(self) -> int | None:
        """Payload of the answer; None: IDENTIFY alone does not say."""
        return None if self.op is Op.IDENTIFY else self.count

    def frame(self, tag: int) -> bytes:
        """The request as it is sent."""
        return request_frame(self.op, tag, self.address, self.num_bytes, self.payload)


@dataclass
class _Exchange:
    """Requests that are under way: which wait to be sent, and which for their answers."""

    requests: Sequence[Request]
    waiting: deque[int]
    in_flight: dict[int, int] = field(default_factory=dict)
    """Requests by tag, in the order they were sent."""
    tags: dict[int, int] = field(default_factory=dict)
    answers: dict[int, bytes] = field(default_factory=dict)

    @property
    def may_send(self) -> bool:
        """Whether the board can take one more request.

        It holds two. A full write takes much longer to arrive than one takes to be carried out, so
        the board is ready for it when it is complete.
        """
        if not self.waiting:
            return False
        is_full = len(self.requests[self.waiting[0]].payload) == MAX_PAYLOAD_BYTES
        return len(self.in_flight) < (_MOST_IN_FLIGHT if is_full else MAX_HELD_REQUESTS)

    def send_again(self, tags: Sequence[int]) -> None:
        """Requests whose answers do not come are the next ones."""
        self.waiting.extendleft(reversed([self.in_flight.pop(tag) for tag in tags]))

    def answered(self, answer: Answer) -> int:
        """Keep an answer. Answers come in order, so those of earlier requests were lost."""
        sent = list(self.in_flight)
        lost = sent[: sent.index(answer.tag)]
        index = self.in_flight.pop(answer.tag)
        self.answers[index] = answer.payload
        del self.tags[index]
        self.send_again(lost)
        return index


class SerialLine:
    """Sends requests, several at a time where the board can take them, and repeats lost ones.

    Parameters
    ----------
    path
        The serial port, or a pseudo-terminal in its place.
    baud
        Its rate; None: `find_board` tries those that bitstreams are built for.
    answer_seconds
        Timeout of an answer, after which requests are sent again.

    Raises
    ------
    UserError
        The port cannot be opened, or another process uses it.
    """

    def __init__(self, path: str, *, baud: int | None, answer_seconds: float) -> None:
        self._path = path
        self._answer_seconds = answer_seconds
        self._rates = BAUD_RATES if baud is None else (baud,)
        self._tag = 0
        self._received = b""
        try:
            self._serial = serial.Serial(
                path, self._rates[0], timeout=0.05, write_timeout=max(answer_seconds, 1.0)
            )
        except (OSError, termios.error, ValueError) as error:
            raise UserError(
                f"a serial port must be one that can be opened at {self._rates[0]} baud; {path!r} "
                f"is not: {_reason(error)}; choose another port or rate"
            ) from error
        # Else an FTDI chip keeps short answers back for 16 ms. Not every port has such a mode.
        with contextlib.suppress(AttributeError, OSError, ValueError):
            self._serial.set_low_latency_mode(True)
        try:
            lock_device(self._serial.fileno(), path)
        except BaseException:
            self.close()
            raise

    @property
    def baud(self) -> int:
        """The rate in use."""
        return int(self._serial.baudrate)

    def close(self) -> None:
        """Close the port."""
        with contextlib.suppress(OSError, termios.error):
            self._serial.close()

    def find_board(self) -> Identity:
        """Ask what is at the other end, at each rate: first quickly, then as long as may be.

        Raises DeviceError if nothing answers, or nothing that is a board of this protocol.
        """
        if len(self._rates) == 1:
            return Identity.decode(self.ask(Request(Op.IDENTIFY)))
        quick = min(_QUICK_SECONDS, self._answer_seconds)
        for seconds, attempts in ((quick, _QUICK_ATTEMPTS), (self._answer_seconds, 1)):
            for rate in self._rates:
                with self._port_errors():
                    try:
                        self._serial.baudrate = rate
                    except ValueError:  # a rate that the port does not have
                        continue
                found = self._exchange([Request(Op.IDENTIFY)], seconds, attempts)
                if found:
                    return Identity.decode(found[0])
        rates = ", ".join(map(str, self._rates))
        raise DeviceError(
            f"the board must answer within {self._answer_seconds:g} seconds; nothing whole came at "
            f"{rates} baud: load its bitstream, check the port ({self._path}), or give the rate "
            "that the bitstream was built for (--option baud=RATE)"
        )

    def ask(self, request: Request) -> bytes:
        """The payload of the answer to one request, which may have side effects."""
        return self.ask_all([request])[0]

    def ask_all(
        self, requests: Sequence[Request], answered: Callable[[Request], None] = lambda _: None
    ) -> list[bytes]:
        """The payloads of the answers, in order; `answered` is called as each arrives.

        More than one: all read memory, or all write it, each may be carried out more than once, and
        in another order.

        Raises DeviceError if the board does not answer, refuses a request, or the port is gone.
        """
        found = self._exchange(requests, self._answer_seconds, _ATTEMPTS, answered)
        if found is None:
            raise DeviceError(
                f"the board must answer within {self._answer_seconds:g} seconds; nothing whole "
                f"came of {_ATTEMPTS} requests: load its bitstream, or check the port "
                f"({self._path}) and its baud rate ({self.baud})"
            )
        return found

    def _exchange(
        self,
        requests: Sequence[Request],
        seconds: float,
        attempts: int,
        answered: Callable[[Request], None] = lambda _: None,
    ) -> list[bytes] | None:
        """As `ask_all`; None after so many attempts in a row without an answer in `seconds`."""
        exchange = _Exchange(requests, deque(range(len(requests))))
        failures = timeouts = 0
        with self._port_errors():
            self._forget_input()
            while exchange.waiting or exchange.in_flight:
                while exchange.may_send:
                    self._send(exchange)
                answer = self._answer(exchange, seconds)
                if answer is None or answer.status == Status.DAMAGED:
                    failures += 1
                    timeouts += answer is None
                    if timeouts == attempts or failures == _ATTEMPTS:
                        return None
                    exchange.send_again(list(exchange.in_flight))
                    self._forget_input()
                    continue
                request = requests[exchange.in_flight[answer.tag]]
                if answer.status != Status.OK:
                    raise DeviceError(_refusal(request, answer))
                failures = timeouts = 0
                exchange.answered(answer)
                answered(request)
        return [exchange.answers[index] for index in range(len(requests))]

    def _send(self, exchange: _Exchange) -> None:
        """Send the next request; one that is repeated keeps the tag by which the board knows it."""
        index = exchange.waiting.popleft()
        if index not in exchange.tags:
            self._tag = (self._tag + 1) % 256
            while self._tag in exchange.tags.values():
                self._tag = (self._tag + 1) % 256
            exchange.tags[index] = self._tag
        tag = exchange.tags[index]
        exchange.in_flight[tag] = index
        self._serial.write(exchange.requests[index].frame(tag))

    def _answer(self, exchange: _Exchange, seconds: float) -> Answer | None:
        """The next answer to a request in flight, or to one that arrived damaged; None on timeout.

        The timeout includes the time that all of them take on the line. An answer with another
        payload than was asked for is to a request of an earlier session with the same tag.
        """
        deadline = time.monotonic() + seconds + self._line_seconds(exchange)
        while True:
            answer, used = parse_answer(self._received)
            self._received = self._received[used:]
            if answer is None:
                if time.monotonic() >= deadline:
                    return None
                self._received += self._serial.read(max(self._serial.in_waiting, 1))
                continue
            if answer.status == Status.DAMAGED:
                return answer
            index = exchange.in_flight.get(answer.tag)
            if index is None:
                continue
            wanted = exchange.requests[index].wanted_bytes
            if answer.status != Status.OK or wanted in (None, len(answer.payload)):
                return answer

    def _line_seconds(self, exchange: _Exchange) -> float:
        """Time on the line of the requests in flight and their answers."""
        size = sum(
            len(exchange.requests[index].frame(tag))
            + ANSWER_HEADER_BYTES
            + CRC_BYTES
            + exchange.requests[index].count
            for tag, index in exchange.in_flight.items()
        )
        return 10 * size / self.baud

    def _forget_input(self) -> None:
        self._received = b""
        self._serial.reset_input_buffer()

    @contextmanager
    def _port_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, termios.error, serial.SerialException) as error:
            raise DeviceError(
                f"the serial port must stay open; {self._path!r} failed: {first_line(error)}; plug "
                "the board in again, and open the device again"
            ) from error


def _refusal(request: Request, answer: Answer) -> str:
    name = next((s.name for s in Status if s == answer.status), str(answer.status))
    return (
        f"the board must do what it is asked for; it answers {name} to {request.op.name} of "
        f"{request.num_bytes} bytes at {request.address:#x}: what runs on it was made for another "
        "board"
    )


def _reason(error: Exception) -> str:
    """What the system says; pyserial repeats the path and the number of the error around it."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number else first_line(error)
