"""Assertions of the contract between units and accumulators (`interfaces.accumulator_ports`)."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

from amaranth.hdl import Cat, Module, Value

from daedal.hw.contracts import before, contract
from daedal.hw.family import Platform
from daedal.hw.memory.fill_row import acc_grain
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant

__all__ = ["check_accumulator_ports"]

_Access = tuple[Value, Value]
"""Whether there is a read or write in this cycle, and of which row."""


def check_accumulator_ports(
    m: Module,
    platform: Platform,
    variant: Variant,
    ports: Any,
    *,
    bank_of: Callable[[Value], Value],
    gemm_read: _Access,
    gemm_write: _Access,
) -> None:
    """Assert the contract; GEMM's accesses are given in their own cycle, not as announced."""
    store, fill, write = ports.store_read, ports.fill, ports.alu_write
    narrow = fill.p.memory == LoadMemory.ACC_NARROW
    own = (fill.p.memory == LoadMemory.ACC) | narrow
    named = ~fill.valid | (fill.p.into_acc == own)
    contract(m, platform, named, "a fill must say whether it is for the accumulators")
    _check_alu(m, platform, ports, bank_of)
    reads = {
        "gemm": gemm_read,
        "alu": (ports.alu_read.valid, ports.alu_read.payload),
        "alu2": (ports.alu_read2.valid, ports.alu_read2.payload),
        "store": (store.valid & store.ready, store.payload),
    }
    writes = {
        "gemm": gemm_write,
        "alu": (write.valid, write.payload.row),
        "fill": (fill.valid & fill.ready & own, fill.p.row[: len(gemm_write[1])]),
    }
    for accesses, rule in (
        (reads, "a bank of the accumulators must be read for one unit in a cycle"),
        (writes, "a bank of the accumulators must be written by one unit in a cycle"),
    ):
        pairs = combinations(accesses.values(), 2)
        clashes = [x & y & (bank_of(a) == bank_of(b)) for (x, a), (y, b) in pairs]
        contract(m, platform, ~Cat(clashes).any(), rule)
    grain, mask = acc_grain(variant), write.payload.mask
    parts = [mask[k : k + grain] for k in range(0, len(mask), grain)]
    whole = Cat((part == 0) | part.all() for part in parts).all()
    contract(m, platform, ~write.valid | whole, "elements must be written by grains")


def _check_alu(
    m: Module, platform: Platform, ports: Any, bank_of: Callable[[Value], Value]
) -> None:
    """The ALU uses no bank that was closed in the previous cycle, and waits for no other."""
    read_closed, write_closed = before(m, ports.read_closed), before(m, ports.write_closed)
    read, read2, write = ports.alu_read, ports.alu_read2, ports.alu_write
    accesses = (
        (read.valid, read.payload, read_closed),
        (read2.valid, read2.payload, read_closed),
        (write.valid, write.payload.row, write_closed),
    )
    for (valid, row, closed), waits in zip(accesses, ports.alu_waits, strict=True):
        is_closed = closed.bit_select(bank_of(row), 1)
        contract(m, platform, ~(valid & is_closed), "the ALU must not use a closed bank")
        contract(m, platform, ~waits | is_closed, "the ALU must wait for a closed bank only")
        contract(m, platform, ~(waits & valid), "the ALU must not do what it waits for")
    wanted = ~Cat(read.valid, read2.valid) | ports.alu_wants
    contract(m, platform, wanted.all(), "the ALU must read only what it wants")
