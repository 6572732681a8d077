"""FPGA families and devices: what their cells are called, and how many a device has.

Input: counts of cells by type, as Yosys names them. Output: the resources they take.
"""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from daedal.common.errors import UserError
from daedal.hw.family import Family

__all__ = [
    "DEVICES",
    "HARD_LIMIT",
    "RESOURCES",
    "CellReport",
    "Device",
    "Family",
    "Target",
    "find_target",
]

RESOURCES = {"dsp": "DSP", "block_ram": "block RAM", "lut": "LUT", "ff": "FF"}
"""Counted resources, and their names in reports."""


@dataclass(frozen=True)
class Device:
    """Resources of one part. `dsp` counts multipliers; `block_ram` RAMB36E1, RAMB36E2 or DP16KD."""

    name: str
    family: Family
    dsp: int
    block_ram: int
    lut: int
    ff: int


DEVICES = {
    # Source: AMD DS190, Zynq-7000 SoC Data Sheet: Overview, table 1, Z-7020.
    Family.XC7: Device("xc7z020", Family.XC7, dsp=220, block_ram=140, lut=53_200, ff=106_400),
    # Source: Lattice FPGA-DS-02012, ECP5 and ECP5-5G Family, table 1.1, LFE5U-85. A slice has two
    # look-up tables and two flip-flops.
    Family.ECP5: Device("LFE5U-85F", Family.ECP5, dsp=156, block_ram=208, lut=83_640, ff=83_640),
    # Source: AMD DS891, Zynq UltraScale+ MPSoC Data Sheet: Overview, EG devices, ZU3EG.
    Family.XCUP: Device("xczu3eg", Family.XCUP, dsp=360, block_ram=216, lut=70_560, ff=141_120),
}


class Target(enum.StrEnum):
    """Names of the devices on the command line."""

    xc7z020 = "xc7z020"
    xczu3eg = "xczu3eg"
    ecp5_85f = "ecp5-85f"

    @property
    def family(self) -> Family:
        """Family of the device."""
        return _FAMILIES[self]


_FAMILIES = {
    Target.xc7z020: Family.XC7,
    Target.xczu3eg: Family.XCUP,
    Target.ecp5_85f: Family.ECP5,
}


def find_target(name: str) -> Target:
    """A device by its name; a `Target` is returned as it is. Raises UserError for any other."""
    try:
        return Target(name)
    except ValueError:
        known = ", ".join(Target)
        raise UserError(f"an FPGA must be one of {known}, not {name!r:.80}") from None


HARD_LIMIT = 0.95
"""Usable share of the hard blocks: they lie in fixed columns, the last few far away."""

_DSP = {
    Family.XC7: {"DSP48E1": 1},
    Family.ECP5: {"MULT18X18D": 1},
    Family.XCUP: {"DSP48E2": 1},
}

_BLOCK_RAM_HALVES = {
    Family.XC7: {"RAMB36E1": 2, "RAMB18E1": 1},
    Family.ECP5: {"DP16KD": 2},
    Family.XCUP: {"RAMB36E2": 2, "RAMB18E2": 1},
}

_XILINX_LUT = {
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
}

_LUT = {
    # Look-up tables, and those that work as memory or shift register. Two small functions may share
    # a table later, which is not counted on. Source: AMD UG474, chapter 2.
    Family.XC7: _XILINX_LUT,
    # A slice has eight tables there, all of them one memory at most. Source: AMD UG574, chapter 2.
    Family.XCUP: {
        **_XILINX_LUT,
        "RAM32M16": 8,
        "RAM64M8": 8,
        "RAM32X16DR8": 8,
        "RAM64X8SW": 8,
        "RAM256X1D": 8,
        "RAM512X1S": 8,
    },
    # A carry cell uses both tables of its slice. A 16x4 memory takes two slices, and the tables of
    # a third for its write port. Source: Lattice FPGA-TN-02204, FPGA-TN-02205.
    Family.ECP5: {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6},
}

_XILINX_FF = {"FDRE": 1, "FDSE": 1, "FDCE": 1, "FDPE": 1}

_FF = {Family.XC7: _XILINX_FF, Family.ECP5: {"TRELLIS_FF": 1}, Family.XCUP: _XILINX_FF}

# Yosys builds carries of four bits for UltraScale+ too, whose cell has eight.
_CARRY = {
    Family.XC7: {"CARRY4": 1},
    Family.ECP5: {"CCU2C": 1},
    Family.XCUP: {"CARRY4": 1, "CARRY8": 1},
}

# Take none of the counted resources: wide multiplexers between tables, pins and what lies in
# their pads, clocks.
_FREE = {
    Family.XC7: {"MUXF7", "MUXF8", "BUFG", "IBUF", "OBUF"},
    Family.ECP5: {"PFUMX", "L6MUX21", "IB", "OB", "TRELLIS_IO", "ODDRX1F", "EHXPLLL"},
    Family.XCUP: {"MUXF7", "MUXF8", "MUXF9", "BUFG", "IBUF", "OBUF"},
}


@dataclass(frozen=True)
class CellReport:
    """Resources of a synthesized design before place and route.

    `block_ram` is in blocks of the device (an RAMB18E1 or RAMB18E2 is half of one). `lut` includes
    tables that serve as memory, shift register or carry. `cells` are the counts they were made
    from, `units` the same for each unit.
    """

    family: Family
    dsp: int
    block_ram: float
    lut: int
    ff: int
    carry: int
    cells: dict[str, int]
    units: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        family: Family,
        cells: Mapping[str, int],
        units: Mapping[str, dict[str, int]] | None = None,
    ) -> "CellReport":
        """Count the resources of `cells`; an unknown type is an error in this table."""
        tables = (_DSP, _BLOCK_RAM_HALVES, _LUT, _FF, _CARRY)
        known = _FREE[family].union(*(table[family] for table in tables))
        strange = {name for name in cells if not name.startswith("$")} - known
        assert not strange, f"cells of unknown size: {sorted(strange)}"
        dsp, halves, lut, ff, carry = (_sum(table[family], cells) for table in tables)
        sorted_cells = dict(sorted(cells.items()))
        return cls(family, dsp, halves / 2, lut, ff, carry, sorted_cells, dict(units or {}))

    @property
    def unit_resources(self) -> dict[str, dict[str, float]]:
        """Resources of each unit by its name; they sum to those of the whole."""
        return {
            unit: {name: getattr(part, name) for name in RESOURCES}
            for unit, cells in sorted(self.units.items())
            for part in [CellReport.of(self.family, cells)]
        }

    @property
    def hard_blocks(self) -> dict[str, tuple[int, float]]:
        """Multipliers and block RAM of each unit that has any, by its name."""
        return {
            unit: (int(used["dsp"]), used["block_ram"])
            for unit, used in self.unit_resources.items()
            if used["dsp"] or used["block_ram"]
        }

    def usable(self, limit: float = HARD_LIMIT) -> dict[str, int]:
        """Usable resources of the reference device: `limit` of the hard blocks, all of the fabric.

        Look-up tables pack better in place and route than they are counted here.
        """
        device = DEVICES[self.family]
        return {
            "dsp": math.floor(limit * device.dsp),
            "block_ram": math.floor(limit * device.block_ram),
            "lut": device.lut,
            "ff": device.ff,
        }

    def fits(self, limit: float = HARD_LIMIT) -> bool:
        """Whether the reference device holds it, by what is `usable`."""
        return all(getattr(self, name) <= most for name, most in self.usable(limit).items())


def _sum(sizes: Mapping[str, int], cells: Mapping[str, int]) -> int:
    return sum(cells.get(name, 0) * size for name, size in sizes.items())
