"""A memory whose read ports lie when a word is read while it is written.

FPGA block RAM promises nothing in that case, and `hw.synth` tells synthesis that nobody depends on
it; simulation would give the old word and hide a mistake.
"""

from types import SimpleNamespace

import pytest
from amaranth.hdl import Elaboratable, Module, Signal, Value
from amaranth.lib.memory import Memory

__all__ = ["PoisonedMemory", "poison_block_ram"]


class PoisonedMemory(Elaboratable):
    """`amaranth.lib.memory.Memory`, as far as hw uses it; a colliding read gives the complement."""

    def __init__(self, *, shape, depth: int, init) -> None:
        self._memory = Memory(shape=shape, depth=depth, init=init)
        self._reads: list[tuple[SimpleNamespace, object]] = []
        self._writes: list = []

    def write_port(self):
        port = self._memory.write_port()
        self._writes.append(port)
        return port

    def read_port(self) -> SimpleNamespace:
        port = self._memory.read_port()
        proxy = SimpleNamespace(en=port.en, addr=port.addr, data=Signal(self._memory.shape))
        self._reads.append((proxy, port))
        return proxy

    def elaborate(self, platform) -> Module:
        m = Module()
        m.submodules.memory = self._memory
        for number, (proxy, port) in enumerate(self._reads):
            lies = Signal(name=f"lies{number}")
            hits = [write.en.any() & (write.addr == port.addr) for write in self._writes]
            with m.If(port.en):
                m.d.sync += lies.eq(sum(hits) != 0)
            data = Value.cast(port.data)
            m.d.comb += Value.cast(proxy.data).eq(data ^ lies.replicate(len(data)))
        return m


def poison_block_ram(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every block RAM of `hw` this behaviour until the test ends."""
    for name in ("primitives.block_ram.Ram", "parts.block_fifo.Memory"):
        monkeypatch.setattr(f"daedal.hw.{name}", PoisonedMemory)
