"""`switched_energy`: the energy of one image from switched capacitance, for comparisons only.

Each part of the machine switches the capacitance of its resources (`AreaModel.by_part`) in the
cycles in which it works (`Work`); the clock tree switches in every cycle; every byte on the bus is
an access to external memory. Energies of resources are published ones of FPGAs and memories at
40 to 45 nm, and of ECP5 only in so far as it is made at 40 nm. Nothing here was measured on a
board, and neither voltage nor leakage of the device is known: the unit is what one 18 x 18
multiplier takes in a cycle of work, and only ratios of two results mean something.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from daedal.codesign.cycles.work import Work
from daedal.isa.variant import Variant

__all__ = ["CLOCK", "EXTERNAL_BYTE", "WORKING", "Energy", "switched_energy"]

TOGGLE_RATE = 0.125
"""Part of the cycles of work in which a signal changes. Source: Intel Quartus Prime, option
"Default toggle rate used for remaining signals" of the power analyzer, 12.5 %."""

_MULTIPLIER_PINS = 36
_PIN_TOGGLE_PJ = 1.09
"""An input of an 18 x 18 multiplier changes. Source: VTR, vtr_flow/arch/timing/
k6_frac_N10_mem32K_40nm.xml, `mult_18x18_slice`, energy_per_toggle, for each pin of A and B."""
UNIT_PJ = _MULTIPLIER_PINS * TOGGLE_RATE * _PIN_TOGGLE_PJ
"""What results are multiples of: an 18 x 18 multiplier works for a cycle."""

_RAM_CLOCK_TOGGLE_PJ = 9.0
"""The clock of a RAM of 32 Kbit changes. Source: as above, `mem_512x64_sp`."""
_RAM_SHARE = 18 / 32
"""A block of ECP5 has 18 Kbit. Assumed: the energy of an access is proportional to the size."""

_CELL_PJ = 0.029
"""A look-up table or a flip-flop with its wires, in a cycle of work. Source: VTR, vtr_flow/tasks/
regression_tests/vtr_reg_nightly_test1/power_extended_circuit_list/config/golden_results.txt:
(total power without its clock share) x critical path / (blocks before packing without pins) of the
circuits without hard blocks, bgm 0.030, blob_merge 0.022 and sha 0.036 pJ; the mean. The tables of
that architecture have six inputs, and its totals contain leakage."""
_CLOCK_PJ = 0.0025
"""The clock of a flip-flop, every cycle. Source: the clock share of the same totals, 0.0012 pJ a
block. Assumed: every second block is a flip-flop."""

_EXTERNAL_BYTE_PJ = 640 / 4
"""A byte of external memory. Source: M. Horowitz, "Computing's energy problem", ISSCC 2014 (1.3 to
2.6 nJ for 64 bits of DRAM at 45 nm), as quoted in S. Han et al., "EIE", ISCA 2016: 640 pJ for 32
bits. Assumed: reads, writes and instructions cost the same, and bursts save nothing."""

WORKING: Mapping[str, float] = {
    "lut": _CELL_PJ / UNIT_PJ,
    "ff": _CELL_PJ / UNIT_PJ,
    "dsp": 1.0,
    "block_ram": 2 * _RAM_CLOCK_TOGGLE_PJ * _RAM_SHARE / UNIT_PJ,
}
"""One of a resource in a cycle in which its part works."""
CLOCK = _CLOCK_PJ / UNIT_PJ
"""One flip-flop in any cycle."""
EXTERNAL_BYTE = _EXTERNAL_BYTE_PJ / UNIT_PJ
"""One byte on the bus."""

_BUSY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("gemm", "gemm_gate", "inp", "wgt"), ("products",)),
    **dict.fromkeys(("alu", "alu_gate", "par"), ("vectors",)),
    **dict.fromkeys(("load", "load_gate", "read_master"), ("read",)),
    **dict.fromkeys(("store", "store_gate", "write_master"), ("written",)),
    "accumulators": ("products", "vectors"),
    "out": ("vectors", "written"),
}
"""Fields of `Work` in whose cycles a part works. Others, of instructions and registers, work rarely
and have their clock only. Words that LOAD writes into a scratchpad are left out: each goes to one
column of a row, and rows are read more often."""

_ALWAYS_READ = frozenset({"accumulators"})
"""Their RAMs read in every cycle: `hw.memory.accumulator_bank` never disables them."""


@dataclass(frozen=True)
class Energy:
    """Of one image, in millions of cycles of a working multiplier, by what takes it."""

    logic: float
    multipliers: float
    block_ram: float
    clock: float
    external: float

    @property
    def total(self) -> float:
        """The sum."""
        return self.logic + self.multipliers + self.block_ram + self.clock + self.external

    def of_each(self, items: int) -> "Energy":
        """That of one image, of a run that takes so many."""
        return Energy(**{name: value / items for name, value in asdict(self).items()})


def switched_energy(
    work: Work, cycles: float, parts: Mapping[str, Mapping[str, float]], variant: Variant
) -> Energy:
    """The energy of one image.

    Parameters
    ----------
    cycles : of the image.
    parts : resources by part of the machine, as of `AreaModel.by_part`.
    """
    found = dict.fromkeys(WORKING, 0.0)
    flip_flops = 0.0
    for part, used in parts.items():
        busy = min(sum(getattr(work, name) for name in _BUSY.get(part, ())), cycles)
        for name, weight in WORKING.items():
            reads = name == "block_ram" and part in _ALWAYS_READ
            found[name] += used[name] * weight * (cycles if reads else busy)
        flip_flops += used["ff"]
    return Energy(
        logic=(found["lut"] + found["ff"]) / 1e6,
        multipliers=found["dsp"] / 1e6,
        block_ram=found["block_ram"] / 1e6,
        clock=flip_flops * CLOCK * cycles / 1e6,
        external=(work.read + work.written) * variant.bus_bytes * EXTERNAL_BYTE / 1e6,
    )
