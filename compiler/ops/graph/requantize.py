"""REQUANTIZE on processors: float64 gives every bit of it, and often two float32 do.

``clip(rhe((acc + bias) * multiplier * 2**-shift) + zero_point, low, high)``: a float64 holds the
product of a sum and a multiplier of `PRODUCT_BITS` together, and a power of two changes none of
its bits. Where the largest sum is known and no product comes too close to a tie (`scaling`), it is
computed in float32.
"""

from collections.abc import Callable

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.ops.graph.operation import GraphOperation
from daedal.compiler.ops.graph.scaling import SplitRatios, split_ratios
from daedal.compiler.tir.dtype import is_float
from daedal.compiler.tir.expr import Expr, FloatImm, IntImm

__all__ = [
    "FACTOR_BITS",
    "MULTIPLIER_BITS",
    "PRODUCT_BITS",
    "Read",
    "Requantization",
    "by_channel",
    "by_number",
    "in_order",
]

PRODUCT_BITS = 53
MULTIPLIER_BITS = 30
FACTOR_BITS = 24
"""Magnitude bits of the factors of a sum: with 8-bit integers, sums stay below `PRODUCT_BITS`."""

LARGEST_SUM = (1 << 31) - 1
LARGEST_RATIO = 0.25
"""Up to which a sum of 33 bits becomes an int32."""

Read = Callable[[Array], Expr]
"""The value of a parameter for an element of the result, of all values of that parameter."""


class Requantization:
    """How an operator finishes its sums.

    Parameters
    ----------
    rows : [bias, multiplier, shift] each, (rows, 3).
    largest : magnitude of the sums of each row; None where float32 does not hold them.
    """

    def __init__(
        self, operation: GraphOperation, rows: Array, largest: Array | int | None = None
    ) -> None:
        self._biases = rows[:, 0].astype(np.float64)
        self._ratios = np.ldexp(rows[:, 1].astype(np.float64), -rows[:, 2])
        self._dtype = operation.kind.dtype
        self._zero = operation.whole("zero_point")
        self._low, self._high = operation.whole("low"), operation.whole("high")
        self._reach = LARGEST_SUM if largest is None else int(np.max(largest))
        self._split: SplitRatios | None = None
        is_wide = self._dtype == "int16"  # whose ties are too many to compare
        if largest is not None and operation.tensors.factors.group > 1 and not is_wide:
            limits = np.broadcast_to(np.asarray(largest), len(rows))
            low, high = self._low - self._zero, self._high - self._zero
            self._split = split_ratios(rows, limits, low, high)

    @property
    def changes_nothing(self) -> bool:
        """Whether each int8 stays as it is."""
        return self._added == 0 and (self._low, self._high) == (-128, 127)

    @property
    def _added(self) -> int | None:
        """What is added to all sums, int32; None where they are scaled, or differ in what is."""
        bias = int(self._biases.flat[0])
        if not np.all(self._ratios == 1) or not np.all(self._biases == bias):
            return None
        fits = not bias or self._reach + abs(bias) + abs(self._zero) <= LARGEST_SUM
        return bias + self._zero if fits else None

    def __call__(self, acc: Expr, read: Read) -> Expr:
        """The int8 or int16 of `acc`, an int32, or a whole float64 or float32."""
        if acc.dtype == "int32" and (added := self._added) is not None:
            whole = acc + added if added else acc
            return te.clip(whole, self._low, self._high).astype(self._dtype)
        low, high = self._low - self._zero, self._high - self._zero
        if self._split is not None and (acc.dtype == "int32" or self._split.has_real_biases):
            return (te.clip(self._split_product(acc, read), low, high) + self._zero).astype(
                self._dtype
            )
        total = acc if acc.dtype == "float64" else acc.astype("float64")
        if self._biases.any():
            total = total + read(self._biases)
        scaled = total * read(self._ratios)
        if self._ratios.max() > LARGEST_RATIO:
            scaled = te.clip(scaled, float(low), float(high))
        return (te.clip(te.nearest(scaled), low, high) + self._zero).astype(self._dtype)

    def _split_product(self, acc: Expr, read: Read) -> Expr:
        """The nearest integer to the product, of float32."""
        assert self._split is not None
        biases = self._split.biases
        if biases.any():
            acc = acc + read(biases if acc.dtype == "int32" else self._split.real_biases)
        value, first = acc.astype("float32"), read(self._split.first)
        if self._split.is_single:
            return te.nearest_scaled(value, first)
        return te.nearest_product(value, first, read(self._split.second))


def by_number(values: Array) -> Expr:
    """The one value of a parameter that has no others."""
    (value,) = values
    kind = values.dtype.name
    return FloatImm(float(value), kind) if is_float(kind) else IntImm(int(value), kind)


def by_channel(operation: GraphOperation, block: Expr, lane: Expr) -> Read:
    """The values of the channel `lane` of a block."""
    known: dict[int, te.Tensor] = {}

    def read(values: Array) -> Expr:
        if len(values) == 1:
            return by_number(values)
        if id(values) not in known:
            known[id(values)] = operation.per_channel(values, values.dtype.name)
        return known[id(values)][block, lane]

    return read


def in_order(operation: GraphOperation, channel: Expr) -> Read:
    """The values of a channel."""

    def read(values: Array) -> Expr:
        if len(values) == 1:
            return by_number(values)
        return operation.tensors.table(values)[channel]

    return read
