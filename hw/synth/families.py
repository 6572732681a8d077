"""FPGA families and devices: what their cells are called, and how many a device has.

Input: counts of cells by type, as Yosys names them. Output: the resources they take.
"""

import enum
from dataclasses import dataclass

__all__ = ["DEVICES", "CellReport", "Device", "Family"]


class Family(enum.Enum):
    """Families that Yosys maps to, with one device of each as the reference."""

    XC7 = "xc7"
    ECP5 = "ecp5"


@dataclass(frozen=True)
class Device:
    """Resources of one part. `block_ram` counts RAMB36E1, or DP16KD; `dsp` counts multipliers."""

    name: str
    family: Family
    dsp: int
    block_ram: int
    lut: int
    ff: int


DEVICES = {
    # Source: AMD DS190, Zynq-7000 SoC Data Sheet: Overview, table 1, Z-7020.
    Family.XC7: Device("xc7z020", Family.XC7, dsp=220, block_ram=140, lut=53_200, ff=106_400),
    # Source: Lattice FPGA-DS-02012, ECP5 and ECP5-5G Family, table 1.1, LFE5UM-85. A slice has two
    # look-up tables and two flip-flops.
    Family.ECP5: Device("LFE5UM-85F", Family.ECP5, dsp=156, block_ram=208, lut=83_640, ff=83_640),
}

_DSP = {Family.XC7: {"DSP48E1": 1}, Family.ECP5: {"MULT18X18D": 1}}

_BLOCK_RAM_HALVES = {Family.XC7: {"RAMB36E1": 2, "RAMB18E1": 1}, Family.ECP5: {"DP16KD": 2}}

_LUT = {
    # Look-up tables, and those that work as memory or shift register. Two small functions may share
    # a table later, which is not counted on. Source: AMD UG474, chapter 2.
    Family.XC7: {
        **{f"LUT{inputs}": 1 for inputs in range(1, 7)},
        "INV": 1,
        "RAM32X1D": 2,
        "RAM64X1D": 2,
        "RAM128X1D": 4,
        "RAM32X1S": 1,
        "RAM64X1S": 1,
        "RAM128X1S": 2,
        "RAM256X1S": 4,
        "RAM32M": 4,
        "RAM64M": 4,
        "SRL16E": 1,
        "SRLC32E": 1,
    },
    # A carry cell uses both tables of its slice. A 16x4 memory takes two slices, and the tables of
    # a third for its write port. Source: Lattice FPGA-TN-02204, FPGA-TN-02205.
    Family.ECP5: {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6},
}

_FF = {
    Family.XC7: {"FDRE": 1, "FDSE": 1, "FDCE": 1, "FDPE": 1},
    Family.ECP5: {"TRELLIS_FF": 1},
}

_CARRY = {Family.XC7: {"CARRY4": 1}, Family.ECP5: {"CCU2C": 1}}

# Take none of the counted resources: wide multiplexers between tables, pins, clock buffers.
_FREE = {
    Family.XC7: {"MUXF7", "MUXF8", "BUFG", "IBUF", "OBUF"},
    Family.ECP5: {"PFUMX", "L6MUX21", "IB", "OB"},
}


@dataclass(frozen=True)
class CellReport:
    """Resources of a synthesized design before place and route.

    `block_ram` is in RAMB36E1 (an RAMB18E1 is half of one), or DP16KD. `lut` includes tables that
    serve as memory, shift register or carry. `cells` are the counts they were made from.
    """

    family: Family
    dsp: int
    block_ram: float
    lut: int
    ff: int
    carry: int
    cells: dict[str, int]

    @classmethod
    def of(cls, family: Family, cells: dict[str, int]) -> "CellReport":
        """Count the resources of `cells`; a type that is not known is a mistake of this table."""
        tables = (_DSP, _BLOCK_RAM_HALVES, _LUT, _FF, _CARRY)
        known = _FREE[family].union(*(table[family] for table in tables))
        strange = {name for name in cells if not name.startswith("$")} - known
        assert not strange, f"cells of unknown size: {sorted(strange)}"
        dsp, halves, lut, ff, carry = (
            sum(cells.get(name, 0) * size for name, size in table[family].items())
            for table in tables
        )
        return cls(family, dsp, halves / 2, lut, ff, carry, dict(sorted(cells.items())))

    @property
    def shares(self) -> dict[str, float]:
        """Part of the family's reference device that is used, by resource; 1 is all of it."""
        device = DEVICES[self.family]
        return {
            name: getattr(self, name) / getattr(device, name)
            for name in ("dsp", "block_ram", "lut", "ff")
        }

    def fits(self, limit: float = 0.95) -> bool:
        """Whether the reference device holds it: `limit` of the hard blocks, all of the fabric.

        Hard blocks lie in fixed columns, and the last few are hard to reach; look-up tables pack
        better in place and route than they are counted here.
        """
        shares = self.shares
        hard = max(shares["dsp"], shares["block_ram"])
        return hard <= limit and max(shares["lut"], shares["ff"]) <= 1
