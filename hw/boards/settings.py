"""Options of a board's bitstream: clock, memory, serial port."""

from dataclasses import dataclass

from daedal.common.bridge import BAUD_RATES
from daedal.common.errors import UserError
from daedal.hw.boards.block_memory import BANK_WORDS
from daedal.hw.boards.board import Board
from daedal.hw.boards.pll import PllSettings
from daedal.hw.boards.uart_receiver import LEAST_DIVISOR
from daedal.isa.sdram_chip import SdramChip
from daedal.isa.sdram_slots import SlotTimes
from daedal.isa.variant import Variant

__all__ = ["BoardSettings", "bank_bytes"]

_SILENCE_SECONDS = 0.01
"""Longer than any gap within a frame: a serial port on USB is served every millisecond."""

_BAUD_ERROR = 0.02
"""Both ends together may be off by about 5 %: half a bit at the last of ten bits."""


def bank_bytes(variant: Variant) -> int:
    """Bytes of one memory bank; memory is a multiple of this."""
    return BANK_WORDS * variant.bus_bytes


@dataclass(frozen=True)
class BoardSettings:
    """One bitstream's choices; raises UserError for those that cannot be built.

    Attributes
    ----------
    board
        Where it is loaded.
    variant
        The machine.
    clock
        The clock generator's dividers; its output drives everything.
    memory_bytes
        On-chip memory, a multiple of `bank_bytes`; or all of the SDRAM.
    divisor
        Clock cycles of a bit of the serial port.
    silence_cycles
        Cycles of silence that end a frame; a power of two.
    sdram
        The chip behind the machine; None: on-chip memory. `clock` has the chip's clocks, too.
    fewer_tested
        Words of SDRAM that are tested at start-up, for simulations; None: all of them.
    """

    board: Board
    variant: Variant
    clock: PllSettings
    memory_bytes: int
    divisor: int
    silence_cycles: int
    sdram: SdramChip | None = None
    fewer_tested: int | None = None

    def __post_init__(self) -> None:
        if self.sdram is not None:
            if self.board.sdram is None:
                raise UserError(
                    f"board {self.board.name!r} has no SDRAM: a machine there has block RAM only"
                )
            self.board.sdram.check_chip(self.sdram)
            self.sdram.check_bus(self.variant)
            SlotTimes.of(self.sdram, 2 * self.clock.output_hz)  # refuses a clock that is too fast
            assert self.memory_bytes == self.sdram.size_bytes, "all of the chip is used"
            assert self.clock.lag is not None, "a board with SDRAM has clocks for it"
        grain = bank_bytes(self.variant)
        if self.memory_bytes < grain or self.memory_bytes % grain:
            raise UserError(
                f"on-chip memory must be a multiple of {grain // 1024} KiB for this variant's bus, "
                f"not {self.memory_bytes / 1024:g} KiB"
            )
        if self.divisor < LEAST_DIVISOR:
            raise UserError(
                f"a bit of the serial port must take at least {LEAST_DIVISOR} clock cycles, not "
                f"{self.divisor}; choose a slower baud rate or a faster clock"
            )

    @property
    def slot_times(self) -> SlotTimes | None:
        """The chip's times at this clock. Raises UserError if the controller cannot keep them."""
        return None if self.sdram is None else SlotTimes.of(self.sdram, 2 * self.clock.output_hz)

    @property
    def num_tested(self) -> int:
        """Bus words that are tested at start-up; on-chip memory is not."""
        if self.sdram is None:
            return 0
        return self.fewer_tested or self.memory_bytes // self.variant.bus_bytes

    @property
    def constraints(self) -> str:
        """The board's pins, as far as the design has them, for place and route."""
        return self.board.constraints(with_sdram=self.sdram is not None)

    @classmethod
    def for_baud(
        cls,
        board: Board,
        variant: Variant,
        clock: PllSettings,
        memory: int | SdramChip,
        baud: int | None = None,
    ) -> "BoardSettings":
        """The divisor nearest to `baud`; `memory` is a chip, or bytes on the chip of the machine.

        Without a rate, the fastest of `BAUD_RATES` that the clock gives: hosts try these.

        Raises UserError if no divisor is near enough.
        """
        baud = baud or _fastest_rate(clock)
        divisor, error = _divisor(clock, baud)
        if abs(error) > _BAUD_ERROR:
            raise UserError(
                f"the baud rate must divide the clock of {clock.output_hz / 1e6:g} MHz to within "
                f"{_BAUD_ERROR:.0%}, which {baud} misses by {error:+.1%}; choose another of the two"
            )
        silence = 1 << (int(_SILENCE_SECONDS * clock.output_hz) - 1).bit_length()
        if isinstance(memory, SdramChip):
            return cls(board, variant, clock, memory.size_bytes, divisor, silence, memory)
        return cls(board, variant, clock, memory, divisor, silence)


def _divisor(clock: PllSettings, baud: int) -> tuple[int, float]:
    """Clock cycles of a bit, and by how much the rate that they give is off."""
    divisor = max(round(clock.output_hz / baud), 1)
    return divisor, clock.output_hz / divisor / baud - 1


def _fastest_rate(clock: PllSettings) -> int:
    """The fastest of `BAUD_RATES` that can be built; the slowest, if none can."""
    for baud in BAUD_RATES:
        divisor, error = _divisor(clock, baud)
        if divisor >= LEAST_DIVISOR and abs(error) <= _BAUD_ERROR:
            return baud
    return BAUD_RATES[-1]
