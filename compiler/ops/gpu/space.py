"""`GpuTileSpace`: tiles of a product for blocks of threads, and for threads.

The rule's tile is the default. The estimate orders the others roughly; nothing is known of how far
it is off, since no GPU was at hand.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from daedal.compiler import te
from daedal.compiler.ops.gpu.tiles import (
    BLOCK,
    DEPTHS,
    ELEMENTS,
    GpuTiles,
    choose_tiles,
    sized_tiles,
)
from daedal.compiler.ops.listed_space import ListedSpace, Row
from daedal.compiler.ops.space import Config, Table
from daedal.compiler.tir.expr import Reduce

__all__ = ["GpuTileSpace", "gpu_tile_space"]

Reals = npt.NDArray[np.float64]

_KNOBS = ("rows", "columns", "thread_rows", "thread_columns", "depth")
_BLOCKS = (BLOCK, 16, 32, 128)
_ELEMENTS = (ELEMENTS, 1, 2, 8)
LEAST_THREADS, MOST_THREADS = 32, 1024
"""Of a block. Source: CUDA C++ Programming Guide, compute capabilities."""
BARRIER = 30.0
"""Cycles of a thread for each step of the reduction besides its loads and products, assumed."""


class GpuTileSpace(ListedSpace[GpuTiles]):
    """Tiles of a sum of products: rows and columns of a block and of a thread, and how much of the
    longest axis of the reduction is in shared memory at a time.

    Parameters
    ----------
    found : the tiles; the rule's is the first.
    extents, reduced : of the axes of the result and of the reduction.
    """

    def __init__(
        self, found: dict[Row, GpuTiles], extents: Sequence[int], reduced: Sequence[int]
    ) -> None:
        super().__init__(_KNOBS, found)
        self._extents = tuple(extents)
        self._reduced = tuple(reduced)

    @property
    def default(self) -> Config:
        """The rule's tile."""
        first = next(iter(self._found))
        return Config(tuple(zip(_KNOBS, first, strict=True)))

    def cycles(self, table: Table) -> Reals:
        """See `Space`: of all threads, one after the other."""
        return np.array([self._cycles(tiles) for tiles in self.items(table)])

    def features(self, table: Table) -> dict[str, Reals]:
        """See `Space`."""
        found = self.items(table)
        return {
            **{knob: table[knob].astype(np.float64) for knob in _KNOBS},
            "threads": np.array([float(math.prod(item.threads)) for item in found]),
            "sums": np.array([float(math.prod(item.elements)) for item in found]),
            "blocks": np.array([float(self._blocks(item)) for item in found]),
        }

    def _blocks(self, tiles: GpuTiles) -> int:
        pairs = zip(self._extents, tiles.block, strict=True)
        return math.prod(-(-extent // size) for extent, size in pairs)

    def _cycles(self, tiles: GpuTiles) -> float:
        """Loads of shared memory for each product, products, and barriers."""
        depth = math.prod(tiles.depth)
        steps = math.prod(
            -(-extent // size) for extent, size in zip(self._reduced, tiles.depth, strict=True)
        )
        sums = math.prod(tiles.elements)
        loads = sum(tiles.elements)
        copied = depth * sum(tiles.block) / math.prod(tiles.threads)
        own = steps * (depth * (sums + loads) + copied + BARRIER)
        return float(self._blocks(tiles) * math.prod(tiles.threads) * own)


def gpu_tile_space(reduction: te.Tensor) -> GpuTileSpace | None:
    """The tiles of a sum of products without tensor cores; None where the rule has no tile."""
    formula = reduction.value
    assert isinstance(formula, Reduce)
    given = formula.value, reduction.axes, formula.axes
    rule = choose_tiles(*given)
    if rule is None:
        return None
    sizes = itertools.product(_BLOCKS, _BLOCKS, _ELEMENTS, _ELEMENTS, DEPTHS)
    listed: dict[GpuTiles, Row] = {}
    for rows, columns, own_rows, own_columns, depth in sizes:
        tiles = sized_tiles(*given, (rows, columns), (own_rows, own_columns), depth)
        threads = 0 if tiles is None else math.prod(tiles.threads)
        # Small results have as many threads as elements, whatever the block.
        if tiles is not None and (tiles == rule or LEAST_THREADS <= threads <= MOST_THREADS):
            listed.setdefault(tiles, (rows, columns, own_rows, own_columns, depth))
    found = {listed.pop(rule): rule}
    found |= {row: tiles for tiles, row in listed.items()}
    extents, reduced = ([axis.extent for axis in axes] for axes in given[1:])
    return GpuTileSpace(found, extents, reduced)
