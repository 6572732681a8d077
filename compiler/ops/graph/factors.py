"""`Factors`: how processors and GPUs multiply 8-bit integers and add the products."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from daedal.artifact.constants import Change, Conversion, Packing
from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.tir.expr import Axis, Expr
from daedal.compiler.tir.tile_products import MOST_DEPTH

__all__ = ["PAIRS", "PAIRS_OR_REALS", "QUADS", "REALS", "SINGLES", "TILES", "Factors"]


@dataclass(frozen=True)
class Factors:
    """Products are added in groups, whose factors lie side by side.

    Attributes
    ----------
    group : products of a group.
    dtype : of the elements of maps; weights are int8 in memory.
    offset : what is added to elements so that `dtype` holds them.
    real_bytes : of weights as float32, up to which a layer is multiplied as `REALS` instead.
    step : groups that a product of matrices adds at once, at most; 0: there are no such products.
    """

    group: int
    dtype: str
    offset: int
    real_bytes: int = 0
    step: int = 0

    def groups(self, terms: int) -> int:
        """Groups of a sum of so many products: equal steps, the last of which is filled up."""
        count = -(-terms // self.group)
        if not self.step:
            return count
        steps = max(1, -(-count // self.step))
        return -(-count // steps) * steps

    def element(self, value: Expr) -> Expr:
        """An int8 as it is multiplied."""
        if not self.offset:
            return value.astype(self.dtype)
        # Another sign bit: 128 more.
        return te.bit_xor(value.astype(self.dtype), self.offset)

    def total(
        self,
        element: Callable[[int], Expr],
        weight: Callable[[int], Expr],
        axes: Sequence[Axis],
    ) -> Expr:
        """The sum over `axes` of all products of groups."""
        numbers = range(self.group)
        elements, weights = [element(n) for n in numbers], [weight(n) for n in numbers]
        if self.dtype == "float32":
            return te.sum(elements[0] * weights[0], axes)
        if self.group == 1:
            return te.sum(elements[0].astype("int32") * weights[0].astype("int32"), axes)
        if self.offset:
            return te.sum(te.dot_quads(elements, weights), axes)
        first, second = (item.astype("int16") for item in weights)
        return te.sum(te.dot_pairs((elements[0], elements[1]), (first, second)), axes)

    def changes(self, packing: Packing) -> tuple[Change, ...]:
        """What makes factors of weights, which are packed."""
        return (packing, Conversion("float32")) if self.dtype == "float32" else (packing,)

    def biased(self, rows: Array, weights: Array) -> Array:
        """Parameters [bias, multiplier, shift] of sums of `weights` (O, ...) times what lies
        `offset` above elements."""
        if not self.offset:
            return rows
        sums = weights.reshape(len(weights), -1).sum(axis=1, dtype=np.int64)
        shifted = np.broadcast_to(rows, (len(weights), 3)).copy()
        shifted[:, 0] -= self.offset * sums
        return shifted


PAIRS = Factors(2, "int16", 0)
"""Every processor adds two products of int16 in one instruction, or has few for it."""

REALS = Factors(1, "float32", 0)
"""Whole numbers as float32, of which sums are exact below 2^24."""

PAIRS_OR_REALS = replace(PAIRS, real_bytes=1 << 19)
"""With AVX-512 alone, products of pairs and their sums are two instructions, which compute as much
as two of floats do, and weights are converted in between. Floats take more bytes: weights should
stay in the cache of one core."""

SINGLES = Factors(1, "int8", 0)
"""Tensor cores of GPUs multiply int8 as it is, and add up the products by themselves."""

QUADS = Factors(4, "uint8", 128)
"""VNNI's instruction adds four products of an uint8 and an int8 to a sum."""

TILES = replace(QUADS, step=MOST_DEPTH)
"""Products of matrices of such groups, in tile registers."""
