"""The times of an SDRAM in slots, for one clock.

Input: an `SdramChip` and the clock of its pins. Output: `SlotTimes`, whole numbers of slots, or one
sentence why the controller cannot keep the chip's times at that clock.

A *slot* is two bus cycles and four clocks of the chip. In each slot the pins have a READ or WRITE
in clock 0, a PRECHARGE in clock 2, and an ACTIVE, REFRESH or MODE in clock 3. A READ or WRITE moves
four columns, so one in every slot keeps the pins DQ busy. With these places, k slots are

    PRECHARGE to ACTIVE or REFRESH   4k + 1 clocks      WRITE's last column to PRECHARGE   4k - 1
    ACTIVE to READ or WRITE          4k - 3             REFRESH to PRECHARGE               4k - 1
    ACTIVE to PRECHARGE              4k - 1             READ to READ, ACTIVE to ACTIVE     4k

With ACTIVE in clock 1 instead, the two steps that open another row would be 4k - 1 clocks each.
From 143 MHz on, where tRP and tRCD are four clocks, they would take a slot more.
"""

from dataclasses import dataclass
from math import ceil, floor

from daedal.common.errors import UserError
from daedal.isa.sdram_chip import BURST_COLUMNS, SdramChip

__all__ = [
    "CAPTURE_CLOCKS",
    "CLOCKS_PER_SLOT",
    "PRECHARGE_CLOCK",
    "ROW_CLOCK",
    "SlotTimes",
    "captured_clocks",
    "read_cycles",
]

CAPTURE_CLOCKS = 1
"""Clocks from the chip's CAS latency to its column in the pins' input registers, when the chip's
clock is that of the pins and no wire is long. A phase between the two clocks may make it 0 or 2."""

CLOCKS_PER_SLOT = BURST_COLUMNS
PRECHARGE_CLOCK = 2
"""Clock of a slot in which a PRECHARGE is on the pins; READ and WRITE are in clock 0."""
ROW_CLOCK = 3
"""The same for ACTIVE, REFRESH and MODE."""

READ_TO_WRITE_SLOTS = 2
"""A WRITE is at least this long after a READ, whose columns use the pins until CL + 3 clocks after
it; one clock between them turns the pins around."""


@dataclass(frozen=True)
class SlotTimes:
    """Distances between commands in slots, at least 1 each.

    Attributes
    ----------
    chip, clock_hz
        What they were computed from; `clock_hz` is the clock of the pins.
    precharge_to_row
        PRECHARGE to ACTIVE of the same bank, or to REFRESH.
    row_to_data
        ACTIVE to the first READ or WRITE of the row; at least 2, as a segment is started by a
        decision of its own.
    row_to_precharge
        ACTIVE to PRECHARGE, long enough for tRAS and, with `precharge_to_row`, for tRC.
    refresh_to_any
        REFRESH to the next command.
    mode_to_any
        MODE to the next command.
    refresh_interval
        Slots from one refresh falling due to the next.
    power_up
        Slots before the first command.

    Raises
    ------
    UserError
        The chip is not fast enough for the clock, or a time does not fit the places in a slot.
    """

    chip: SdramChip
    clock_hz: float
    precharge_to_row: int
    row_to_data: int
    row_to_precharge: int
    refresh_to_any: int
    mode_to_any: int
    refresh_interval: int
    power_up: int

    @classmethod
    def of(cls, chip: SdramChip, clock_hz: float) -> "SlotTimes":
        """Compute the distances for a chip at a clock of its pins."""
        if clock_hz <= 0:
            raise UserError(f"the clock of an SDRAM must be more than 0 Hz, not {clock_hz:g}")
        clock_ns = 1e9 / clock_hz
        _check(chip, clock_hz, clock_ns)

        def slots(time_ns: float, offset: int = 0) -> int:
            """Slots k >= 1 with 4k + `offset` clocks of at least `time_ns`."""
            return max(1, ceil((_clocks(time_ns, clock_ns) - offset) / CLOCKS_PER_SLOT))

        between = ROW_CLOCK - PRECHARGE_CLOCK
        precharge_to_row = slots(chip.precharge_ns, between)
        cycle = slots(chip.row_cycle_ns)
        slot_ns = CLOCKS_PER_SLOT * clock_ns
        return cls(
            chip=chip,
            clock_hz=clock_hz,
            precharge_to_row=precharge_to_row,
            row_to_data=max(2, slots(chip.row_to_data_ns, -ROW_CLOCK)),
            row_to_precharge=max(slots(chip.row_open_ns, -between), cycle - precharge_to_row),
            refresh_to_any=slots(chip.refresh_ns, -between),
            mode_to_any=slots(chip.mode_clocks * clock_ns, -between),
            refresh_interval=floor(chip.refresh_interval_ns / slot_ns),
            power_up=ceil(chip.power_up_ns / slot_ns),
        )


def captured_clocks(chip: SdramChip, capture_clocks: int) -> int:
    """Clocks from the register stage in `sync` to a READ's first column in the input registers."""
    return 1 + chip.cas_latency + capture_clocks


def read_cycles(chip: SdramChip, capture_clocks: int = CAPTURE_CLOCKS) -> int:
    """Bus cycles from a READ in the controller's command register to its word."""
    return 1 + ceil((captured_clocks(chip, capture_clocks) + BURST_COLUMNS) / 2)


def _clocks(time_ns: float, clock_ns: float) -> int:
    """Whole clocks that last `time_ns`; a millionth of one is rounding."""
    return ceil(time_ns / clock_ns - 1e-6)


def _check(chip: SdramChip, clock_hz: float, clock_ns: float) -> None:
    at = f"at {clock_hz / 1e6:g} MHz (chip {chip.name!r})"
    if clock_ns < chip.clock_ns * (1 - 1e-6):
        raise UserError(
            f"the clock of the SDRAM must be at most {1e3 / chip.clock_ns:g} MHz, not "
            f"{clock_hz / 1e6:g} MHz (chip {chip.name!r})"
        )
    recovery = CLOCKS_PER_SLOT + PRECHARGE_CLOCK - (BURST_COLUMNS - 1)
    for what, most, wanted in (
        ("write_recovery_ns", recovery, _clocks(chip.write_recovery_ns, clock_ns)),
        ("row_to_row_ns", CLOCKS_PER_SLOT, _clocks(chip.row_to_row_ns, clock_ns)),
        (
            "cas_latency",
            READ_TO_WRITE_SLOTS * CLOCKS_PER_SLOT - BURST_COLUMNS - 1,
            chip.cas_latency,
        ),
    ):
        if wanted > most:
            raise UserError(f"{what} of an SDRAM must be at most {most} clocks, not {wanted}, {at}")
    columns = chip.row_bytes // (chip.data_bits // 8)
    least_ns = 1.25 * columns * clock_ns
    if chip.refresh_interval_ns < least_ns:
        raise UserError(
            f"refresh_interval_ns of an SDRAM must be at least a row and a quarter, {least_ns:.0f} "
            f"ns, not {chip.refresh_interval_ns:.0f}, {at}; choose a faster clock"
        )
