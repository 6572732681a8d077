"""One-hot mux: no decoder, and fewer levels of logic than a mux by a binary number.

Input: values and their bits. Output: the value whose bit is set.
"""

from collections.abc import Sequence
from functools import reduce
from operator import or_

from amaranth.hdl import Mux, Value, ValueLike

__all__ = ["select_one"]


def select_one(which: Value, values: Sequence[ValueLike]) -> Value:
    """The value whose bit of `which` is set; 0 if none is, the OR of the values if several are.

    Raises
    ------
    ValueError
        `which` does not have one bit per value.
    """
    if len(which) != len(values):
        raise ValueError(
            f"which must have one bit for each of {len(values)} values, not {len(which)}"
        )
    return reduce(or_, (Mux(bit, value, 0) for bit, value in zip(which, values, strict=True)))
