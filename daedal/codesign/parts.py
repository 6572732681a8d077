"""What the area of each part of a machine depends on, as numbers for a regression.

Areas are products of powers of sizes, about, so that features are logarithms. Scratchpads are RAMs:
their number, depth and width say nearly all, and whether they become block RAM or look-up tables.
"""

import math
from collections.abc import Callable, Mapping, Sequence

from daedal.hw.synth.scratchpad_rams import block_count, ram_count, ram_form
from daedal.isa.variant import MultiplierStyle, Variant

__all__ = ["built_parts", "features_of", "kind_of", "known_amounts", "lanes_of"]

Features = list[float]

_SCRATCHPADS = {"wgt": "wgt", "inp": "inp", "par": "par", "out": "out", "accumulators": "acc"}
"""Parts that are RAMs and little else, with the names of their scratchpads."""

MOST_TABLE_ROWS = 32
MOST_TABLE_BITS = 512
"""A RAM with so few rows, or bits, is made of look-up tables."""


def _logs(*sizes: float) -> Features:
    return [math.log2(size) for size in sizes]


def _ram(variant: Variant, name: str) -> Features:
    return _logs(*ram_form(variant, name), ram_count(variant, name))


def _vector(variant: Variant) -> int:
    return variant.array.batch * variant.array.block_out


def _gemm(variant: Variant) -> Features:
    array = variant.array
    styles = [float(array.style is style) for style in MultiplierStyle]
    taps = [float(array.depthwise_taps == count) for count in (0, 1, 3)]
    sizes = _logs(array.batch, array.block_in, array.block_out)
    return [*sizes, *styles, *taps, *_logs(variant.memory.gemm_uop_bytes)]


def _alu(variant: Variant) -> Features:
    units = variant.units
    sizes = (_vector(variant), units.alu_lanes, units.requantize_lanes)
    return _logs(*sizes, variant.memory.alu_uop_bytes, variant.memory.acc_banks)


def _accumulators(variant: Variant) -> Features:
    units = variant.units
    lanes = _logs(_vector(variant), units.alu_lanes, units.requantize_lanes)
    return [*_ram(variant, "acc"), *lanes, *_logs(variant.memory.acc_banks, variant.bus.data_bits)]


def _lanes(variant: Variant) -> Features:
    units = variant.units
    return _logs(_vector(variant), units.alu_lanes, units.requantize_lanes, variant.bus.data_bits)


def _streams(variant: Variant) -> Features:
    array = variant.array
    return _logs(array.batch, array.block_in, array.block_out, variant.bus.data_bits)


def _small(variant: Variant) -> Features:
    units, bus = variant.units, variant.bus
    sizes = (units.queue_depth, units.token_bits, bus.data_bits, bus.read_bursts, bus.write_bursts)
    return [*_logs(*sizes, variant.memory.inp_bytes), float(units.counters)]


_FEATURES: Mapping[str, Callable[[Variant], Features]] = {
    "gemm": _gemm,
    "alu": _alu,
    "accumulators": _accumulators,
    "wgt": lambda variant: _ram(variant, "wgt"),
    "inp": lambda variant: [*_ram(variant, "inp"), float(variant.array.depthwise_taps > 1)],
    "par": lambda variant: _ram(variant, "par"),
    "out": lambda variant: [*_ram(variant, "out"), *_lanes(variant)],
    "load": _streams,
    "store": _streams,
}

_NAMES: Sequence[str] = (
    "control", "supervisor", "counters", "read_master", "write_master", "fetch", "tokens",
    "load_gate", "gemm_gate", "alu_gate", "store_gate", *_FEATURES,
)  # fmt: skip


def built_parts(variant: Variant) -> list[str]:
    """Names of the variant's parts, those of `hw.machine.machine_parts`."""
    return [*_NAMES, "mark_recorder"] if variant.units.counters else list(_NAMES)


def features_of(part: str, variant: Variant) -> Features:
    """What the area of `part` depends on."""
    return _FEATURES.get(part, _small)(variant)


def kind_of(part: str, variant: Variant) -> str:
    """Parts of different kinds have different areas, however near their sizes are."""
    if part in _SCRATCHPADS:
        return "tables" if _is_tables(variant, _SCRATCHPADS[part]) else "blocks"
    if part == "gemm":
        return variant.array.multiplier_style
    return ""


def known_amounts(part: str, variant: Variant) -> dict[str, float]:
    """What follows from the variant exactly: blocks of scratchpads, multipliers of the array."""
    name = _SCRATCHPADS.get(part)
    if name is not None:
        blocks = ram_count(variant, name) * block_count(*ram_form(variant, name))
        return {"block_ram": 0.0 if _is_tables(variant, name) else float(blocks), "dsp": 0.0}
    if part == "gemm":
        array = variant.array
        in_tables = array.style is MultiplierStyle.LUT
        return {
            "dsp": 0.0 if in_tables else variant.macs_per_cycle / array.outputs_per_activation,
            "block_ram": float(block_count(*ram_form(variant, "gemm_uop"))),
        }
    if part == "alu":
        return {"block_ram": float(block_count(*ram_form(variant, "alu_uop")))}
    return {}


def lanes_of(variant: Variant) -> Features:
    """What the multipliers of the ALU are proportional to."""
    return [1.0, float(variant.units.alu_lanes), float(variant.units.requantize_lanes)]


def _is_tables(variant: Variant, name: str) -> bool:
    depth, width = ram_form(variant, name)
    return depth <= MOST_TABLE_ROWS or depth * width <= MOST_TABLE_BITS
