"""`Port`: the way to a machine on a board, all that a kind of board has to implement."""

from collections.abc import Sequence
from typing import Protocol

__all__ = ["Port"]


class Port(Protocol):
    """Control registers and external memory of one machine.

    Register offsets are those of `isa.registers`, memory addresses those that the machine puts on
    its bus. Registers are read and written in the order given: reading `control` and writing
    `control`, `isr` or `abort` have effects. What was written to memory is seen by the machine
    once a later register write has arrived, and what it wrote before the end of a run is read
    after that. Every method raises DeviceError where the other end does not answer.
    """

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        """The values of 32-bit registers; one way there and back, where that takes time."""
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

    def wait_interrupt(self, seconds: float) -> None:
        """Sleep until the interrupt may be there, and for so long at most.

        Returning early is always right: the caller looks at the registers. A port that hears no
        interrupts sleeps for a shorter time than that.
        """
        ...
