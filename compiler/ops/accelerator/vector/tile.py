"""What a tile of an operator costs that only the ALU computes: `TileWork`."""

from dataclasses import dataclass

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.graph.window_extents import Extent
from daedal.compiler.ops.space import Column
from daedal.isa.variant import Variant

__all__ = ["TILE_CYCLES", "Tile", "TileWork", "accumulation"]

TILE_CYCLES = 24
"""What a tile costs beyond its work, about: instructions, tokens, latencies that do not overlap."""

Tile = tuple[int, int, int]
"""Channel blocks, rows and columns of the output."""


@dataclass(frozen=True)
class TileWork:
    """The work of tiles before requantization, per vector of a channel block; columns of them.

    Parameters
    ----------
    loaded : vectors loaded into the accumulators; wide ones count as many times as 8-bit ones take
        their bytes.
    held : rows of each accumulator buffer in use at once.
    operations : vectors that go through the ALU, as if each took one cycle.
    """

    loaded: Column
    held: tuple[Column, ...]
    operations: Extent = 0


def accumulation(steps: Extent, targets: Extent, variant: Variant) -> Column:
    """Cycles of `steps` operations on each of `targets` rows. A row accepts the next operation only
    after the last result is written."""
    return np.asarray(steps * np.maximum(targets, machine_cost(variant).reuse))
