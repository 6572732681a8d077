"""Maps with their channels last, in blocks of lanes: (N, H, W, C / 16, 16).

The last block is filled up with channels that mean nothing: weights there are 0, and nothing else
mixes channels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.graph.types import TensorType
from daedal.compiler.tir.expr import Expr

__all__ = [
    "LANES",
    "MAP_RANK",
    "Map",
    "blocks",
    "depthwise_weight",
    "depthwise_weights",
    "from_plain",
    "is_map",
    "lanes_of",
    "map_shape",
    "to_plain",
]

LANES = 16
"""Channels of a block: two vectors of AVX2's, one of AVX-512's."""

MAP_RANK = 4


def blocks(channels: int) -> int:
    """Blocks that hold so many channels."""
    return -(-channels // LANES)


def map_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """The shape in memory of a map (N, C, H, W)."""
    images, channels, *extents = shape
    return (images, *extents, blocks(channels), LANES)


def is_map(kind: TensorType) -> bool:
    """Whether a tensor of this type has its channels last in memory."""
    return kind.rank == MAP_RANK and kind.dtype in ("int8", "float32")


def lanes_of(values: Array, blocks: int) -> Array:
    """A value per channel in the lanes of `blocks` blocks, 0 behind them."""
    lanes = np.zeros(blocks * LANES, values.dtype)
    lanes[: len(values)] = values
    return lanes.reshape(blocks, LANES)


@dataclass(frozen=True)
class Map:
    """A map in memory, and its logical shape (N, C, H, W)."""

    tensor: te.Tensor
    shape: tuple[int, ...]


Compute = Callable[[Sequence[int], Callable[..., Expr]], te.Tensor]


def to_plain(source: Map, compute: Compute) -> te.Tensor:
    """The elements of a map as (N, C, H, W)."""

    def formula(n: Expr, c: Expr, h: Expr, w: Expr) -> Expr:
        return source.tensor[n, h, w, c // LANES, c % LANES]

    return compute(source.shape, formula)


def from_plain(tensor: te.Tensor, shape: Sequence[int], compute: Compute) -> Map:
    """The map of a tensor (N, C, H, W); its last block is filled up with zeros."""
    read = tensor if shape[1] % LANES == 0 else tensor.padded(0)

    def formula(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        return read[n, block * LANES + lane, h, w]

    return Map(compute(map_shape(shape), formula), tuple(shape))


def depthwise_weights(weights: Array) -> Array:
    """Weights (C, 1, ...) as (groups of blocks, ..., blocks, lanes), 0 behind the channels.

    All taps of a group of two blocks (one where their number is odd) lie side by side. With all
    blocks behind the taps, the taps of 1024 channels would lie a page apart, as the rows of the map
    do, and share the few places of the cache that they may be in.
    """
    channels, _, *kernel = weights.shape
    count = blocks(channels)
    full = np.zeros((count * LANES, *kernel), weights.dtype)
    full[:channels] = weights[:, 0]
    together = 1 if count % 2 else 2
    split = full.reshape(-1, together, LANES, *kernel)
    return np.ascontiguousarray(np.moveaxis(split, (1, 2), (-2, -1)))


def depthwise_weight(table: te.Tensor, taps: Sequence[Expr], block: Expr, lane: Expr) -> Expr:
    """The weight of a tap and a channel in such a table."""
    groups, *_, together, _ = table.shape
    if together == 1:
        return table[block, *taps, 0, lane]
    if groups == 1:
        return table[0, *taps, block, lane]
    return table[block // together, *taps, block % together, lane]
