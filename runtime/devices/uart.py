"""A board behind a serial port: `Port` over frames of `common.bridge`, and the device `uart`."""

import time
from collections.abc import Iterator, Sequence
from types import TracebackType

from daedal.common.bridge import MAX_PAYLOAD_BYTES, Identity, MemoryTest, Op
from daedal.common.errors import DeviceError, UserError
from daedal.common.reporting import Report
from daedal.isa.registers import register
from daedal.isa.variant import Variant
from daedal.runtime.devices.register_device import RegisterDevice
from daedal.runtime.devices.serial_line import Request, SerialLine
from daedal.runtime.devices.upload import send, update

__all__ = ["UartPort", "uart_device"]

DEFAULT_ANSWER_SECONDS = 2.0

_POLL_SECONDS = 0.001
"""Polling interval while the machine runs; a poll takes about as long over USB."""

# Not idempotent: the bridge protects only single accesses against being repeated.
_EFFECTS = frozenset(register(name).offset for name in ("control", "isr", "abort"))

_TEST_POLL_SECONDS = 0.05

_TEST_CYCLES = 100
"""More than a test of memory takes for a byte; it takes about 10."""


class UartPort:
    """Registers and memory of a board behind a serial port.

    Parameters
    ----------
    path
        The serial port, or a pseudo-terminal in its place.
    baud
        The baud rate that the bitstream was built for; None: it is found.
    answer_seconds
        Timeout of an answer, after which the request is sent again.
    report
        Called with the rate that was found, and with how far a long upload is.

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
        baud: int | None = None,
        answer_seconds: float = DEFAULT_ANSWER_SECONDS,
        report: Report = lambda _sentence: None,
    ) -> None:
        self._report = report
        self._line = SerialLine(path, baud=baud, answer_seconds=answer_seconds)
        try:
            self.identity = self._line.find_board()
            report(f"a board answers at {self.baud:,} baud")
            self._wait_for_test(answer_seconds)
            self._line.ask(Request(Op.RESET))
        except BaseException:
            self.close()
            raise

    @property
    def baud(self) -> int:
        """The rate at which the board has answered."""
        return self._line.baud

    def __enter__(self) -> "UartPort":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def memory_fault(self) -> str | None:
        """What the board's own test has found of its memory at start-up, in a sentence."""
        if self.identity.memory_test != MemoryTest.FAILED:
            return None
        return (
            "the board's memory must hold what is written to it; it failed the test at start-up, "
            f"first at {self.identity.failing_address:#x}"
        )

    def _wait_for_test(self, answer_seconds: float) -> None:
        """Return when the board has tested its memory. Raises DeviceError if it does not end."""
        seconds = _TEST_CYCLES * self.identity.memory_bytes / max(self.identity.clock_hz, 1)
        deadline = time.monotonic() + max(seconds, answer_seconds)
        while self.identity.memory_test == MemoryTest.RUNNING:
            if time.monotonic() > deadline:
                raise DeviceError(
                    "the board must have tested its memory after some seconds; it did not: check "
                    "the memory's pins and clock, and load the bitstream again"
                )
            self._report("the board tests its memory")
            time.sleep(_TEST_POLL_SECONDS)
            self.identity = Identity.decode(self._line.ask(Request(Op.IDENTIFY)))

    def close(self) -> None:
        """Close the serial port."""
        self._line.close()

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """The values of 32-bit registers, adjacent ones in one request."""
        values = []
        for first, count in _runs(offsets):
            data = self._line.ask(Request(Op.READ_REGISTERS, first, 4 * count))
            values += [int.from_bytes(data[at : at + 4], "little") for at in range(0, 4 * count, 4)]
        return values

    def write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        """Write ``(offset, 32-bit value)`` in order, adjacent ones in one request."""
        begin = 0
        for first, count in _runs([offset for offset, _ in writes]):
            values = [value for _, value in writes[begin : begin + count]]
            payload = b"".join(value.to_bytes(4, "little") for value in values)
            self._line.ask(Request(Op.WRITE_REGISTERS, first, payload=payload))
            begin += count

    def read_memory(self, address: int, size_bytes: int) -> bytes:
        """Copy out of the board's memory."""
        starts = range(0, size_bytes, MAX_PAYLOAD_BYTES)
        return b"".join(
            self._line.ask_all(
                [
                    Request(Op.READ_MEMORY, address + at, min(size_bytes - at, MAX_PAYLOAD_BYTES))
                    for at in starts
                ]
            )
        )

    def write_memory(self, address: int, data: bytes) -> None:
        """Copy into the board's memory."""
        send(self._line, address, data, self._report)

    def update_memory(self, address: int, data: bytes) -> None:
        """As `write_memory`; blocks that memory holds already are not sent."""
        update(self._line, address, data, self._report)

    def wait_interrupt(self, seconds: float) -> None:
        """Sleep for a short time: the serial port carries no interrupt."""
        time.sleep(min(seconds, _POLL_SECONDS))


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
    baud: int | None = None,
    answer_seconds: float = DEFAULT_ANSWER_SECONDS,
    report: Report = lambda _sentence: None,
    accepts_faults: bool = False,
) -> RegisterDevice:
    """The device ``uart``: a machine of `variant` on a board at serial port `port`.

    The other arguments are those of `UartPort`; a simulated board may need long to answer.
    `accepts_faults`: memory that has failed the board's own test is no error, as for a test that
    says more about it.

    Raises UserError where no port is given, DeviceError where memory has failed its test, or as
    `UartPort` and `RegisterDevice` do.
    """
    if port is None:
        raise UserError("the uart device needs the serial port of a board: give --option port=PATH")
    link = UartPort(port, baud=baud, answer_seconds=answer_seconds, report=report)
    try:
        fault = link.memory_fault
        if fault is not None and not accepts_faults:
            raise DeviceError(f"{fault}: run daedal board-test, which says what to look at")
        return RegisterDevice(
            link,
            variant,
            name="uart",
            memory_base=0,
            memory_bytes=link.identity.memory_bytes,
            keeps_memory=False,
            memory_fault=fault,
        )
    except BaseException:
        link.close()
        raise
