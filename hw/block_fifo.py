"""A deep FIFO in block RAM whose output register is in use: one item per cycle in, one out."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.fifo import SyncFIFO
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

__all__ = ["BlockFifo"]

_SKID = 4
"""Items that may be between the read port and the reader: two in the RAM's pipeline, one landing,
one leaving."""


class BlockFifo(wiring.Component):
    """FIFO of `depth` items, each readable 4 cycles after it was written.

    The RAM's read port is followed by a register, as timing on FPGAs demands, and a small queue
    catches what is in that pipeline when the reader stops. That queue is part of `depth`: the
    FIFO refuses items (and a writer that counts must count) beyond `depth`.

    Parameters
    ----------
    shape
        Shape of an item.
    depth
        Capacity; a power of two, at least 8.

    Members
    -------
    i : ``In(stream.Signature(shape))``
    o : ``Out(stream.Signature(shape))``
    """

    def __init__(self, *, shape: Any, depth: int):
        if depth < 8 or depth & (depth - 1):
            raise ValueError(f"depth must be a power of two of at least 8, not {depth!r}")
        self._shape = shape
        self._depth = depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=self._shape, depth=self._depth, init=[])
        write, read = memory.write_port(), memory.read_port()
        width = len(self.i.as_value().payload) if False else len(write.data.as_value()) if hasattr(write.data, "as_value") else len(write.data)
        m.submodules.skid = skid = SyncFIFO(width=width, depth=_SKID)
        return m
