"""`SdramChip`: an SDR SDRAM as its data sheet describes it: widths, and every time.

Slots are computed from it (`sdram_slots.py`), and the checking model of the simulation gets its
parameters from it (`sim/rtl/hdl/sdram_chip.v`).
"""

from dataclasses import dataclass

from daedal.common.errors import UserError
from daedal.isa.variant import Variant

__all__ = ["BURST_COLUMNS", "CHIPS", "SdramChip"]

BURST_COLUMNS = 4
"""Columns that a READ or WRITE moves, set in the chip's mode register."""

_MOST_NS = {
    "clock_ns": 1e3,
    "row_to_data_ns": 1e4,
    "precharge_ns": 1e4,
    "row_open_ns": 1e4,
    "row_cycle_ns": 1e4,
    "write_recovery_ns": 1e4,
    "refresh_ns": 1e4,
    "row_to_row_ns": 1e4,
    "refresh_interval_ns": 1e6,
    "power_up_ns": 1e7,
}
"""Times, and more than any data sheet has; the controller's counters have bits for so long."""


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise UserError(message)


@dataclass(frozen=True)
class SdramChip:
    """One chip, or several of one kind side by side.

    Attributes
    ----------
    name
        The part of the data sheet, with its speed grade.
    data_bits
        Pins DQ; each byte of them has a mask (DQM).
    row_bits, column_bits, bank_bits
        Widths of the three parts of an address.
    cas_latency
        CL, in clocks: 2 or 3.
    clock_ns
        tCK: the shortest clock at that latency.
    row_to_data_ns
        tRCD: ACTIVE to READ or WRITE.
    precharge_ns
        tRP: PRECHARGE to ACTIVE or REFRESH.
    row_open_ns
        tRAS: ACTIVE to PRECHARGE.
    row_cycle_ns
        tRC: ACTIVE to ACTIVE of the same bank.
    write_recovery_ns
        tWR (tDPL): last data of a WRITE to PRECHARGE.
    refresh_ns
        tRFC: REFRESH to any command.
    row_to_row_ns
        tRRD: ACTIVE to ACTIVE of another bank.
    mode_clocks
        tMRD: MODE to any command, in clocks.
    refresh_interval_ns
        tREFI: the mean time between two REFRESH.
    power_up_ns
        Pause before the first command.
    init_refreshes
        REFRESH between the pause and MODE.

    Raises
    ------
    UserError
        A number describes no SDR SDRAM.
    """

    name: str
    data_bits: int
    row_bits: int
    column_bits: int
    bank_bits: int
    cas_latency: int
    clock_ns: float
    row_to_data_ns: float
    precharge_ns: float
    row_open_ns: float
    row_cycle_ns: float
    write_recovery_ns: float
    refresh_ns: float
    row_to_row_ns: float
    mode_clocks: int = 2
    refresh_interval_ns: float = 64e6 / 8192
    power_up_ns: float = 200_000.0
    init_refreshes: int = 8

    def __post_init__(self) -> None:
        for name, allowed in (
            ("data_bits", (8, 16, 32)),
            ("row_bits", range(11, 14)),
            ("column_bits", range(8, 11)),
            ("bank_bits", (1, 2)),
            ("cas_latency", (2, 3)),
            ("mode_clocks", range(1, 5)),
            ("init_refreshes", range(1, 17)),
        ):
            value = getattr(self, name)
            last = f"{allowed[-1]}"
            choice = f"{allowed[0]} to {last}" if isinstance(allowed, range) else ""
            choice = choice or ", ".join(map(str, allowed[:-1])) + f" or {last}"
            _require(
                value in allowed,
                f"{name} of an SDRAM must be {choice}, not {value} (chip {self.name!r})",
            )
        for name, most in _MOST_NS.items():
            value = getattr(self, name)
            _require(
                0 < value <= most,
                f"{name} must be more than 0 and at most {most:,.0f}, not {value:g} "
                f"(chip {self.name!r})",
            )
        _require(
            self.clock_ns >= 1,
            f"clock_ns must be at least 1, not {self.clock_ns:g} (chip {self.name!r})",
        )
        _require(
            self.row_cycle_ns >= self.row_open_ns,
            f"row_cycle_ns must be at least row_open_ns, {self.row_open_ns:g}, not "
            f"{self.row_cycle_ns:g} (chip {self.name!r})",
        )
        _require(
            self.refresh_interval_ns > 10 * self.refresh_ns,
            f"refresh_interval_ns must be more than ten times refresh_ns, {self.refresh_ns:g}, not "
            f"{self.refresh_interval_ns:g} (chip {self.name!r})",
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of the whole chip."""
        return self.data_bits // 8 << (self.row_bits + self.bank_bits + self.column_bits)

    @property
    def row_bytes(self) -> int:
        """Bytes of one row of one bank."""
        return self.data_bits // 8 << self.column_bits

    @property
    def row_words(self) -> int:
        """Bus words of one row of one bank."""
        return (1 << self.column_bits) // BURST_COLUMNS

    def check_bus(self, variant: Variant) -> None:
        """Raise UserError unless a bus word is one burst of the chip."""
        wanted = BURST_COLUMNS * self.data_bits
        if variant.bus.data_bits != wanted:
            raise UserError(
                f"bus.data_bits must be {wanted} with this SDRAM, {BURST_COLUMNS} columns of "
                f"{self.data_bits} bits, not {variant.bus.data_bits} (chip {self.name!r})"
            )

    @property
    def mode(self) -> int:
        """The mode register: bursts of `BURST_COLUMNS` in sequence, reads and writes alike."""
        return self.cas_latency << 4 | (BURST_COLUMNS.bit_length() - 1)


# All parts that ULX3S boards have are 4 banks x 8,192 rows x 512 columns x 16 bits; most have the
# first one. The times are no shorter than those of any of the parts in LiteDRAM 2024.12,
# litedram/modules.py (IS42S16160, MT48LC16M16, AS4C16M16, W9825G6KH6); that file has no tRAS and
# tRC for most: 45 and 66 ns are usual for the grades -7 and -75, and are to be checked with the
# data sheet of the part at hand. The shortest clock is that of
# the grade: 143, 166 and 200 MHz at a CAS latency of 3.
CHIPS: dict[str, SdramChip] = {
    name: SdramChip(
        name=name,
        data_bits=16,
        row_bits=13,
        column_bits=9,
        bank_bits=2,
        cas_latency=3,
        clock_ns=clock_ns,
        row_to_data_ns=21.0,
        precharge_ns=21.0,
        row_open_ns=45.0,
        row_cycle_ns=66.0,
        write_recovery_ns=recovery_ns,
        refresh_ns=refresh_ns,
        row_to_row_ns=15.0,
    )
    for name, clock_ns, recovery_ns, refresh_ns in (
        ("IS42S16160G-7", 7.0, 20.0, 70.0),
        ("W9825G6KH-6", 6.0, 15.0, 67.5),
        ("W9825G6KH-5", 5.0, 15.0, 67.5),
    )
}
"""Chips by part; the first is on most ULX3S boards."""
