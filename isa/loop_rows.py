"""The set of rows that a loop nest of micro-ops touches, for ordering checks.

Instead of listing every step, as `microcode.expand` does, each loop adds shifted copies of the rows
found so far, so the work is bounded by the scratchpad's size. Nests that differ only in their base
share one pattern.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from daedal.common.errors import ProgramError
from daedal.isa.microcode import decode_uops
from daedal.isa.numerics import IntArray
from daedal.isa.table import LOOPS, MICRO_OPS, Unit
from daedal.isa.variant import Variant

__all__ = ["LoopRows", "Nest", "Places", "weight_rows"]

Places = slice | IntArray
"""Places of one space: a contiguous range, or a list in any order, possibly with duplicates."""

_FACTORS = {
    item.name: tuple(f"{item.name}_factor{level}" for level in range(LOOPS))
    for fields in MICRO_OPS.values()
    for item in fields
}


class Nest(NamedTuple):
    """Loops around a micro-op sequence, both non-empty: micro-op words as bytes, and extents."""

    unit: Unit
    words: bytes
    extents: tuple[int, ...]


class _Pattern(NamedTuple):
    """Rows relative to base 0; `last` is the largest."""

    rows: Places
    last: int


class LoopRows:
    """Rows of nests; caches patterns for its lifetime."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._patterns: dict[tuple[str, Nest, tuple[int, ...], int], _Pattern] = {}

    def rows(
        self, nest: Nest, values: Mapping[str, int], name: str, limit: int, taps: int = 1
    ) -> Places:
        """Rows that the micro-op field `name` addresses, and the `taps - 1` rows after each.

        Parameters
        ----------
        values : the instruction's fields.
        limit : number of rows.

        Raises
        ------
        ProgramError
            A row is beyond the last.
        """
        factors = tuple([values.get(factor, 0) for factor in _FACTORS[name]])
        base = values.get(f"{name}_base", 0)
        key = (name, nest, factors, taps)
        pattern = self._patterns.get(key)
        if pattern is None:
            words = np.frombuffer(nest.words, dtype=np.uint64)
            column = decode_uops(self._variant, nest.unit, words)[name]
            loops = [*zip(nest.extents, factors, strict=True), (taps, 1)]
            last = int(column.max()) + sum((extent - 1) * factor for extent, factor in loops)
            _check(nest.unit, name, base + last, limit, taps)
            pattern = self._patterns[key] = _Pattern(_sums(column, loops, last), last)
        _check(nest.unit, name, base + pattern.last, limit, taps)
        rows = pattern.rows
        if isinstance(rows, slice):
            return slice(rows.start + base, rows.stop + base)
        return rows + base


def weight_rows(vectors: Places, per_row: int, taps: int) -> Places:
    """Weight rows that hold these vectors; ProgramError if `taps` cross into the next row."""
    if isinstance(vectors, slice):
        vectors = np.arange(vectors.start, vectors.stop)
    crossing = vectors % per_row + taps > per_row
    if crossing.any():
        raise ProgramError(
            f"GEMM.wgt must name {taps} vectors of one weight row of {per_row}, "
            f"not vector {int(vectors[np.argmax(crossing)])} and those after it"
        )
    rows = vectors // per_row
    return _dense(_unique(rows, int(rows.max())))


def _check(unit: Unit, name: str, last: int, limit: int, taps: int) -> None:
    if last >= limit:
        raise ProgramError(
            f"{unit.name}.{name} must stay below {limit - taps + 1} rows, "
            f"not reach {last - taps + 1}"
        )


def _sums(column: IntArray, loops: Sequence[tuple[int, int]], last: int) -> Places:
    """The distinct values of ``column[k] + sum(index * factor)``, up to `last`."""
    rows = column
    for extent, factor in loops:
        if extent > 1 and factor:
            rows = _unique((rows + factor * np.arange(extent)[:, None]).reshape(-1), last)
    return _dense(_unique(rows, last))


def _unique(rows: IntArray, last: int) -> IntArray:
    """The rows, sorted and without duplicates."""
    there = np.zeros(last + 1, dtype=bool)
    there[rows] = True
    return np.flatnonzero(there)


def _dense(rows: IntArray) -> Places:
    """Sorted, distinct rows as a range if they are contiguous."""
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else rows
