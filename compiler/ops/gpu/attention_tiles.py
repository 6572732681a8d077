"""`attention_tiles`: how a kernel of attention is divided among threads, and what fits."""

import math
from dataclasses import dataclass

from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.ops.gpu.attention_form import AttentionForm, attention_form
from daedal.compiler.ops.gpu.tiles import SHARED_BYTES

__all__ = [
    "APART",
    "COLUMN_THREADS",
    "OWN_ROWS",
    "ROW_THREADS",
    "AttentionTiles",
    "attention_tiles",
    "depth_of",
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
MOST_ELEMENTS = 128
"""Of a query and of a result: the sums of a thread are in registers."""
FEW_BLOCKS = 128
"""About as many as a GPU runs at a time: with fewer, blocks have fewer queries."""
APART = 4
"""Elements between rows of shared memory: rows that threads read together are in other banks."""
BYTES = 4
"""Of an element."""


@dataclass(frozen=True)
class AttentionTiles:
    """Queries of a block, and keys that are in shared memory at a time."""

    rows: int
    columns: int

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.rows // OWN_ROWS * COLUMN_THREADS

    def shared_bytes(self, form: AttentionForm) -> int:
        """Of a block."""
        depth, width = depth_of(form), width_of(form)
        queries, keys = ((n * (depth + APART)) for n in (self.rows, self.columns))
        scores = self.rows * (self.columns + APART)
        return BYTES * (
            queries + keys + self.columns * width + scores + 2 * self.rows * ROW_THREADS
        )


def attention_tiles(kernel: Kernel) -> AttentionTiles | None:
    """The tiles of a kernel of attention; None where it is none that this schedule computes."""
    form = attention_form(kernel)
    return None if form is None else _chosen(form)


def _chosen(form: AttentionForm) -> AttentionTiles | None:
    """The largest tiles of which there are enough blocks, or else the smallest."""
    if max(form.depth, form.width) > MOST_ELEMENTS:
        return None
    found = [
        tiles
        for rows in SIZES
        for columns in SIZES
        if rows < 2 * max(form.rows, SIZES[-1]) and columns < 2 * max(form.columns, SIZES[-1])
        if (tiles := AttentionTiles(rows, columns)).shared_bytes(form) <= SHARED_BYTES
    ]
    if not found:
        return None
    images = math.prod(axis.extent for axis in form.batch)
    enough = [item for item in found if images * -(-form.rows // item.rows) >= FEW_BLOCKS]
    fewest = min(item.rows for item in found)
    return (enough or [item for item in found if item.rows == fewest])[0]


def depth_of(form: AttentionForm) -> int:
    """Elements of a query in shared memory: rows are an odd number of chunks of 16 bytes apart."""
    return -(-form.depth // (2 * APART)) * 2 * APART


def width_of(form: AttentionForm) -> int:
    """Elements of a result, so many for each thread."""
    return -(-form.width // COLUMN_THREADS) * COLUMN_THREADS
