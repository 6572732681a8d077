"""`DepthwiseBound`: what a depthwise convolution's tiles make each unit do at least.

Input: shape, variant, and tiles as columns, one for each field of `DepthwiseTile`. Output: their
`Work`.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseShape
from daedal.compiler.ops.accelerator.tiles.tile_space import ceil_div, last_size
from daedal.compiler.ops.accelerator.tiles.window_axis import WindowAxis, by_pair
from daedal.compiler.ops.lower_bound import Work
from daedal.compiler.ops.space import Column, Table
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import LoadMemory
from daedal.isa.transfer import memory_beats
from daedal.isa.variant import Variant

__all__ = ["DepthwiseBound"]

_INSTRUCTIONS = 4
"""Of a tile, at least: LOAD, GEMM, ALU, STORE."""


class DepthwiseBound:
    """The least work of the tiles of one depthwise convolution."""

    def __init__(self, shape: DepthwiseShape, variant: Variant) -> None:
        pads = scratchpads(variant)
        self._shape = shape
        self._block_out = variant.array.block_out
        self._inp, self._wgt, self._out, self._par = (
            pads[memory].row_bytes for memory in (Memory.INP, Memory.WGT, Memory.OUT, Memory.PAR)
        )
        if shape.narrow_weights:
            self._wgt = memory_beats(variant, LoadMemory.WGT_NARROW) * variant.bus_bytes
        self._out *= shape.tail.stored
        self._vector_cycles = shape.tail.vector_cycles(machine_cost(variant))
        # Products with padding, computed and left out.
        self._axes = [
            [replace(axis, skips=skips) for axis in shape.axes]
            for skips in (False, shape.skips_padding)
        ]

    def work(self, tiles: Table) -> Work:
        """The least work of each schedule."""
        shape = self._shape
        height, width, blocks = tiles["height"], tiles["width"], tiles["blocks"]
        skips = tiles["keep_padding"] == 0
        maps = ceil_div(shape.height, height) * ceil_div(shape.width, width) * shape.batches
        vectors = shape.batches * shape.blocks * shape.height * shape.width
        (rows, columns), _ = self._axes
        loaded = by_pair(rows.loaded, height, np.full_like(height, shape.window[0]))
        loaded = loaded * by_pair(columns.loaded, width, np.full_like(width, shape.window[1]))
        first = by_pair(rows.first, height, np.full_like(height, shape.window[0]))
        first = first * by_pair(columns.first, width, np.full_like(width, shape.window[1]))
        every = np.array([shape.blocks])
        constants = shape.weight_rows(every, self._block_out) * self._wgt + every * self._par
        last = last_size(shape.height, height) * last_size(shape.width, width)
        last = last * last_size(shape.blocks, blocks)
        whole = np.full_like(height, shape.height), np.full_like(width, shape.width)
        return Work.of(
            len(height),
            products=shape.batches * shape.blocks * self._products(*whole, skips),
            vectors=vectors * self._vector_cycles,
            read=shape.batches * shape.blocks * loaded * self._inp
            + constants
            + vectors * shape.tail.loaded * self._inp,
            written=vectors * self._out,
            instructions=maps * ceil_div(shape.blocks, blocks) * _INSTRUCTIONS,
            first_read=blocks * first * self._inp
            + shape.weight_rows(blocks, self._block_out) * self._wgt,
            first_products=blocks * self._products(height, width, skips),
            last_vectors=last * self._vector_cycles,
            last_written=last * self._out,
        )

    def _products(self, height: Column, width: Column, skips: Column) -> Column:
        """GEMM's cycles for one block of channels of the first tile."""

        def counts(axes: Sequence[WindowAxis]) -> Column:
            rows, columns = axes
            return by_pair(lambda h, w: rows.pairs(h) * columns.pairs(w, taps), height, width)

        taps = self._shape.taps
        computed, left_out = (counts(axes) for axes in self._axes)
        products: Column = np.where(skips, left_out, computed)
        return products
