"""`instruction_set`: identifies the table of instructions as a part of every fingerprint.

Two machines with the same parameters that decode different instructions must differ in their
fingerprints, or the older one would accept programs that it cannot run.
"""

import enum
import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache

from daedal.isa.table import (
    BASES,
    LOOPS,
    MICRO_OPS,
    BitField,
    LoadMemory,
    Opcode,
    Unit,
    instruction_layout,
    micro_op_layout,
)
from daedal.isa.variant import ArrayConfig, MemoryConfig, UnitsConfig, Variant

__all__ = ["instruction_set"]

_MEANING = 1
"""Increase it when an instruction with the same fields and codes does something else."""

_FIRST = "1361590c335a806e"
"""The table whose machines have the fingerprint of their parameters alone: they were built before
fingerprints covered the table."""

_PROBES = (
    Variant("probe"),
    Variant("single", array=ArrayConfig(depthwise_taps=0)),
    Variant(
        "options",
        memory=MemoryConfig(tables=8),
        units=UnitsConfig(lane_reductions=True, wide_requantize=True, gemm_reads_out=True),
    ),
)
"""Machines whose layouts stand for the table. An option that is added later is off here, so what
only machines with it have leaves the fingerprints of all others as they are."""


@lru_cache(maxsize=1)
def instruction_set() -> str:
    """A digest of all codes, fields and positions; empty for the first table."""
    text = "\n".join(_lines())
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return "" if digest == _FIRST else digest


def _lines() -> Iterator[str]:
    """What a machine must agree on with the programs that it runs."""
    yield f"meaning {_MEANING}, loops {LOOPS}, bases {', '.join(BASES)}"
    for probe in _PROBES:
        yield f"{probe.name}: {_codes(LoadMemory.of(probe))}"
        for opcode in Opcode:
            yield from _fields(f"{opcode.name}", instruction_layout(probe, opcode))
        for unit in MICRO_OPS:
            yield from _fields(f"micro-op of {unit.name}", micro_op_layout(probe, unit))
    yield _codes(tuple(Unit))


def _fields(name: str, layout: Mapping[str, BitField]) -> Iterator[str]:
    for item in layout.values():
        choices = "" if item.choices is None else f" {_codes(item.choices)}"
        sign = " signed" if item.field.signed else ""
        yield f"{name}.{item.name} {item.offset} {item.width}{sign}{choices}"


def _codes(choices: tuple[enum.IntEnum, ...]) -> str:
    return ", ".join(f"{choice.name}={int(choice)}" for choice in choices)
