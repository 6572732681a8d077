"""A counter that knows a cycle ahead when it is at its last item.

A comparison on the way from a counter to what it steers costs as many levels of logic as the
counter is wide; here it is made while the counter moves, and only a flip-flop is left.
"""

from amaranth.hdl import Module, Signal, Value

__all__ = ["Countdown"]


class Countdown:
    """Items still to come, the one at hand included.

    `load` and `step` add statements to `m` and stand under the conditions of their caller.

    Parameters
    ----------
    bits
        Width of the count.
    name
        Of its signals.

    Attributes
    ----------
    last
        Register: the item at hand is the last one.
    last_but_one
        Comparison: the one after it is.
    """

    def __init__(self, bits: int, *, name: str) -> None:
        self._left = Signal(bits, name=f"{name}_left", reset_less=True)
        self.last = Signal(name=f"{name}_last", reset_less=True)
        self.last_but_one = self._left == 2

    def load(self, m: Module, total: Value, *, one: Value | None = None) -> None:
        """Begin with `total` items, at least 1; `one`: whether that is 1, where it is known."""
        m.d.sync += [self._left.eq(total), self.last.eq(total == 1 if one is None else one)]

    def step(self, m: Module) -> None:
        """Go to the next item."""
        m.d.sync += [self._left.eq(self._left - 1), self.last.eq(self.last_but_one)]
