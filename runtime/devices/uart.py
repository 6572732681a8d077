"""A board behind a serial port: `Port` over frames of `common.bridge`, and the device `uart`."""

import time
from collections.abc import Iterator, Sequence
from types import TracebackType

import serial

from daedal.common.bridge import (
    MAX_PAYLOAD_BYTES,
    Answer,
    Identity,
    Op,
    Status,
    parse_answer,
    request_frame,
)
from daedal.common.errors import DeviceError, UserError, first_line
from daedal.isa.registers import register
from daedal.isa.variant import Variant
from daedal.runtime.devices.lock import lock_device
from daedal.runtime.devices.register_device import RegisterDevice

__all__ = ["DEFAULT_BAUD", "UartPort", "uart_device"]

DEFAULT_BAUD = 1_000_000
DEFAULT_ANSWER_SECONDS = 2.0

_ATTEMPTS = 6
"""Number of times a request is sent: remains of a damaged one may corrupt the next two."""

_POLL_SECONDS = 0.001
"""Polling interval while the machine runs; a poll takes about as long over USB."""

# Not idempotent: the bridge protects only single accesses against being repeated.
_EFFECTS = frozenset(register(name).offset for name in ("control", "isr", "abort"))


class UartPort:
    """Sends one request at a time, and repeats it until an intact answer arrives.

    Parameters
    ----------
    path
        The serial port, or a pseudo-terminal in its place.
    baud
        The baud rate that the bitstream was built for.
    answer_seconds
        Timeout of an answer, after which the request is sent again.

    Raises
    ------
    UserError
        The port cannot be opened, or another process uses it.
    DeviceError
        The other end does not answer, or not as a board does.
    """

    def __init__(
        self,
        path: str,
        *,
        baud: int = DEFAULT_BAUD,
        answer_seconds: float = DEFAULT_ANSWER_SECONDS,
    ) -> None:
        self._path = path
        self._baud = baud
        self._answer_seconds = answer_seconds
        self._tag = 0
        self._received = b""
        try:
            self._serial = serial.Serial(path, baud, timeout=0.05, write_timeout=answer_seconds)
        except (serial.SerialException, ValueError) as error:
            raise UserError(
                f"a serial port must be one that can be opened at {baud} baud; {path!r} is not: "
                f"{first_line(error)}; choose another port or rate"
            ) from error
        try:
            lock_device(self._serial.fileno(), path)
            self.identity = Identity.decode(self._ask(Op.IDENTIFY))
            self._ask(Op.RESET)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "UartPort":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the serial port."""
        self._serial.close()

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """The values of 32-bit registers, adjacent ones in one request."""
        values = []
        for first, count in _runs(offsets):
            data = self._ask(Op.READ_REGISTERS, first, 4 * count)
            values += [int.from_bytes(data[at : at + 4], "little") for at in range(0, 4 * count, 4)]
        return values

    def write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        """Write ``(offset, 32-bit value)`` in order, adjacent ones in one request."""
        begin = 0
        for first, count in _runs([offset for offset, _ in writes]):
            values = [value for _, value in writes[begin : begin + count]]
            payload = b"".join(value.to_bytes(4, "little") for value in values)
            self._ask(Op.WRITE_REGISTERS, first, payload=payload)
            begin += count

    def read_memory(self, address: int, size_bytes: int) -> bytes:
        """Copy out of the board's memory."""
        return b"".join(
            self._ask(Op.READ_MEMORY, address + at, min(size_bytes - at, MAX_PAYLOAD_BYTES))
            for at in range(0, size_bytes, MAX_PAYLOAD_BYTES)
        )

    def write_memory(self, address: int, data: bytes) -> None:
        """Copy into the board's memory."""
        for at in range(0, len(data), MAX_PAYLOAD_BYTES):
            self._ask(Op.WRITE_MEMORY, address + at, payload=data[at : at + MAX_PAYLOAD_BYTES])

    def wait_interrupt(self, seconds: float) -> None:
        """Sleep for a short time: the serial port carries no interrupt."""
        time.sleep(min(seconds, _POLL_SECONDS))

    def _ask(self, op: Op, address: int = 0, count: int = 0, *, payload: bytes = b"") -> bytes:
        """Send a request; returns the answer's payload. Raises DeviceError without an answer."""
        self._tag = (self._tag + 1) % 256
        frame = request_frame(op, self._tag, address, len(payload) or count, payload)
        try:
            for _ in range(_ATTEMPTS):
                self._received = b""
                self._serial.reset_input_buffer()
                self._serial.write(frame)
                # IDENTIFY alone does not say how much it asks for.
                wanted = None if op is Op.IDENTIFY else count
                answer = self._answer(len(frame) + count, wanted)
                if answer is None or answer.status == Status.DAMAGED:
                    continue
                if answer.status == Status.OK:
                    return answer.payload
                refused = next((s.name for s in Status if s == answer.status), str(answer.status))
                raise DeviceError(
                    f"the board must do what it is asked for; it answers {refused} to {op.name} of "
                    f"{len(payload) or count} bytes at {address:#x}: what runs on it was made for "
                    "another board"
                )
        except serial.SerialException as error:
            raise DeviceError(
                f"the serial port must stay open; {self._path!r} failed: {first_line(error)}"
            ) from error
        raise DeviceError(
            f"the board must answer within {self._answer_seconds:g} seconds; nothing whole came of "
            f"{_ATTEMPTS} requests: load its bitstream, or check the port ({self._path}) and its "
            f"baud rate ({self._baud})"
        )

    def _answer(self, num_bytes: int, wanted: int | None) -> Answer | None:
        """The answer to the request with our tag, or to one that arrived damaged; None on timeout.

        The timeout includes the transmission time of `num_bytes`. An answer with another payload
        than `wanted` bytes is to a request of an earlier session with the same tag.
        """
        deadline = time.monotonic() + self._answer_seconds + 10 * num_bytes / self._baud
        while time.monotonic() < deadline:
            self._received += self._serial.read(max(self._serial.in_waiting, 1))
            answer, used = parse_answer(self._received)
            self._received = self._received[used:]
            if answer is None:
                continue
            if answer.status == Status.DAMAGED or (
                answer.tag == self._tag
                and (answer.status != Status.OK or wanted in (None, len(answer.payload)))
            ):
                return answer
        return None


def _runs(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs of adjacent registers in order: the offset of the first one, and their number."""
    begin = 0
    for at in range(1, len(offsets) + 1):
        apart = (
            at == len(offsets)
            or offsets[at] != offsets[at - 1] + 4
            or not _EFFECTS.isdisjoint(offsets[at - 1 : at + 1])
            or 4 * (at - begin) == MAX_PAYLOAD_BYTES
        )
        if apart:
            yield offsets[begin], at - begin
            begin = at


def uart_device(
    variant: Variant,
    *,
    port: str | None = None,
    baud: int = DEFAULT_BAUD,
    answer_seconds: float = DEFAULT_ANSWER_SECONDS,
) -> RegisterDevice:
    """The device ``uart``: a machine of `variant` on a board at serial port `port`.

    The other arguments are those of `UartPort`; a simulated board may need long to answer.

    Raises UserError where no port is given, or as `UartPort` and `RegisterDevice` do.
    """
    if port is None:
        raise UserError("the uart device needs the serial port of a board: give --option port=PATH")
    link = UartPort(port, baud=baud, answer_seconds=answer_seconds)
    return RegisterDevice(
        link,
        variant,
        name="uart",
        memory_base=0,
        memory_bytes=link.identity.memory_bytes,
        keeps_memory=False,
    )
