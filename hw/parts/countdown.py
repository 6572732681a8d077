"""A counter with a registered flag for its last item.

A comparison between a counter and the logic that it controls lengthens the path with the counter's
width. Here the flag is computed when the counter steps, so it is a flip-flop.
"""

from amaranth.hdl import Module, Signal, Value

__all__ = ["Countdown"]


class Countdown:
    """Counts the remaining items, the current one included.

    `load` and `step` add statements to `m`, under the caller's conditions.

    Parameters
    ----------
    bits
        Width of the count.
    name
        Prefix of its signals.

    Attributes
    ----------
    last
        Register: the current item is the last one.
    last_but_one
        Combinational: the next item is the last one.
    """

    def __init__(self, bits: int, *, name: str) -> None:
        self._left = Signal(bits, name=f"{name}_left", reset_less=True)
        self.last = Signal(name=f"{name}_last", reset_less=True)
        self.last_but_one = self._left == 2

    def load(self, m: Module, total: Value, *, one: Value | None = None) -> None:
        """Start with `total` items, at least 1; `one`: whether it is 1, if already computed."""
        m.d.sync += [self._left.eq(total), self.last.eq(total == 1 if one is None else one)]

    def step(self, m: Module) -> None:
        """Go to the next item."""
        m.d.sync += [self._left.eq(self._left - 1), self.last.eq(self.last_but_one)]
