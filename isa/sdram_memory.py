"""`SdramMemory`: an SDRAM and its controller as the machine sees them, in exact cycles.

Input: a chip, a clock. Output: the numbers that the controller (`hw/boards/sdram`) is built with
and that the cycle model (`sim/timing/sdram.py`) plays.

The rules of every cycle are numbered in `hw/boards/sdram/controller.py`; the names here are the
distances in them. The machine has at most `BURSTS` bursts of `MAX_BURST_BEATS` words open in each
direction and always takes R and B, so rule 2 does not concern it.

A run begins in a fixed *phase* of the refresh: the write that starts it is accepted `phase_cycles`
after a decision in which a refresh fell due, with all rows closed. So a program takes the same
cycles each time.
"""

from dataclasses import dataclass

from daedal.common.errors import UserError
from daedal.isa.latencies import MAX_BURST_BEATS, QUEUE_CYCLES, RAM_READ_CYCLES
from daedal.isa.sdram_chip import SdramChip
from daedal.isa.sdram_slots import CAPTURE_CLOCKS, SlotTimes, read_cycles
from daedal.isa.variant import Variant

__all__ = [
    "ANSWER_CYCLES",
    "BURSTS",
    "REQUEST_CYCLES",
    "SLOT_CYCLES",
    "SPLIT_CYCLES",
    "TURN_BURSTS",
    "WHOLE_CYCLES",
    "WORDS",
    "SdramMemory",
]

SLOT_CYCLES = 2
"""Bus cycles of a slot, in which one word moves."""

BURSTS = 16
"""Bursts of each direction that may wait, and writes that may wait for BREADY."""

WORDS = 512
"""Words of each direction that may wait: one block RAM has as many of 36 bits."""

TURN_BURSTS = 4
"""Bursts of one direction in a row while the other one waits."""

REQUEST_CYCLES = 1 + QUEUE_CYCLES
"""From AR or AW to the choice of a burst: a register, a queue."""

WHOLE_CYCLES = 2
"""From the last W to the choice of its burst: a register, a counter."""

SPLIT_CYCLES = 2
"""From a burst to its first segment: a register, the size of the segment."""

ANSWER_CYCLES = QUEUE_CYCLES
"""From the decision of a write's last word to its B."""

_LEAST_SERVICE = REQUEST_CYCLES + SPLIT_CYCLES + 3 * SLOT_CYCLES
"""From AR to the end of its first word's slot at the least: it is taken, split, accepted as next,
started; then its word moves."""


@dataclass(frozen=True)
class SdramMemory:
    """A chip behind its controller.

    Attributes
    ----------
    times
        Distances between commands in slots; they name the chip and its clock.
    capture_clocks
        Clocks from the chip's CAS latency to a column in the controller's registers: what pads add.
    phase_cycles
        Cycles from the latest refresh that fell due to the write that starts a run.

    Raises
    ------
    UserError
        A number is outside what the simulators can play.
    """

    times: SlotTimes
    capture_clocks: int = CAPTURE_CLOCKS
    phase_cycles: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.capture_clocks <= 4:
            raise UserError(
                f"capture_clocks of an SDRAM must be 1 to 4, not {self.capture_clocks} (chip "
                f"{self.chip.name!r})"
            )
        most = self.refresh_cycles - 1
        if not 0 <= self.phase_cycles <= most:
            raise UserError(
                f"phase_cycles of an SDRAM must be 0 to {most}, the cycles between two refreshes, "
                f"not {self.phase_cycles} (chip {self.chip.name!r})"
            )

    @property
    def chip(self) -> SdramChip:
        """The chip."""
        return self.times.chip

    @property
    def refresh_cycles(self) -> int:
        """Cycles from one refresh falling due to the next."""
        return SLOT_CYCLES * self.times.refresh_interval

    @property
    def read_word_cycles(self) -> int:
        """From the decision of a word to its R: pins and chip, a FIFO in block RAM, a register."""
        return 1 + read_cycles(self.chip, self.capture_clocks) + (RAM_READ_CYCLES + 2) + 1

    @property
    def least_read_cycles(self) -> int:
        """From an AR until its first word has moved on the pins, at the least."""
        return _LEAST_SERVICE

    def check(self, variant: Variant, size_bytes: int = 0) -> None:
        """Refuse a machine that this memory does not suit, or more bytes than it has.

        Raises
        ------
        UserError
            The bus has another width, or more bursts in flight than the controller has places for;
            or the memory is too small.
        """
        self.chip.check_bus(variant)
        for name in ("read_bursts", "write_bursts"):
            bursts = getattr(variant.bus, name)
            if bursts * MAX_BURST_BEATS > WORDS:
                raise UserError(
                    f"bus.{name} must be at most {WORDS // MAX_BURST_BEATS} with an SDRAM, not "
                    f"{bursts} (chip {self.chip.name!r})"
                )
        if size_bytes > self.chip.size_bytes:
            raise UserError(
                f"program and data must fit the memory's {self.chip.size_bytes} bytes; they need "
                f"{size_bytes} (chip {self.chip.name!r})"
            )
