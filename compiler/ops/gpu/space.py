"""`GpuTileSpace` and `GpuCoreSpace`: tiles of a product for blocks of threads, and for threads or
warps.

The rule's tile is the default. The estimate orders the others roughly; nothing is known of how far
it is off, since no GPU was at hand.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from daedal.compiler import te
from daedal.compiler.ops.gpu.core_choice import GROUP_TILES, best_core_tiles, estimated_cycles
from daedal.compiler.ops.gpu.group_cores import GROUP_ROWS, choose_group_tiles
from daedal.compiler.ops.gpu.tensor_cores import CoreTiles, choose_core_tiles
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
from daedal.compiler.tir.warp_products import WARP_THREADS

__all__ = ["GpuCoreSpace", "GpuTileSpace", "gpu_core_space", "gpu_tile_space"]

Reals = npt.NDArray[np.float64]

_KNOBS = ("rows", "columns", "thread_rows", "thread_columns", "depth")
_BLOCKS = (BLOCK, 16, 32, 128)
_ELEMENTS = (ELEMENTS, 1, 2, 8)
LEAST_THREADS, MOST_THREADS = 32, 1024
"""Of a block. Source: CUDA C++ Programming Guide, compute capabilities."""
BARRIER = 30.0
"""Cycles of a thread for each step of the reduction besides its loads and products, assumed."""

_CORE_KNOBS = ("rows", "columns", "depth", "stages")
_CORE_BLOCKS = (64, 16, 32, 128)
_CORE_DEPTHS = (32, 16, 64)
_CORE_STAGES = (3, 1, 2, 4)
_GROUPS = "groups"
"""The knob of groups of warps, where there are products of such: how many of a block, 0 for
products of single warps."""
_GROUP_STAGES = (4, 3, 2)
COPY = 400.0
"""Cycles until what a step copies is there, if no other step runs in the meantime, assumed."""


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
            "blocks": np.array([float(_tiles(self._extents, item.block)) for item in found]),
        }

    def _cycles(self, tiles: GpuTiles) -> float:
        """Loads of shared memory for each product, products, and barriers."""
        depth = math.prod(tiles.depth)
        steps = _tiles(self._reduced, tiles.depth)
        sums = math.prod(tiles.elements)
        loads = sum(tiles.elements)
        copied = depth * sum(tiles.block) / math.prod(tiles.threads)
        own = steps * (depth * (sums + loads) + copied + BARRIER)
        return float(_tiles(self._extents, tiles.block) * math.prod(tiles.threads) * own)


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


class GpuCoreSpace(ListedSpace[CoreTiles]):
    """Tiles of a sum of products on tensor cores: rows and columns of a block, terms of a step, and
    steps whose operands are in shared memory at a time; groups of warps, where there may be some.

    Parameters
    ----------
    found : the tiles; the rule's is the first.
    extents, reduced : of the axes of the result and of the reduction.
    has_groups : whether the last knob is that of groups.
    """

    def __init__(
        self,
        found: dict[Row, CoreTiles],
        extents: Sequence[int],
        reduced: Sequence[int],
        *,
        has_groups: bool = False,
    ) -> None:
        knobs = (*_CORE_KNOBS, _GROUPS) if has_groups else _CORE_KNOBS
        super().__init__(knobs, found)
        self._extents = tuple(extents)
        self._reduced = tuple(reduced)
        self._has_groups = has_groups

    @property
    def default(self) -> Config:
        """The rule's tile."""
        first = next(iter(self._found))
        return Config(tuple(zip(self._names, first, strict=True)))

    def cycles(self, table: Table) -> Reals:
        """See `Space`: of all warps, one after the other; where there are groups, of the slowest
        multiprocessor."""
        found = self.items(table)
        if self._has_groups:
            given = self._extents, self._reduced
            return np.array([estimated_cycles(item, *given) for item in found])
        return np.array([self._cycles(item) for item in found])

    def features(self, table: Table) -> dict[str, Reals]:
        """See `Space`."""
        found = self.items(table)
        return {
            **{knob: table[knob].astype(np.float64) for knob in self._names},
            "warps": np.array([float(item.warps) for item in found]),
            "blocks": np.array([float(_tiles(self._extents, item.tiles.block)) for item in found]),
        }

    def _cycles(self, cores: CoreTiles) -> float:
        """Products, loads of matrices, copies and waits of each step."""
        tiles, product = cores.tiles, cores.product
        rows = cores.warp_rows / product.rows
        columns = tiles.elements[cores.column] / product.columns
        chunks = math.prod(tiles.depth) / product.depth
        copied = cores.copied / cores.warps / WARP_THREADS
        own = chunks * (rows * columns + rows + columns) + copied + BARRIER + COPY / cores.stages
        steps = _tiles(self._reduced, tiles.depth)
        return float(_tiles(self._extents, tiles.block) * cores.warps * steps * own)


def gpu_core_space(reduction: te.Tensor, *, has_groups: bool = False) -> GpuCoreSpace | None:
    """The tiles of a sum of products on tensor cores; None where no instruction computes it.

    `has_groups`: whether there are products of groups of warps.
    """
    formula = reduction.value
    assert isinstance(formula, Reduce)
    given = formula.value, reduction.axes, formula.axes
    rule = best_core_tiles(*given, has_groups=has_groups)
    if rule is None:
        return None
    listed: dict[CoreTiles, Row] = {}
    for row in itertools.product(_CORE_BLOCKS, _CORE_BLOCKS, _CORE_DEPTHS, _CORE_STAGES):
        rows, columns, depth, stages = row
        cores = choose_core_tiles(*given, (rows, columns), depth, stages)
        if cores is not None:
            listed.setdefault(cores, (*row, 0) if has_groups else row)
    for (groups, columns), stages in itertools.product(GROUP_TILES, _GROUP_STAGES):
        cores = choose_group_tiles(*given, groups, columns, stages) if has_groups else None
        if cores is not None:
            sizes = (groups * GROUP_ROWS, columns, math.prod(cores.tiles.depth), cores.stages)
            listed.setdefault(cores, (*sizes, groups))
    found = {listed.pop(rule): rule}
    found |= {row: cores for cores, row in listed.items()}
    extents, reduced = ([axis.extent for axis in axes] for axes in given[1:])
    return GpuCoreSpace(found, extents, reduced, has_groups=has_groups)


def _tiles(extents: Sequence[int], sizes: Sequence[int]) -> int:
    """How many tiles of some sizes cover all axes."""
    return math.prod(-(-extent // size) for extent, size in zip(extents, sizes, strict=True))
