"""The interface of one ALU lane, against which operations are written.

`isa.alu_operations` gives each operation as a function of a `Lane`. Evaluated on a `NumpyLane` it
is the operation's definition for the simulators; `hw.alu.alu_lanes` evaluates the same function on
gateware. `Recorder` records which parts of a lane an operation uses.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np

from daedal.isa.numerics import (
    IntArray,
    shift_left,
    shift_right_even,
    shift_right_floor,
    wrap,
)

__all__ = ["AMOUNT_BITS", "FACTOR_BITS", "Lane", "NumpyLane", "Recorder", "reduce_lanes"]

FACTOR_BITS = 18
"""Low bits of x and y that are multiplied: the operand width of every supported FPGA's multiplier.
"""

AMOUNT_BITS = 7
"""Low bits of y that form a signed shift amount."""

T = TypeVar("T")


class Lane(Protocol[T]):
    """Operands and arithmetic of a lane.

    A lane has one adder (behind `total`, `difference` and `less`), one multiplier and one shifter:
    an operation may use each of them once, and `choose` any number of times. Every result has the
    accumulator's width and wraps.
    """

    @property
    def x(self) -> T:
        """First operand."""

    @property
    def y(self) -> T:
        """Second operand, or the immediate."""

    def total(self) -> T:
        """``x + y``."""

    def difference(self) -> T:
        """``x - y``."""

    def less(self) -> T:
        """Flag: ``x < y``. The adder subtracts, as for `difference`: both may be used together."""

    def product(self) -> T:
        """The low `FACTOR_BITS` bits of x and y, signed, multiplied."""

    def left(self) -> T:
        """``x << y``; a negative amount shifts right and rounds down."""

    def right(self) -> T:
        """``x >> y``, rounded down; a negative amount shifts left."""

    def right_even(self) -> T:
        """``x >> y``, rounded half to even; a negative amount shifts left."""

    def choose(self, flag: T, yes: T, no: T) -> T:
        """`yes` where the flag is set, else `no`."""


class NumpyLane:
    """`Lane` over int64 arrays of values of `bits` bits."""

    def __init__(self, x: IntArray, y: IntArray, bits: int) -> None:
        self.x, self.y, self._bits = x, y, bits

    def total(self) -> IntArray:
        """``x + y``."""
        return wrap(self.x + self.y, self._bits)

    def difference(self) -> IntArray:
        """``x - y``."""
        return wrap(self.x - self.y, self._bits)

    def less(self) -> IntArray:
        """1 where ``x < y``."""
        return np.asarray(self.x < self.y, dtype=np.int64)

    def product(self) -> IntArray:
        """The low bits of x and y multiplied."""
        return wrap(wrap(self.x, FACTOR_BITS) * wrap(self.y, FACTOR_BITS), self._bits)

    def left(self) -> IntArray:
        """``x << y``."""
        amount = wrap(self.y, AMOUNT_BITS)
        back = shift_right_floor(self.x, np.clip(-amount, 0, 63))
        ahead = shift_left(self.x, np.maximum(amount, 0), self._bits)
        return wrap(np.where(amount >= 0, ahead, back), self._bits)

    def right(self) -> IntArray:
        """``x >> y``, rounded down."""
        amount = wrap(self.y, AMOUNT_BITS)
        return self._right(shift_right_floor(self.x, np.maximum(amount, 0)), amount)

    def right_even(self) -> IntArray:
        """``x >> y``, rounded half to even."""
        amount = wrap(self.y, AMOUNT_BITS)
        return self._right(shift_right_even(self.x, np.maximum(amount, 0)), amount)

    def _right(self, ahead: IntArray, amount: IntArray) -> IntArray:
        back = shift_left(self.x, np.maximum(-amount, 0), self._bits)
        return wrap(np.where(amount >= 0, ahead, back), self._bits)

    def choose(self, flag: IntArray, yes: IntArray, no: IntArray) -> IntArray:
        """`yes` where the flag is set."""
        return np.where(flag != 0, yes, no)


def reduce_lanes(formula: Callable[[Lane[Any]], Any], values: IntArray, bits: int) -> IntArray:
    """Combine all lanes by `formula`, and give every lane the result.

    `values` has shape (..., lanes) and values of `bits` bits; lanes are a power of two. The two
    halves are x and y; then the halves of their results are, until one lane is left.
    """
    result = values
    while (lanes := result.shape[-1]) > 1:
        x, y = result[..., : lanes // 2], result[..., lanes // 2 :]
        result = formula(NumpyLane(x, y, bits))
    return np.broadcast_to(result, values.shape)


class Recorder:
    """`Lane` that computes nothing and records in `used` which parts are used."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if name not in Lane.__dict__:
            raise AttributeError(f"a lane of the ALU has no part {name!r}")
        if name in ("x", "y"):
            self.used.add(name)
            return None
        return lambda *operands: self.used.add(name)
