"""`PaddingRuns`: into how many pieces tiles of windows cut a product that leaves out padding.

In one dimension: outputs whose windows lie inside the map take all taps, those at the border only
some. Taps with the same outputs are one piece (`daedal.compiler.codegen.padding`).
"""

from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from typing import NamedTuple

import numpy as np

from daedal.compiler.graph.window_extents import Extent, window_span
from daedal.compiler.ops.accelerator.tiles.window_axis import WindowAxis, by_pair
from daedal.compiler.ops.space import Column

__all__ = ["Loads", "PaddingRuns", "sizes"]


class Loads(NamedTuple):
    """What tiles load in one dimension: how often as much as a tile holds, how often less; the
    elements of all; how often only padding."""

    whole: Column
    cut: Column
    elements: Column
    outside: Column

    def only_padding(self, columns: "Loads", held: Extent) -> Column:
        """Most LOADs, for a block of channels, that move only padding: these are the rows, of which
        a tile has `held`. Where columns are cut, each row is a LOAD."""
        places = self.whole + self.cut
        among_whole = self.outside * columns.whole + places * columns.outside
        cut = np.minimum(columns.outside, columns.cut)
        among_cut = self.outside * columns.cut + places * cut
        return np.asarray(among_whole + held * among_cut)


@dataclass(frozen=True)
class PaddingRuns:
    """The pieces and LOADs of one dimension."""

    axis: WindowAxis

    @property
    def past(self) -> int:
        """Elements of padding at the wider end."""
        axis = self.axis
        end = window_span(axis.outputs, axis.kernel, axis.stride, axis.dilation)
        return max(axis.pad, end - axis.pad - axis.size, 0)

    def all(self, tile: Column, taps: Column) -> Column:
        """Pieces of all tiles and all parts of the window, where no sum begins."""
        return by_pair(self._all, tile, taps)

    def first(self, tile: Column, taps: Column) -> Column:
        """Those of the first part of the window."""
        return by_pair(self._first, tile, taps)

    def begins(self, tile: Column, taps: Column) -> tuple[Column, Column]:
        """The least and most pieces of the first part of the window, where sums begin: one has all
        outputs."""
        found = [by_pair(partial(self._begins, spare), tile, taps) for spare in (0, 1)]
        return found[0], found[1]

    def loads(self, tile: Column, taps: Column) -> Loads:
        """What all tiles load for all parts of the window."""
        known = cache(self._loads)
        pairs = [known(*pair) for pair in zip(tile.tolist(), taps.tolist(), strict=True)]
        return Loads(*np.array(pairs, dtype=np.int64).reshape(-1, 4).T)

    def _loads(self, tile: int, taps: int) -> tuple[int, int, int, int]:
        held = window_span(tile, taps, self.axis.stride, self.axis.dilation)
        end = window_span(self.axis.outputs, self.axis.kernel, self.axis.stride, self.axis.dilation)
        places = [
            (place, min(held, end - place))
            for begin in range(0, self.axis.outputs, tile)
            for tap in range(0, self.axis.kernel, taps)
            for place in [begin * self.axis.stride + tap * self.axis.dilation]
        ]
        cut = sum(length < held for _, length in places)
        outside = sum(
            place + length <= self.axis.pad or place - self.axis.pad >= self.axis.size
            for place, length in places
        )
        total = sum(length for _, length in places)
        return len(places) - cut, cut, total, outside

    def _all(self, tile: int, taps: int) -> int:
        return sum(
            self._pieces(begin, tile, tap, taps)
            for begin in range(0, self.axis.outputs, tile)
            for tap in range(0, self.axis.kernel, taps)
        )

    def _first(self, tile: int, taps: int) -> int:
        return sum(
            self._pieces(begin, tile, 0, taps) for begin in range(0, self.axis.outputs, tile)
        )

    def _begins(self, spare: int, tile: int, taps: int) -> int:
        """`spare`: pieces more where another loop than that of the taps is cut."""
        total = 0
        for begin in range(0, self.axis.outputs, tile):
            whole = min(tile, self.axis.outputs - begin)
            spans = self._spans(begin, whole, 0, min(taps, self.axis.kernel))
            if (0, whole) not in spans:
                # The tap that reads the least padding has all outputs.
                longest = max(range(len(spans)), key=lambda tap: spans[tap][1] - spans[tap][0])
                spans[longest] = (0, whole)
                total += spare * (len(spans) == 1)
            total += sum(1 for (low, high), _ in groupby(spans) if high > low)
        return total

    def _pieces(self, begin: int, tile: int, tap: int, taps: int) -> int:
        """Of one tile and one part of the window."""
        spans = self._spans(
            begin, min(tile, self.axis.outputs - begin), tap, min(taps, self.axis.kernel - tap)
        )
        return sum(1 for (low, high), _ in groupby(spans) if high > low)

    def _spans(self, begin: int, tile: int, tap: int, taps: int) -> list[tuple[int, int]]:
        """The outputs that each tap has; all where padding is multiplied, too."""
        if not self.axis.skips:
            return [(0, tile)] * taps
        found = []
        for number in range(tap, tap + taps):
            base = begin * self.axis.stride + number * self.axis.dilation - self.axis.pad
            low = max(0, -(base // self.axis.stride))
            high = min(tile, -((base - self.axis.size) // self.axis.stride))
            found.append((low, high) if high > low else (0, 0))
        return found


def sizes(extent: int, size: Column) -> list[tuple[Column, Column]]:
    """(size, count) of the tiles of one dimension: whole ones, and the remainder."""
    whole = np.asarray(extent // size)
    rest = extent - whole * size
    return [(size, whole), (rest, np.minimum(rest, 1))]
