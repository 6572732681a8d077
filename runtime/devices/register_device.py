"""`RegisterDevice`: the driver of the control registers, shared by every kind of board.

Input: a `Port`. It implements `isa.protocols.Device`, so programs run on boards as on simulators.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from daedal.common.errors import DeviceError, UserError
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.protocols import next_page
from daedal.isa.registers import DRAIN_LIMIT_CYCLES, MARK_BYTES, register
from daedal.isa.run_registers import (
    REPORT_REGISTERS,
    START,
    WATCHDOG_CYCLES,
    RunPlacement,
    check_identity,
    num_marked,
    read_report,
    setup_writes,
)
from daedal.isa.variant import Variant
from daedal.runtime.devices.port import Port
from daedal.runtime.last_launch import LastLaunch

__all__ = ["RegisterDevice"]

_RUNNING, _DONE = 1, 2
_ISR = register("isr").offset
_ABORT = (register("abort").offset, 1)
_GIE = 1
"""Every run sets the global interrupt enable, and only a reset clears it."""
_IDENTITY = ("id", "fingerprint_lo", "fingerprint_hi")

_LOOK_SECONDS = 0.25
"""Longest polling interval: the delay that a lost interrupt costs."""

_ABORT_SECONDS = 2.0
"""Timeout of an abort: some thousand cycles (docs/hardware.md), and the port's latency."""


@dataclass(frozen=True)
class _Placed:
    program: Program
    address: int
    marks_address: int
    num_marks: int


class RegisterDevice:
    """A machine behind a `Port`.

    Memory is allocated in pages from the first byte on and never freed; close the device and open
    it again to free it. A run that times out, or that is interrupted on the host, is aborted: the
    host may then use its buffers again, and the next run may start.

    Parameters
    ----------
    port
        Access to registers and memory.
    variant
        The machine's variant; the machine must report its fingerprint.
    name
        For reports: ``uio``, ``uart``, ...
    memory_base, memory_bytes
        The part of external memory that this device may use: address and size.
    timeout_seconds
        Timeout of a run. The machine's watchdog ends a run without progress (`watchdog_cycles`);
        this one is for a machine that does not answer.
    watchdog_cycles
        Cycles without progress that end a run with error WATCHDOG.
    drain_limit_cycles
        Cycles that the bus has to finish its open bursts after an error; a slow bus needs more.
    keeps_memory
        Whether memory keeps its contents when the bitstream is loaded anew.
    memory_fault
        What a test of the memory has found, in a sentence.

    Raises
    ------
    DeviceError
        There is no machine, it is of another variant, it cannot be stopped, or its bus cannot
        address the memory.
    """

    def __init__(
        self,
        port: Port,
        variant: Variant,
        *,
        name: str,
        memory_base: int,
        memory_bytes: int,
        timeout_seconds: float = 60.0,
        watchdog_cycles: int = WATCHDOG_CYCLES,
        drain_limit_cycles: int = DRAIN_LIMIT_CYCLES,
        keeps_memory: bool = True,
        memory_fault: str | None = None,
    ) -> None:
        if not timeout_seconds > 0:
            raise UserError(f"timeout_seconds must be above 0, not {timeout_seconds:g}")
        reach = 1 << variant.bus.address_bits
        if memory_base + memory_bytes > reach:
            raise DeviceError(
                f"memory must lie below {reach:#x}, which the {variant.bus.address_bits} address "
                f"bits of variant {variant.name!r} reach; it ends at "
                f"{memory_base + memory_bytes:#x}: reserve lower memory, or build a variant with "
                "more bus.address_bits"
            )
        self._port = port
        self._variant = variant
        self._name = name
        self._memory_base = memory_base
        self._next = next_page(memory_base)
        self._end = memory_base + memory_bytes
        self._memory_bytes = memory_bytes
        self._timeout_seconds = timeout_seconds
        self._limits = (watchdog_cycles, drain_limit_cycles)
        self._placed: list[_Placed] = []
        self._last = LastLaunch()
        self._keeps_memory = keeps_memory
        self._memory_fault = memory_fault
        self._has_run = False
        check_identity(self._read(_IDENTITY), variant)
        if self._read(("control",))["control"] & _RUNNING:
            self._abort()  # the process that started this run is gone

    def close(self) -> None:
        """Leave the board to other devices and processes; it must not be used afterwards."""
        self._port.close()

    @property
    def name(self) -> str:
        """As given."""
        return self._name

    @property
    def variant(self) -> Variant:
        """The machine's variant."""
        return self._variant

    @property
    def port(self) -> Port:
        """As given. Whoever writes to memory through it does so before any allocation."""
        return self._port

    @property
    def memory(self) -> range:
        """Addresses of the memory that the device may use."""
        return range(self._memory_base, self._end)

    @property
    def memory_fault(self) -> str | None:
        """As given."""
        return self._memory_fault

    def alloc(self, size_bytes: int) -> int:
        """Address of a new region. Raises DeviceError if memory is exhausted."""
        size = next_page(max(size_bytes, 1))
        left = max(self._end - self._next, 0)
        if size > left:
            raise DeviceError(
                f"what runs on the {self._name} device must fit its {self._memory_bytes} bytes of "
                f"memory; {size} more are needed and {left} are left: reserve more memory or run a "
                "smaller network"
            )
        address = self._next
        self._next += size
        return address

    def write(self, address: int, data: bytes) -> None:
        """Copy into memory."""
        self._port.update_memory(address, data)

    def read(self, address: int, size_bytes: int) -> bytes:
        """Copy out of memory."""
        return self._port.read_memory(address, size_bytes)

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        """Run to the interrupt.

        A machine that was reset since the last run loads again what stays on chip.

        Raises DeviceError when the machine reports an error, times out, or is no longer the same
        machine.
        """
        program.check_launch(self._variant, f"the {self._name} device", bases)
        self._notice_reset()
        with self._last.then(program) as running:
            return self._run(running, bases)

    def _notice_reset(self) -> None:
        """Forget what the scratchpads held before a reset or a new bitstream."""
        if not self._has_run or self._read(("gie",))["gie"] & _GIE:
            return
        if not self._keeps_memory:
            raise DeviceError(
                f"a board must keep what was written to it; that of the {self._name} device was "
                "reset since its last run, or its bitstream loaded anew: open the device again"
            )
        self._last.forget()

    def _run(self, program: Program, bases: Sequence[int]) -> Profile:
        placed = self._place(program)
        placement = RunPlacement(placed.address, bases, placed.marks_address, placed.num_marks)
        # A pending interrupt of an earlier run would look like the end of this one.
        self._acknowledge(self._read(("control", "isr")))
        begin = time.perf_counter()
        with self._aborted_unless_done():
            self._port.write_registers((*setup_writes(program, placement, *self._limits), START))
            self._has_run = True
            self._wait()
        seconds = time.perf_counter() - begin
        values = self._read(REPORT_REGISTERS)
        self._acknowledge(values)
        check_identity(values, self._variant)
        size = min(values["marks_written"], placed.num_marks) * MARK_BYTES
        ring = self._port.read_memory(placed.marks_address, size) if size else b""
        report = read_report(values, ring, device=self._name, wall_seconds=seconds)
        report.check()
        return report.profile

    def _place(self, program: Program) -> _Placed:
        """The placement of the instructions, which are written at the first launch of a program."""
        for placed in self._placed:
            if placed.program is program:
                return placed
        code = program.encode()
        count = num_marked(program)
        placed = _Placed(
            program, self.alloc(len(code)), self.alloc(count * MARK_BYTES) if count else 0, count
        )
        self._port.update_memory(placed.address, code)
        self._placed.append(placed)
        return placed

    def _read(self, names: Sequence[str]) -> dict[str, int]:
        values = self._port.read_registers([register(name).offset for name in names])
        return dict(zip(names, values, strict=True))

    def _acknowledge(self, values: dict[str, int]) -> None:
        """Clear the interrupt if it is pending: writing 1 toggles it."""
        if values["isr"] & 1:
            self._port.write_registers([(_ISR, 1)])

    def _wait(self) -> None:
        """Return when the run is over. Raises DeviceError on timeout."""
        deadline = time.monotonic() + self._timeout_seconds
        while not self._read(("control",))["control"] & _DONE:
            left = deadline - time.monotonic()
            if left <= 0:
                raise DeviceError(
                    f"a run on the {self._name} device must end within "
                    f"{self._timeout_seconds:g} seconds; it did not and was aborted: allow more "
                    "time, or check clock, reset and memory of the machine"
                )
            self._port.wait_interrupt(min(left, _LOOK_SECONDS))

    @contextmanager
    def _aborted_unless_done(self) -> Iterator[None]:
        try:
            yield
        except BaseException as reason:
            try:
                self._abort()
            except DeviceError as error:
                reason.add_note(str(error))
            raise

    def _abort(self) -> None:
        """Abort the current run. Raises DeviceError if the machine does not stop."""
        self._port.write_registers([_ABORT])
        deadline = time.monotonic() + _ABORT_SECONDS
        while self._read(("control",))["control"] & _RUNNING:
            if time.monotonic() > deadline:
                raise DeviceError(
                    f"the machine must stop within {_ABORT_SECONDS:g} seconds of an abort; it did "
                    "not: load the bitstream again"
                )
            self._port.wait_interrupt(0.01)
