"""A deep FIFO in block RAM with its output register: one item per cycle in, one out."""

from typing import Any

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract, require_at_elaboration
from daedal.hw.family import Platform
from daedal.hw.parts.small_fifo import SmallFifo
from daedal.hw.parts.tally import Tally
from daedal.isa.latencies import RAM_READ_CYCLES

__all__ = ["BlockFifo"]

_ROUND_TRIP_CYCLES = RAM_READ_CYCLES + 2
"""Cycles from a read until its credit is back: RAM, its output register, skid queue, credit."""

_SKID = _ROUND_TRIP_CYCLES
"""Credits: items in flight from the RAM or in the skid queue."""


class BlockFifo(wiring.Component):
    """FIFO of at least `depth` items, each readable 4 cycles after it was written.

    The RAM's read port is followed by a register, which timing on FPGAs requires; a small skid
    queue takes the items in that pipeline when the reader stalls.

    Parameters
    ----------
    shape
        Shape of an item.
    depth
        Items that the RAM holds; a power of two.

    Members
    -------
    i : ``In(stream.Signature(shape))``
    o : ``Out(stream.Signature(shape))``
    """

    def __init__(self, *, shape: Any, depth: int) -> None:
        if depth < 2 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two of at least 2, not {depth!r}")
        self._shape = shape
        self._depth = depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        require_at_elaboration(
            _SKID >= _ROUND_TRIP_CYCLES,
            "a FIFO must give one item per cycle: _SKID must cover _ROUND_TRIP_CYCLES of a read",
        )
        m.submodules.memory = memory = Memory(shape=self._shape, depth=self._depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        width = len(Value.cast(self.o.payload))
        m.submodules.skid = skid = SmallFifo(width=width, depth=_SKID)

        m.submodules.level = level = Tally(most=self._depth)  # items in the RAM
        m.submodules.spoken = spoken = Tally(most=_SKID)  # reserved places of the skid queue
        fetch = Signal()
        m.d.comb += [
            self.i.ready.eq(~level.full),
            write.en.eq(self.i.valid & self.i.ready),
            write.data.eq(self.i.payload),
            fetch.eq(~level.none & ~spoken.full),
            read.en.eq(fetch),
            self.o.valid.eq(skid.r_rdy),
            Value.cast(self.o.payload).eq(skid.r_data),
            skid.r_en.eq(self.o.ready),
            level.up.eq(write.en),
            level.down.eq(fetch),
            spoken.up.eq(fetch),
            spoken.down.eq(self.o.valid & self.o.ready),
        ]
        m.d.sync += [
            write.addr.eq(write.addr + write.en),
            read.addr.eq(read.addr + fetch),
        ]

        reading, landing = Signal(), Signal()
        landed = Signal(width, reset_less=True)
        m.d.sync += [
            reading.eq(fetch),
            landing.eq(reading),
            landed.eq(read.data),
        ]
        m.d.comb += [skid.w_en.eq(landing), skid.w_data.eq(landed)]
        collides = write.en & read.en & (write.addr == read.addr)
        contract(m, platform, ~landing | skid.w_rdy, "what was read must have a place to land")
        contract(m, platform, ~collides, "no item must be read while it is written")
        return m
