"""A token counter with registered flags: at least one, at least two, full.

Input: tokens given and taken. Output: the flags.
"""

from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform

__all__ = ["TokenCount"]


class TokenCount(wiring.Component):
    """Count tokens, up to `most`.

    Giving and taking in one cycle leaves the count unchanged; only giving without taking wraps a
    full count.

    Parameters
    ----------
    most
        The largest count; one less than a power of two, at least 3.
    init
        Tokens after reset.

    Members
    -------
    give, take : ``In(1)``
        A token is added and can be taken from the next cycle on; one is taken (only while `some`).
    some, many : ``Out(1)``
        The count is at least one, at least two.
    full : ``Out(1)``
        The count is `most`. All three are registered outputs.
    """

    def __init__(self, *, most: int, init: int = 0) -> None:
        if most < 3 or most & (most + 1):
            raise ValueError(f"most must be one less than a power of two, at least 3, not {most!r}")
        self._most = most
        self._init = init
        super().__init__(
            {
                "give": In(1),
                "take": In(1),
                "some": Out(1, init=int(init > 0)),
                "many": Out(1, init=int(init > 1)),
                "full": Out(1, init=int(init == most)),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        count = Signal(range(self._most + 1), init=self._init)
        with m.If(self.give & ~self.take):
            m.d.sync += [
                count.eq(count + 1),
                self.some.eq(~self.full),
                self.many.eq(self.some & ~self.full),
                self.full.eq(count == self._most - 1),
            ]
        with m.Elif(self.take & ~self.give):
            m.d.sync += [
                count.eq(count - 1),
                self.some.eq(self.many),
                self.many.eq(count > 2),
                self.full.eq(0),
            ]
        for holds, rule in (
            (~self.take | self.some, "a token that is not there must not be taken"),
            (self.some == (count != 0), "the flag some must say what the count does"),
            (self.many == (count > 1), "the flag many must say what the count does"),
            (self.full == (count == self._most), "the flag full must say what the count does"),
        ):
            contract(m, platform, holds, rule)
        return m
