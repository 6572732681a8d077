"""`attention_tiles`: how a kernel of attention is divided among threads, and what fits."""

import math
from dataclasses import dataclass

from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.attention_form import AttentionForm, attention_form
from daedal.compiler.ops.gpu.tiles import (
    CORE_THREADS,
    FEW_THREADS,
    FEWEST,
    RESIDENT_THREADS,
    SHARED_BYTES,
    resident_blocks,
)
from daedal.compiler.tir.warp_products import WARP_PRODUCTS, WARP_THREADS, WarpProduct

__all__ = [
    "APART",
    "COLUMN_THREADS",
    "HALVES_APART",
    "OWN_ROWS",
    "PARTS",
    "PRODUCT",
    "ROW_LANES",
    "ROW_THREADS",
    "SINGLE_THREADS",
    "SIZES",
    "STAGES",
    "AttentionTiles",
    "attention_tiles",
    "core_product",
    "depth_of",
    "element_threads",
    "fitting_tiles",
    "is_wide",
    "width_of",
]

COLUMN_THREADS = 16
"""Threads along the keys, and along the elements of the result."""
OWN_ROWS = 4
"""Queries of a thread."""
ROW_THREADS = 4
"""Threads that have the largest score and the sum of weights of a query."""
SIZES = (64, 32, 16)
"""Queries of a block, and keys of a step."""
NARROW_ELEMENTS, MOST_ELEMENTS = 128, 256
"""Of a query and of a result: the sums of a thread are in registers. With more than the first, keys
and values of a step have one buffer, one after the other."""
FEW_BLOCKS = 128
"""About as many as a GPU runs at a time: with fewer, blocks have fewer queries."""
APART = 4
"""Elements between rows of shared memory: rows that threads read together are in other banks."""
BYTES = 4
"""Of an element."""

PRODUCT = WARP_PRODUCTS["mma.m16n8k16.f16"]
"""On tensor cores; that of bfloat16 has the same tiles."""
HALVES_APART = 8
"""Elements of 16 bits between rows of shared memory, for the same reason."""
HALF_BYTES = 2
ROW_LANES = 4
"""Threads that have the sums of a query on tensor cores."""
SINGLE_THREADS = (128, 256, 64)
"""Of a block with one query, and keys of a step there."""
PARTS = 16
"""Threads that join the numbers of all threads of such a block."""
MOST_SINGLE_BYTES = 1 << 20
"""Of the keys and values of such a block: with more, kernels with more blocks are assumed to be
faster."""
STAGES = (2, 1)
"""Steps whose keys and values are in shared memory."""


@dataclass(frozen=True)
class AttentionTiles:
    """Queries of a block, and keys of a step; steps whose keys are in shared memory at a time; and
    whether tensor cores multiply. A block with one query has a thread for each key of a step."""

    rows: int
    columns: int
    stages: int = 1
    on_cores: bool = False

    @property
    def threads(self) -> int:
        """Of a block."""
        if self.on_cores:
            return self.warps * WARP_THREADS
        if self.rows == 1:
            return self.columns
        return self.rows // OWN_ROWS * COLUMN_THREADS

    def resident(self, form: AttentionForm) -> int:
        """See `resident_blocks`."""
        threads = CORE_THREADS if self.on_cores else RESIDENT_THREADS
        if self.rows > 1 and is_wide(form):
            threads = FEW_THREADS
        return resident_blocks(self.threads, threads)

    @property
    def warps(self) -> int:
        """Of a block, on tensor cores."""
        return self.rows // PRODUCT.rows

    def shared_bytes(self, form: AttentionForm) -> int:
        """Of a block."""
        depth, width, rows, columns = depth_of(form), width_of(form), self.rows, self.columns
        if rows == 1:
            along = element_threads(form, columns)
            sums = columns // along * -(-form.width // along) * along
            scores = -(-form.columns // columns) * columns
            return BYTES * (form.depth + scores + columns + 2 * PARTS + sums)
        if self.on_cores:
            apart = HALVES_APART
            keys = self.stages * columns * (depth + width + 2 * apart)
            elements = keys + rows * (depth + apart) + rows * (columns + apart)
            return HALF_BYTES * elements + BYTES * rows * ROW_LANES
        step = max(depth, width) if is_wide(form) else depth + width
        elements = rows * (depth + APART) + columns * (step + APART)
        return BYTES * (elements + rows * (columns + APART) + 2 * rows * ROW_THREADS)


def attention_tiles(kernel: Kernel, *, has_warps: bool = True) -> AttentionTiles | None:
    """The tiles of a kernel of attention; None where it is none that these schedules compute.

    `has_warps`: whether there are products of whole warps; 16 bits are multiplied by no others.
    """
    form = attention_form(kernel)
    if form is None or (form.is_half and not has_warps and form.rows >= FEWEST):
        return None
    return _chosen(form)


def fitting_tiles(form: AttentionForm) -> list[AttentionTiles]:
    """All tiles that shared memory has room for, and that are not twice as large as the operands;
    none if sums are too many for registers."""
    if form.rows < FEWEST:
        size = HALF_BYTES if form.is_half else BYTES
        if form.columns * (form.depth + form.width) * size > MOST_SINGLE_BYTES:
            return []
        found = [AttentionTiles(1, threads) for threads in SINGLE_THREADS]
        return [tiles for tiles in found if tiles.shared_bytes(form) <= SHARED_BYTES]
    if max(form.depth, form.width) > MOST_ELEMENTS:
        return []
    return [
        tiles
        for rows in SIZES
        for stages in (STAGES if form.is_half else (1,))
        for columns in SIZES
        if columns < form.columns or stages == 1
        if rows < 2 * max(form.rows, SIZES[-1]) and columns < 2 * max(form.columns, SIZES[-1])
        if (tiles := AttentionTiles(rows, columns, stages, form.is_half)).shared_bytes(form)
        <= SHARED_BYTES
    ]


def _chosen(form: AttentionForm) -> AttentionTiles | None:
    """The largest tiles of which there are enough blocks, or else the smallest."""
    found = fitting_tiles(form)
    if not found:
        return None
    if form.rows < FEWEST:
        return found[0]
    images = math.prod(axis.extent for axis in form.batch)
    enough = [item for item in found if images * -(-form.rows // item.rows) >= FEW_BLOCKS]
    fewest = min(item.rows for item in found)
    return (enough or [item for item in found if item.rows == fewest])[0]


def is_wide(form: AttentionForm) -> bool:
    """Whether queries or results are so long that less of a block fits its memory and registers."""
    return max(form.depth, form.width) > NARROW_ELEMENTS


def depth_of(form: AttentionForm) -> int:
    """Elements of a query in shared memory: chunks of products, or so many that rows are an odd
    number of 16 bytes apart."""
    whole = PRODUCT.depth if form.is_half else 2 * APART
    return -(-form.depth // whole) * whole


def core_product(form: AttentionForm) -> WarpProduct:
    """The instruction that multiplies its operands."""
    return next(
        item
        for item in WARP_PRODUCTS.values()
        if (item.dtype, item.depth) == (form.half, PRODUCT.depth)
    )


def element_threads(form: AttentionForm, threads: int) -> int:
    """Threads along the elements of a result, in a block with one query: a power of two."""
    return min(1 << (form.width - 1).bit_length(), threads)


def width_of(form: AttentionForm) -> int:
    """Elements of a result: two tiles of products, or as many for each thread."""
    return -(-form.width // COLUMN_THREADS) * COLUMN_THREADS
