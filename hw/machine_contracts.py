"""Contracts of the whole machine: streams between units, and accesses that tokens must order."""

from typing import Any

from amaranth.hdl import Cat, Module, Value

from daedal.hw.contracts import before, contract, stays_until_ready
from daedal.hw.family import Platform
from daedal.hw.issue.tokens import QUEUED_UNITS

__all__ = ["check_machine"]

_UNITS = "fetch"
"""Domain of the registers: all units are reset in the same cycle."""


def check_machine(m: Module, platform: Platform, blocks: Any) -> None:
    """Assert the contracts between the blocks of `machine.Machine`."""
    fetch, load, store, marks = blocks.fetch, blocks.load, blocks.store, blocks.marks
    streams = {
        "FETCH's request": fetch.request,
        "LOAD's request": load.request,
        "STORE's request": store.request,
        "the words for FETCH": blocks.read_master.data[0],
        "the words for LOAD": blocks.read_master.data[1],
        "the words of STORE": store.data,
        "STORE's read of the accumulators": store.acc_read,
        "LOAD's fill": load.fill,
    }
    for unit in QUEUED_UNITS:
        streams[f"FETCH's instruction for {unit.name}"] = fetch.queue[unit]
        streams[f"the gate of {unit.name}"] = blocks.gates[unit].issue
    if marks is not None:
        streams |= {"the marks' request": marks.request, "the words of marks": marks.data}
    for what, stream in streams.items():
        stays_until_ready(m, platform, stream, what, domain=_UNITS)
    _check_collisions(m, platform, blocks)


def _check_collisions(m: Module, platform: Platform, blocks: Any) -> None:
    """No unit reads a row in the cycle of its write: the result is undefined in FPGA block RAM."""
    meets = {
        "INP": blocks.inp.collides(blocks.gemm.reads_three),
        "WGT": blocks.wgt.collides(),
        "PAR": blocks.alu.needs_par & blocks.par.collides(),
        "OUT": blocks.out.collides(),
        "ACC": _meet_in_accumulators(m, blocks.accumulators),
    }
    if blocks.tab is not None:
        meets["TAB"] = blocks.alu.needs_tab & blocks.tab.collides()
    for name, meet in meets.items():
        rule = f"a row of {name} must not be read while it is written: a token is missing"
        contract(m, platform, ~meet, rule)


def _meet_in_accumulators(m: Module, ports: Any) -> Value:
    """Whether one unit reads the row that another one writes.

    GEMM announces its accesses one cycle ahead; it forwards its own writes, so they do not count.
    """

    def now(port: Any) -> tuple[Value, Value]:
        enable, row = (before(m, value, domain=_UNITS) for value in (port.enable, port.row))
        return enable, row

    store, fill = ports.store_read, ports.fill
    reads = {
        "gemm": now(ports.gemm_read),
        "alu": (ports.alu_read.valid, ports.alu_read.payload),
        "alu2": (ports.alu_read2.valid, ports.alu_read2.payload),
        "store": (store.valid & store.ready, store.payload),
    }
    writes = {
        "gemm": now(ports.gemm_write),
        "alu": (ports.alu_write.valid, ports.alu_write.payload.row),
        "fill": (fill.valid & fill.ready & fill.p.into_acc, fill.p.row),
    }
    return Cat(
        read & write & (row == written)
        for reader, (read, row) in reads.items()
        for writer, (write, written) in writes.items()
        if (reader, writer) != ("gemm", "gemm")
    ).any()
