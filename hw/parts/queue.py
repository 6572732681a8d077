"""An instruction queue: a first-in first-out memory with a registered output.

Input: a stream from FETCH. Output: the same stream, to a unit's gate.
"""

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.family import Platform
from daedal.hw.parts.small_fifo import SmallFifo

__all__ = ["Queue"]


class Queue(wiring.Component):
    """Keep up to `depth` words, plus the one at the output, in order.

    The memory is read asynchronously (a few words deep, it maps to distributed RAM) and its output
    is registered, so the memory's delay is not on the path to the consumer; `i.ready` is a
    register, too. Latency from `i` to `o`: two cycles; throughput: one word per cycle.

    Parameters
    ----------
    shape : shape of the payload.
    depth : words that the memory holds, at least 1.
    trusts : the writer keeps count, so there is always room: no back-pressure.

    Members
    -------
    i, o : the streams.
    empty : no word is in the queue.
    """

    def __init__(self, shape, *, depth: int, trusts: bool = False) -> None:
        if depth < 1:
            raise ValueError(f"a queue's depth must be at least 1, not {depth}")
        self._depth = depth
        self._trusts = trusts
        super().__init__(
            {
                "i": In(stream.Signature(shape)),
                "o": Out(stream.Signature(shape)),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        width = len(Value.cast(self.i.p))
        m.submodules.memory = memory = SmallFifo(
            width=width, depth=self._depth, trusts=self._trusts
        )
        word = Signal(width, reset_less=True)
        take = Signal()
        m.d.comb += [
            memory.w_data.eq(self.i.p),
            memory.w_en.eq(self.i.valid),
            self.i.ready.eq(memory.w_rdy),
            take.eq(~self.o.valid | self.o.ready),
            memory.r_en.eq(take),
            self.o.p.eq(word),
            self.empty.eq(~self.o.valid & ~memory.r_rdy),
        ]
        with m.If(take):
            m.d.sync += [self.o.valid.eq(memory.r_rdy), word.eq(memory.r_data)]
        return m
