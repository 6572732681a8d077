"""A FIFO of a few words in distributed RAM, with registered flags.

Input: words with an enable. Output: the oldest word, read asynchronously.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Family, Platform
from daedal.hw.parts.tally import Tally
from daedal.hw.primitives.replicated import Replicated

__all__ = ["SmallFifo"]


_SLICE_BITS = 64
"""Bits of a word that share an address register: 16 adjacent look-up tables of an ECP5."""


class SmallFifo(wiring.Component):
    """First in, first out; a word can be read in the cycle after it was written.

    Parameters
    ----------
    width
        Bits of a word.
    depth
        Words, at least 1.
    trusts
        The writer keeps count, so there is always room: no back-pressure.

    Members
    -------
    w_data, w_en, w_rdy
        A word is written where `w_en` and `w_rdy` are 1.
    r_data, r_en, r_rdy
        `r_data` is the oldest word while `r_rdy` is 1; `r_en` removes it. Both `rdy` are registered
        outputs.

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

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        m.submodules.tally = tally = Tally(most=self._depth)
        m.d.comb += [
            self.w_rdy.eq(~tally.full),
            self.r_rdy.eq(~tally.none),
            tally.up.eq(self.w_en if self._trusts else self.w_en & self.w_rdy),
            tally.down.eq(self.r_en & self.r_rdy),
        ]
        if self._trusts:
            contract(m, platform, ~self.w_en | self.w_rdy, "a full FIFO must not be written")
        width = len(self.w_data)
        # Elsewhere all slices share one address register, so they would have no effect.
        step = _SLICE_BITS if platform is Family.ECP5 else max(1, width)
        starts = range(0, max(1, width), step)
        write_row = self._row(m, platform, tally.up, "write_row")
        read_row = self._row(m, platform, tally.down, "read_row")
        words = []
        for number, start in enumerate(starts):
            bits = self.w_data[start : start + step]
            memory = Memory(shape=len(bits), depth=self._depth, init=[])
            m.submodules["memory" if len(starts) == 1 else f"memory{number}"] = memory
            write, read = memory.write_port(), memory.read_port(domain="comb")
            m.d.comb += [
                write.addr.eq(write_row.copy_for(number)),
                write.data.eq(bits),
                write.en.eq(tally.up),
                read.addr.eq(read_row.copy_for(number)),
            ]
            words.append(read.data)
        m.d.comb += self.r_data.eq(Cat(words))
        return m

    def _row(self, m: Module, platform: Platform, moves: Any, name: str) -> Replicated:
        """A port's current row, for each slice of the words."""
        following = Signal(range(self._depth), name=f"next_{name}")
        row = Replicated(m, platform, following, name=name, reset_less=False)
        now = row.copy_for(0)
        after = Mux(now == self._depth - 1, 0, now + 1)
        m.d.comb += following.eq(Mux(moves, after, now))
        return row
