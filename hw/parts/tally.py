"""An up/down counter with registered flags `none` and `full`.

Input: pulses that count up and down. Output: whether the count is 0, or at its maximum.
"""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform

__all__ = ["Tally"]


class Tally(wiring.Component):
    """Count from 0 to `most`.

    The flags are updated together with the count, so no comparison lies on the paths from them.

    Parameters
    ----------
    most
        The largest count, at least 1.

    Members
    -------
    up : ``In(1)``
        One more; with `down`, or while not `full`.
    down : ``In(1)``
        One fewer; with `up`, or while not `none`.
    none, full : ``Out(1)``
        The count is 0; it is `most`. Straight from registers.
    gets_full : ``Out(1)``
        It is `most` in the next cycle.

    Raises
    ------
    ValueError
        `most` is less than 1.
    """

    def __init__(self, *, most: int) -> None:
        if most < 1:
            raise ValueError(f"most must be at least 1, not {most!r}")
        self._most = most
        super().__init__(
            {
                "up": In(1),
                "down": In(1),
                "none": Out(1, init=1),
                "full": Out(1),
                "gets_full": Out(1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        count = Signal(range(self._most + 1))
        fills = self.up & (count == self._most - 1)
        # `down` usually has a long path, so it is only an enable of the registers.
        with m.If(self.up != self.down):
            m.d.sync += [
                count.eq(Mux(self.up, count + 1, count - 1)),
                self.none.eq(~self.up & (count == 1)),
                self.full.eq(fills),
            ]
        m.d.comb += self.gets_full.eq(Mux(self.up != self.down, fills, self.full))
        for holds, rule in (
            (~self.up | self.down | ~self.full, "a full tally must not count up"),
            (~self.down | self.up | ~self.none, "a tally of none must not count down"),
            (count <= self._most, "a tally must not be beyond its most"),
            (self.none == (count == 0), "the flag none must say what the count does"),
            (self.full == (count == self._most), "the flag full must say what the count does"),
        ):
            contract(m, platform, holds, rule)
        return m
