"""`Intervention`: a host action in the middle of a run; `OpenBursts`: the bursts open at that time.

Input: a cycle and an action. Output: an entry of a `Job`. As in `job.py`, registers are only
addresses here.
"""

from dataclasses import dataclass

from daedal.common.errors import ProgramError

__all__ = ["RESET_CYCLES", "Intervention", "OpenBursts"]

RESET_CYCLES = 16
"""Default length of a reset."""


@dataclass(frozen=True)
class OpenBursts:
    """Bursts that the memory had accepted but not finished.

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
    """A control write or a reset, a number of cycles after the start write.

    It is skipped if the run has ended before. A reset ends the run: no interrupt follows it.

    Attributes
    ----------
    at_cycle
        When, counted as `RawResult.cycles` is. A control write takes effect some cycles later.
    write
        ``(register address, value)``; None: a reset.
    reset_cycles
        How long the reset is held.
    reset_memory
        Reset the memory model as well, which drops its open bursts. Otherwise only the machine is
        reset, and the memory continues its open bursts.
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
