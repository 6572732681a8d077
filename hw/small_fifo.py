"""A FIFO of a few words in distributed RAM, whose flags are registers.

Input: words with an enable. Output: the oldest word, read asynchronously.
"""

from amaranth.hdl import Module, Mux
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from daedal.hw.tally import Tally

__all__ = ["SmallFifo"]


class SmallFifo(wiring.Component):
    """First in, first out; a word can be read in the cycle after it was written.

    Parameters
    ----------
    width
        Bits of a word.
    depth
        Words, at least 1.
    trusts
        Whoever writes counts for itself, so that there always is room.

    Members
    -------
    w_data, w_en, w_rdy
        A word is written where `w_en` and `w_rdy` are 1.
    r_data, r_en, r_rdy
        `r_data` is the oldest word while `r_rdy` is 1; `r_en` removes it. Both `rdy` come straight
        from registers.

    Raises
    ------
    ValueError
        `depth` is less than 1.
    """

    def __init__(self, *, width: int, depth: int, trusts: bool = False) -> None:
        if depth < 1:
            raise ValueError(f"depth must be at least 1, not {depth!r}")
        self._depth = depth
        self._trusts = trusts
        super().__init__(
            {
                "w_data": In(width),
                "w_en": In(1),
                "w_rdy": Out(1),
                "r_data": Out(width),
                "r_en": In(1),
                "r_rdy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = memory = Memory(shape=len(self.w_data), depth=self._depth, init=[])
        write, read = memory.write_port(), memory.read_port(domain="comb")
        m.submodules.tally = tally = Tally(most=self._depth)
        m.d.comb += [
            self.w_rdy.eq(~tally.full),
            self.r_rdy.eq(~tally.none),
            write.data.eq(self.w_data),
            write.en.eq(self.w_en if self._trusts else self.w_en & self.w_rdy),
            self.r_data.eq(read.data),
            tally.up.eq(write.en),
            tally.down.eq(self.r_en & self.r_rdy),
        ]
        for port, moves in ((write, tally.up), (read, tally.down)):
            with m.If(moves):
                m.d.sync += port.addr.eq(Mux(port.addr == self._depth - 1, 0, port.addr + 1))
        return m
