"""Maps with their channels last, in blocks: (N, H, W, C / 16, 16), or one: (N, H, W, 1, C).

The last block is filled up with channels that mean nothing: weights there are 0, and nothing else
mixes channels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from daedal.compiler import te
from daedal.compiler.graph.graph import Array
from daedal.compiler.graph.types import TensorType
from daedal.compiler.tir.expr import Expr, IntImm

__all__ = [
    "BLOCKED",
    "LANES",
    "MAP_RANK",
    "UNBROKEN",
    "Map",
    "MapLayout",
    "depthwise_weight",
    "depthwise_weights",
    "from_plain",
    "is_map",
    "to_plain",
]

LANES = 16
"""Channels are filled up to a multiple of these: two vectors of AVX2's, one of AVX-512's, and at
least 16 bytes, which a GPU copies at once."""

MAP_RANK = 4


@dataclass(frozen=True)
class MapLayout:
    """How maps lie in memory: (N, H, W, blocks, lanes).

    Attributes
    ----------
    is_blocked : whether a block has `LANES` channels; otherwise the only one has all of them, and
        the blocks of a map of several are one after the other in memory, too.
    """

    is_blocked: bool

    def blocks(self, channels: int) -> int:
        """Blocks that hold so many channels."""
        return self.filled(channels) // LANES if self.is_blocked else 1

    def lanes(self, channels: int) -> int:
        """Channels of a block."""
        return LANES if self.is_blocked else self.filled(channels)

    def filled(self, channels: int) -> int:
        """Channels in memory."""
        return -(-channels // LANES) * LANES

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape in memory of a map (N, C, H, W)."""
        images, channels, *extents = shape
        return (images, *extents, self.blocks(channels), self.lanes(channels))

    def place(self, channel: Expr) -> tuple[Expr, Expr]:
        """Block and lane of a channel."""
        return (channel // LANES, channel % LANES) if self.is_blocked else (IntImm(0), channel)

    def channel(self, block: Expr, lane: Expr) -> Expr:
        """The channel of a block's lane."""
        return block * LANES + lane if self.is_blocked else lane

    @property
    def channel_axis(self) -> int:
        """The dimension along which maps of whole blocks are joined."""
        return -2 if self.is_blocked else -1

    def values(self, values: Array) -> Array:
        """A value per channel as (blocks, lanes), 0 behind them."""
        filled = np.zeros(self.filled(len(values)), values.dtype)
        filled[: len(values)] = values
        return filled.reshape(self.blocks(len(values)), -1)


BLOCKED = MapLayout(is_blocked=True)
"""Of processors: all places of a block before the next one share the caches."""
UNBROKEN = MapLayout(is_blocked=False)
"""Of GPUs (NHWC): neighbouring threads read neighbouring channels, and products of matrices add up
as many as they want."""


def is_map(kind: TensorType) -> bool:
    """Whether a tensor of this type has its channels last in memory."""
    return kind.rank == MAP_RANK and kind.dtype in ("int8", "float32")


@dataclass(frozen=True)
class Map:
    """A map in memory, and its logical shape (N, C, H, W)."""

    tensor: te.Tensor
    shape: tuple[int, ...]


Compute = Callable[[Sequence[int], Callable[..., Expr]], te.Tensor]


def to_plain(source: Map, layout: MapLayout, compute: Compute) -> te.Tensor:
    """The elements of a map as (N, C, H, W)."""

    def formula(n: Expr, c: Expr, h: Expr, w: Expr) -> Expr:
        return source.tensor[n, h, w, *layout.place(c)]

    return compute(source.shape, formula)


def from_plain(tensor: te.Tensor, shape: Sequence[int], layout: MapLayout, compute: Compute) -> Map:
    """The map of a tensor (N, C, H, W); its last block is filled up with zeros."""
    read = tensor if shape[1] % LANES == 0 else tensor.padded(0)

    def formula(n: Expr, h: Expr, w: Expr, block: Expr, lane: Expr) -> Expr:
        return read[n, layout.channel(block, lane), h, w]

    return Map(compute(layout.shape(shape), formula), tuple(shape))


def depthwise_weights(weights: Array, layout: MapLayout) -> Array:
    """Weights (C, 1, ...) as (groups of blocks, ..., blocks, lanes), 0 behind the channels.

    All taps of a group of two blocks (one where their number is odd) lie side by side. With all
    blocks behind the taps, the taps of 1024 channels would lie a page apart, as the rows of the map
    do, and share the few places of the cache that they may be in.
    """
    channels, _, *kernel = weights.shape
    count, lanes = layout.blocks(channels), layout.lanes(channels)
    full = np.zeros((count * lanes, *kernel), weights.dtype)
    full[:channels] = weights[:, 0]
    together = 1 if count % 2 else 2
    split = full.reshape(-1, together, lanes, *kernel)
    return np.ascontiguousarray(np.moveaxis(split, (1, 2), (-2, -1)))


def depthwise_weight(table: te.Tensor, taps: Sequence[Expr], block: Expr, lane: Expr) -> Expr:
    """The weight of a tap and a channel in such a table."""
    groups, *_, together, _ = table.shape
    if together == 1:
        return table[block, *taps, 0, lane]
    if groups == 1:
        return table[0, *taps, block, lane]
    return table[block // together, *taps, block % together, lane]
