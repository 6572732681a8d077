"""`Port`: access to a machine on a board; the only interface a kind of board has to implement."""

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Port"]


class Port(Protocol):
    """Control registers and external memory of one machine.

    Register offsets are those of `isa.registers`, memory addresses those on the machine's bus.
    Registers are read and written in the given order: reading `control` and writing `control`,
    `isr` or `abort` have side effects. Memory writes are visible to the machine once a later
    register write has arrived; what the machine wrote during a run can be read after its end. Every
    method raises DeviceError if the other end does not answer.
    """

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """The values of 32-bit registers, in a single round trip if those are slow."""
        ...

    def write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        """Write ``(offset, 32-bit value)`` in order."""
        ...

    def read_memory(self, address: int, size_bytes: int) -> bytes:
        """Copy out of external memory."""
        ...

    def write_memory(self, address: int, data: bytes) -> None:
        """Copy into external memory."""
        ...

    def update_memory(self, address: int, data: bytes) -> None:
        """Make external memory hold `data`: as `write_memory`, but a port over a slow line leaves
        out what is there already."""
        ...

    def wait_interrupt(self, seconds: float) -> None:
        """Wait until the interrupt may have occurred, or for the timeout `seconds`.

        Returning early is always allowed, as the caller checks the registers. A port without
        interrupts sleeps for a shorter time, so that the caller polls.
        """
        ...

    def close(self) -> None:
        """Leave the board to others. Nothing else may be called afterwards."""
        ...
