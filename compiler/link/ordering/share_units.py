"""Runs two layers with products at the same time, where the second reads the result of the first.

A pointwise convolution keeps the multipliers busy, and the depthwise convolution behind it the bus.
Where the tiles of the second need only some of the tiles of the first, both run together, and the
unit that is busiest with both determines the cycles.

Input: the tiles of two layers. Output: the instructions of both, if that is faster.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.segment import Instance, SegmentInstruction
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.ordering.spread_tiles import Tile, behind, spread
from daedal.compiler.link.ordering.tiles import Words, tiles_of
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["LATEST", "TILE_CYCLES", "UNITS", "cycles_together", "share_units", "tiles_in_turns"]

UNITS = ("bus", Unit.GEMM.name, Unit.ALU.name)
"""What two layers share, by the names of `InstructionCost`."""

TILE_CYCLES = 100
"""That a tile of the second layer costs besides its work: GEMM waits for its rows, and for the next
rows of the first layer behind them. -50 to 270 were measured."""

LATEST = 3 / 4
"""Of the first layer's tiles, those that may come before the second layer begins. With more, little
is left to overlap with."""

_OF_TILES = (Memory.INP, Memory.ACC, Memory.OUT)

Cycles = float | npt.NDArray[np.float64]


def share_units(
    tiles: Sequence[Tile],
    later: Sequence[Tile],
    kept: Collection[Instance],
    words: Words,
    variant: Variant,
    memory: MemoryModel = DDR,
) -> list[tuple[int, SegmentInstruction]] | None:
    """Instructions of both layers, each with 0 or 1; None if one after the other is faster.

    Two tiles of each must fit the scratchpads together: both layers load the next tile during the
    products of this one, and store the one before.
    """
    if not _two_of_each_fit(tiles, later, variant):
        return None
    rates = InstructionCost(variant, memory)
    first, second = (
        rates.by_unit(item for tile in part for item in tile) for part in (tiles, later)
    )
    apart = max(first.values()) + max(second.values())
    # The most that can be gained, before where tiles can come is known.
    if max(first[unit] + second[unit] for unit in UNITS) + TILE_CYCLES * len(later) >= apart:
        return None
    found = behind(tiles, later, words, kept)
    head = (found.places[0] + 1) / len(tiles)
    if not found.reads or head > LATEST:
        return None
    tail = sum(place >= len(tiles) - 1 for place in found.places) / len(later)
    together = cycles_together(first, second, head, tail) + TILE_CYCLES * len(later)
    return list(spread(tiles, found)) if together < apart else None


def cycles_together(
    first: Mapping[str, Cycles], second: Mapping[str, Cycles], head: Cycles, tail: Cycles
) -> Cycles:
    """Estimated cycles of two layers, whose work is given by unit.

    The share `head` of the first one runs before the second begins, the share `tail` of the second
    one after the first has ended. In between, the busiest unit determines the cycles.
    """
    alone = [_most(layer[unit] for unit in UNITS) for layer in (first, second)]
    both = _most((1 - head) * first[unit] + (1 - tail) * second[unit] for unit in UNITS)
    return head * alone[0] + both + tail * alone[1]


def _most(values: Iterable[Cycles]) -> Cycles:
    first, *others = values
    for value in others:
        first = np.maximum(first, value)
    return first


def tiles_in_turns(items: Sequence[tuple[int, SegmentInstruction]]) -> dict[Instance, int]:
    """A half of the accumulators for each instance there: tiles alternate between the halves in the
    order of their products, whatever their layers, so that GEMM is in the half that the ALU is not.
    """
    # The tile of each instruction, of the layer that it belongs to.
    tiles = [
        (number for number, tile in enumerate(tiles_of(layer)) for _ in tile)
        for layer in ([item for which, item in items if which == layer] for layer in (0, 1))
    ]
    owners: dict[Instance, tuple[int, int]] = {}
    order: dict[tuple[int, int], int] = {}
    for which, item in items:
        tile = which, next(tiles[which])
        for access in item.rows:
            if access.instance.memory is Memory.ACC:
                owners.setdefault(access.instance, tile)
        if item.unit is Unit.GEMM:
            order.setdefault(tile, len(order))
    return {instance: order.get(tile, 0) % 2 for instance, tile in owners.items()}


def _two_of_each_fit(tiles: Sequence[Tile], later: Sequence[Tile], variant: Variant) -> bool:
    most = _most_rows(tiles) + _most_rows(later)
    return all(2 * rows <= scratchpad(variant, memory).depth_rows for memory, rows in most.items())


def _most_rows(tiles: Sequence[Tile]) -> Counter[Memory]:
    """Of the instances in each scratchpad of tiles, those of the largest."""
    instances = {access.instance for tile in tiles for item in tile for access in item.rows}
    most: Counter[Memory] = Counter()
    for instance in instances:
        if instance.memory in _OF_TILES:
            most[instance.memory] = max(most[instance.memory], instance.rows)
    return most
