"""Chooses a convolution's tile: the one that fits with the fewest estimated cycles.

Input: the shape of a convolution and a variant. Output: `ConvTile`, which
`daedal.compiler.ops.accelerator.conv.conv2d` turns into a schedule.
"""

import itertools
from collections.abc import Iterator
from functools import lru_cache

from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.conv.cost import ConvCost, ConvTile
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["choose_tile", "ranked_tiles"]

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
    pads = scratchpads(variant)
    need = shape.input_rows(1, 1) * pads[Memory.INP].row_bytes
    raise ScheduleError(
        f"a convolution's window must fit scratchpad 'inp' ({variant.memory.inp_bytes} bytes) and "
        f"its weights 'wgt'; one window of {shape.kernel[0]}x{shape.kernel[1]} takes {need} bytes; "
        "use a variant with larger scratchpads"
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
    inputs = shape.input_rows(tile.height, tile.width)
    if tile.keep_inputs:
        inputs *= shape.in_blocks * (copies if counts.maps * counts.groups > 1 else 1)
    else:
        inputs *= tile.in_blocks * copies
    if tile.group:
        weights = tile.group * shape.in_blocks * (copies if counts.weights > 1 else 1)
    else:
        weights = tile.out_blocks * tile.in_blocks * copies
    return inputs <= capacity.inp and weights * shape.weight_rows <= capacity.wgt


class _Counts:
    """How often each level of a tile is executed."""

    def __init__(self, shape: ConvShape, tile: ConvTile) -> None:
        self.maps = -(-shape.height // tile.height) * -(-shape.width // tile.width) * shape.batches
        self.groups = -(-shape.out_blocks // tile.group) if tile.group else 1
        self.weights = self.groups * (shape.batches if shape.groups > 1 else 1)
        self.outs = -(-shape.out_blocks // tile.out_blocks)
        self.steps = -(-shape.in_blocks // tile.in_blocks)
