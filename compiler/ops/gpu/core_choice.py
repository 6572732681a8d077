"""`best_core_tiles`: the tiles of a product on tensor cores, of single warps or of groups of four.

Which of them is faster, is decided by an estimate for an H100, which says how long the slowest of
its multiprocessors takes. No GPU was at hand, so nothing is known of how far it is off.
"""

import math
from collections.abc import Sequence

from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.ops.gpu.group_cores import GROUP_ROWS, choose_group_tiles
from daedal.compiler.ops.gpu.tensor_cores import CoreTiles, choose_core_tiles
from daedal.compiler.tir.expr import Axis, Expr
from daedal.compiler.tir.warp_products import GROUP_PRODUCTS, WARP_THREADS

__all__ = ["GROUP_TILES", "STAGES", "best_core_tiles", "estimated_cycles"]

GROUP_TILES = tuple(
    (groups, columns)
    for columns in sorted({item.columns for item in GROUP_PRODUCTS.values()}, reverse=True)
    for groups in (2, 1)
)
"""Groups of warps and columns of a block."""
STAGES = 4
"""Steps whose operands are in shared memory, at most."""

MULTIPROCESSORS = 132
"""Source, with the rates below: NVIDIA H100 Tensor Core GPU Architecture, 2022."""
PRODUCTS = 4096.0
"""Of bytes in a cycle, by groups of warps; of float16 half as many."""
OF_WARPS = 0.62
"""The share of these that single warps reach, assumed."""
SHARED_RATE = 128.0
"""Bytes of shared memory in a cycle."""
CACHE_RATE = 40.0
"""Bytes of the cache of all multiprocessors in a cycle, for each of them, assumed."""
COPIES = 0.4
"""Copies of 16 bytes that a multiprocessor begins in a cycle, with their addresses, assumed."""
STEP = 60.0
"""Cycles of a step in which nothing is multiplied, assumed, where its products end before the next
one begins; of groups of warps they need not."""
BEGIN = 1500.0
"""Cycles of a block until its first operands are there, and for its results, assumed."""


def best_core_tiles(
    value: Expr, axes: Sequence[Axis], reduced: Sequence[Axis], *, has_groups: bool = False
) -> CoreTiles | None:
    """The tiles of a sum of `value` over `reduced`; None where tensor cores do not compute it.

    `has_groups`: whether there are products of groups of warps.
    """
    found = [choose_core_tiles(value, axes, reduced)]
    if has_groups:
        found += [choose_group_tiles(value, axes, reduced, *item, STAGES) for item in GROUP_TILES]
    known = [item for item in found if item is not None]
    extents, terms = ([axis.extent for axis in group] for group in (axes, reduced))
    return min(known, key=lambda item: estimated_cycles(item, extents, terms), default=None)


def estimated_cycles(cores: CoreTiles, extents: Sequence[int], reduced: Sequence[int]) -> float:
    """Of the multiprocessor with the most blocks, for a result and a reduction of these extents."""
    tiles, product = cores.tiles, cores.product
    blocks = _tiles(extents, tiles.block)
    steps, depth = _tiles(reduced, tiles.depth), math.prod(tiles.depth)
    columns = tiles.block[cores.column]
    rows = math.prod(tiles.block) // columns
    size = ELEMENT_BYTES[product.dtype]
    step_bytes = (rows + columns) * depth * size
    if product.warps > 1:
        read_rows, readers = GROUP_ROWS, cores.warps // product.warps
        rate, gap = PRODUCTS / size, 0.0
    else:
        read_rows, readers = cores.warp_rows, cores.warps
        rate, gap = PRODUCTS / size * OF_WARPS, STEP
    read = (read_rows + tiles.elements[cores.column]) * depth * size * readers
    step = max(
        rows * columns * depth / rate,
        (read + step_bytes) / SHARED_RATE,
        step_bytes / CACHE_RATE,
        0.0 if cores.boxes else step_bytes / 16 / WARP_THREADS / COPIES,
    )
    return math.ceil(blocks / MULTIPROCESSORS) * (BEGIN / cores.stages + steps * (step + gap))


def _tiles(extents: Sequence[int], sizes: Sequence[int]) -> int:
    """How many tiles of some sizes cover all axes."""
    return math.prod(-(-extent // size) for extent, size in zip(extents, sizes, strict=True))
