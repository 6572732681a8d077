"""`Intervention`: what the host does in the middle of a run; `OpenBursts`: what it broke into.

Input: a cycle and an action. Output: an entry of a `Job`. As there, no meaning is attached to any
register.
"""

from dataclasses import dataclass

from daedal.isa.errors import ProgramError

__all__ = ["RESET_CYCLES", "Intervention", "OpenBursts"]

RESET_CYCLES = 16
"""A reset's length where nothing else is said."""


@dataclass(frozen=True)
class OpenBursts:
    """Bursts that the memory had accepted and not finished.

    Attributes
    ----------
    reads
        Some R beat is still to come.
    unwritten
        Writes that lack W beats.
    unanswered
        Writes whose data is complete and whose B is still to come.
    """

    reads: int
    unwritten: int
    unanswered: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.reads + self.unwritten + self.unanswered


@dataclass(frozen=True)
class Intervention:
    """A control write or a reset, so many cycles after the start write.

    A run that has ended before is left alone. A reset ends the run: no interrupt follows it.

    Attributes
    ----------
    at_cycle
        When, counted as `RawResult.cycles` is. A control write takes effect some cycles later.
    write
        ``(register address, value)``; None: a reset.
    reset_cycles
        How long the reset is held.
    reset_memory
        The reset is that of the whole bus: the memory forgets its bursts, too. Otherwise only the
        machine is reset, and the memory goes on with what is open.
    """

    at_cycle: int
    write: tuple[int, int] | None = None
    reset_cycles: int = RESET_CYCLES
    reset_memory: bool = True

    def __post_init__(self) -> None:
        if self.at_cycle < 1:
            raise ProgramError(f"an intervention comes in cycle 1 or later, not {self.at_cycle}")
        if not 1 <= self.reset_cycles < 1 << 16:
            raise ProgramError(
                f"reset_cycles must be 1 to {(1 << 16) - 1}, not {self.reset_cycles}"
            )
