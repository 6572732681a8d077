"""`ConvBound`: what a convolution's tiles make each unit do at least.

Input: shape, variant, and tiles as columns, one for each field of `ConvTile`. Output: their `Work`.
Rows are counted tile by tile where tiles reach into the padding, so that nothing is rounded up.
"""

from math import prod

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, ceil_div, last_size
from daedal.compiler.ops.accelerator.tiles.window_axis import by_pair
from daedal.compiler.ops.lower_bound import Work
from daedal.compiler.ops.space import Column, Table
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import LoadMemory
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant

__all__ = ["ConvBound"]


class ConvBound:
    """The least work of the tiles of one convolution; columns as those of `ConvCost`."""

    def __init__(self, shape: ConvShape, variant: Variant) -> None:
        pads = scratchpads(variant)
        self._shape = shape
        depth = pads[Memory.WGT].depth_rows
        self._inp, self._wgt, self._out, self._par = (
            pads[memory].row_bytes for memory in (Memory.INP, Memory.WGT, Memory.OUT, Memory.PAR)
        )
        if shape.narrow_weights:
            self._wgt = memory_beats(variant, LoadMemory.WGT_NARROW) * variant.bus_bytes
        self._most_kept = depth * self._wgt
        self._out *= shape.tail.stored
        self._vector_cycles = shape.tail.vector_cycles(machine_cost(variant))
        self._rows, self._columns = shape.axes

    def work(self, tiles: Table) -> Work:
        """The least work of each schedule."""
        shape = self._shape
        height, width, out_blocks = tiles["height"], tiles["width"], tiles["out_blocks"]
        maps = ceil_div(shape.height, height) * ceil_div(shape.width, width) * shape.batches
        keeps = tiles["group"] > 0
        turns = ceil_div(shape.out_blocks, out_blocks)
        groups = np.where(keeps, ceil_div(shape.out_blocks, np.maximum(tiles["group"], 1)), 1)
        pairs = shape.out_blocks * shape.in_blocks * shape.in_parts * shape.out_parts * self._wgt
        kept = prod(shape.kernel) * (shape.batches if shape.groups > 1 else 1)
        used = by_pair(self._rows.used, height, tiles["tap_rows"])
        used = used * by_pair(self._columns.used, width, tiles["tap_columns"]) * shape.batches
        vectors = shape.out_blocks * shape.out_parts * shape.height * shape.width * shape.batches
        params = shape.out_blocks * shape.out_parts * shape.classes * self._par
        inputs = np.where(tiles["keep_inputs"] > 0, groups, turns) * (
            shape.batches * shape.in_blocks * shape.in_parts * self._inp
        )
        rows = by_pair(self._rows.loaded, height, tiles["tap_rows"])
        columns = by_pair(self._columns.loaded, width, tiles["tap_columns"])
        read = (
            inputs * rows * columns
            + self._weights(pairs * np.where(keeps, kept, used), maps)
            + params
            + vectors * shape.tail.loaded * self._inp
        )
        last = last_size(shape.height, height) * last_size(shape.width, width)
        last = last * last_size(shape.out_blocks, out_blocks) * shape.out_parts
        # A step has a product, a tile a requantization and a store. Where both operands stay on
        # chip, no load comes between the steps, and one instruction does all of them.
        joins = (tiles["keep_inputs"] > 0) & keeps
        steps = np.where(joins, 1, ceil_div(shape.in_blocks, tiles["in_blocks"]))
        instructions = maps * turns * (steps + 2)
        # A first step of a part of the window may be left out.
        whole = (tiles["tap_rows"] == shape.kernel[0]) & (tiles["tap_columns"] == shape.kernel[1])
        first = tiles["in_blocks"] * (
            by_pair(self._rows.first, height, tiles["tap_rows"])
            * by_pair(self._columns.first, width, tiles["tap_columns"])
            * (shape.in_parts * self._inp)
            + out_blocks * (shape.weight_rows() * self._wgt)
        )
        needed = self._rows.pairs(shape.height) * self._columns.pairs(shape.width)
        per_tap = shape.in_blocks * shape.in_parts * shape.out_parts
        first_pairs = by_pair(self._first_pairs, height, width)
        return Work.of(
            len(height),
            products=shape.batches * shape.out_blocks * per_tap * needed,
            vectors=vectors * self._vector_cycles,
            read=read,
            written=vectors * self._out,
            instructions=instructions,
            first_read=np.where(whole, first, 0),
            first_products=out_blocks * per_tap * first_pairs,
            last_vectors=last * self._vector_cycles,
            last_written=last * self._out,
        )

    def _weights(self, scheduled: Column, maps: Column) -> Floats:
        """Bytes of weights that are loaded at least: rows that tiles load again may stay in WGT
        (`daedal.compiler.link.on_chip.kept_constants`), as many as it has."""
        times = maps // self._shape.groups
        kept = (times - 1) * self._most_kept
        least: Floats = np.maximum(scheduled / times, scheduled - kept)
        return least

    def _first_pairs(self, height: int, width: int) -> int:
        """Pairs of an output of the first tile and a tap of its window that are computed."""
        return self._rows.pairs(height) * self._columns.pairs(width)
