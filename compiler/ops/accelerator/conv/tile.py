"""Chooses a convolution's tile: the one that fits with the fewest estimated cycles.

Input: the shape of a convolution and a variant. Output: `ConvTile`, which
`daedal.compiler.ops.accelerator.conv.conv2d` turns into a schedule.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.conv.cost import ConvCost, ConvTile
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.conv2d import Gather
from daedal.isa.errors import ScheduleError
from daedal.isa.variant import Variant

__all__ = ["choose_gather", "choose_tile", "ranked_tiles"]

NEARLY = 0.003
"""Estimates that differ by less than this share count as equal."""


@lru_cache(maxsize=1024)
def choose_tile(shape: ConvShape, variant: Variant) -> ConvTile:
    """Of the tiles that cost nearly the least, the one with the fewest instructions.

    Raises
    ------
    ScheduleError
        Not even the smallest tile fits.
    """
    cost = ConvCost(shape, variant, overlap=True)
    tiles = ranked_tiles(shape, variant)
    limit = cost.cycles(tiles[0]) * (1 + NEARLY)
    best = itertools.takewhile(lambda tile: cost.cycles(tile) <= limit, tiles)
    return min(best, key=cost.instructions)


def choose_gather(shape: ConvShape, variant: Variant) -> Gather:
    """What of the map is best copied on chip, whatever `shape` has.

    Raises
    ------
    ScheduleError
        Not even the smallest tile fits.
    """
    candidates = [replace(shape, gather=gather) for gather in _gathers(shape)]
    if len(candidates) == 1:
        return candidates[0].gather
    costs = [
        ConvCost(candidate, variant, overlap=True).cycles(choose_tile(candidate, variant))
        for candidate in candidates
    ]
    return candidates[costs.index(min(costs))].gather


def _gathers(shape: ConvShape) -> list[Gather]:
    """Those that may be useful."""
    kernel, stride = shape.kernel[0], shape.strides[0]
    if kernel == 1:
        return [Gather.ROWS if stride > 1 else Gather.NOTHING]
    # Windows of several rows share them, unless rows are skipped in a window or between windows.
    apart = shape.dilations[0] > 1 or stride >= kernel
    return [Gather.NOTHING, *([Gather.ROWS] if apart else [])]


def ranked_tiles(shape: ConvShape, variant: Variant, *, overlap: bool = True) -> list[ConvTile]:
    """Every tile that fits, the one with the fewest estimated cycles first.

    With `overlap`, a tile leaves space to load the next one meanwhile, unless no tile does. Without
    it, units work one after the other, and a tile may take whole scratchpads.

    Raises
    ------
    ScheduleError
        Not even the smallest tile fits.
    """
    capacity = Capacity(variant, 1)
    tiles = list(_fitting(shape, capacity, 2)) if overlap else []
    tiles = tiles or list(_fitting(shape, capacity, 1))
    if tiles:
        cost = ConvCost(shape, variant, overlap)
        return sorted(tiles, key=cost.cycles)
    memory = variant.memory
    raise ScheduleError(
        f"an output vector of a convolution must fit scratchpads 'acc' ({memory.acc_bytes} bytes) "
        f"and 'out' ({memory.out_bytes} bytes), and its {shape.classes * shape.out_parts} "
        f"parameter rows 'par' ({memory.par_bytes} bytes); use a variant with larger scratchpads"
    )


def _fitting(shape: ConvShape, capacity: Capacity, copies: int) -> Iterator[ConvTile]:
    maps = [(height, shape.width) for height in tile_sizes(shape.height)]
    maps += [(1, width) for width in tile_sizes(shape.width)[1:]]
    for height, width in maps:
        for out_blocks in tile_sizes(shape.out_blocks):
            rows = out_blocks * shape.out_parts * height * width * copies
            if rows > min(capacity.acc // shape.accumulators, capacity.out):
                continue
            params = out_blocks * shape.out_parts * shape.classes + shape.tail.requantizes
            if params * copies > capacity.par:
                continue
            residents = list(_residents(shape, height, width, out_blocks))
            for in_blocks in tile_sizes(shape.in_blocks):
                for group, keep_inputs in residents:
                    tile = ConvTile(height, width, out_blocks, in_blocks, group, keep_inputs)
                    if _fits(shape, tile, capacity, copies):
                        yield tile
                    elif in_blocks == 1 and not keep_inputs:
                        yield from _parts_of_windows(shape, tile, capacity, copies)


def _parts_of_windows(
    shape: ConvShape, tile: ConvTile, capacity: Capacity, copies: int
) -> Iterator[ConvTile]:
    """Those that fit of `tile` with steps over some rows of the window, or over parts of one."""
    rows, columns = shape.kernel
    steps = [(count, columns) for count in tile_sizes(rows)[1:]]
    for taps in (*steps, *((1, count) for count in tile_sizes(columns)[1:])):
        part = replace(tile, taps=taps)
        if _fits(shape, part, capacity, copies):
            yield part
            if taps[0] == 1:
                return


def _residents(
    shape: ConvShape, height: int, width: int, out_blocks: int
) -> Iterator[tuple[int, bool]]:
    """Useful pairs of `group` and `keep_inputs`: operands used only once are streamed instead."""
    maps = -(-shape.height // height) * -(-shape.width // width) * shape.batches
    steps = -(-shape.out_blocks // out_blocks)
    groups = [out_blocks * size for size in tile_sizes(steps)] if maps > 1 else []
    for group in (0, *groups):
        yield group, False
        if (group or shape.out_blocks) > out_blocks:
            yield group, True


def _fits(shape: ConvShape, tile: ConvTile, capacity: Capacity, copies: int) -> bool:
    """Whether everything live at once fits, double-buffered if there is a next tile."""
    counts = _Counts(shape, tile)
    inputs = shape.input_rows(tile.height, tile.width, tile.taps)
    if tile.keep_inputs:
        inputs *= shape.in_blocks * (copies if counts.maps * counts.groups > 1 else 1)
    else:
        inputs *= tile.in_blocks * copies
    if tile.group:
        weights = tile.group * shape.in_blocks * (copies if counts.weights > 1 else 1)
        weights *= shape.weight_rows()
    else:
        weights = tile.out_blocks * tile.in_blocks * copies * shape.weight_rows(tile.taps)
    return inputs <= capacity.inp and weights <= capacity.wgt


class _Counts:
    """How often each level of a tile is executed."""

    def __init__(self, shape: ConvShape, tile: ConvTile) -> None:
        self.maps = -(-shape.height // tile.height) * -(-shape.width // tile.width) * shape.batches
        self.groups = -(-shape.out_blocks // tile.group) if tile.group else 1
        self.weights = self.groups * (shape.batches if shape.groups > 1 else 1)
        self.outs = -(-shape.out_blocks // tile.out_blocks)
        self.steps = -(-shape.in_blocks // tile.in_blocks)
