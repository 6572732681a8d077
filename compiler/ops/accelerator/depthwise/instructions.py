"""`DepthwiseInstructions`: bounds of the instructions of a depthwise convolution's schedules.

As `daedal.compiler.ops.accelerator.conv.instructions`, along the loops of
`daedal.compiler.ops.accelerator.depthwise.depthwise`.
"""

from itertools import product

import numpy as np

from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseShape
from daedal.compiler.ops.accelerator.tiles.fold_limits import FoldLimits
from daedal.compiler.ops.accelerator.tiles.padding_runs import PaddingRuns, sizes
from daedal.compiler.ops.accelerator.tiles.tile_space import ceil_div
from daedal.compiler.ops.space import Column, Table
from daedal.isa.table import Opcode, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["DepthwiseInstructions"]

_TABLES = 2
"""Lookup tables of a layer, at most; each is loaded once."""


class DepthwiseInstructions:
    """Bounds for one layer."""

    def __init__(self, shape: DepthwiseShape, variant: Variant) -> None:
        self._shape = shape
        self._max_pad = (1 << instruction_layout(variant, Opcode.LOAD)["pad_top"].width) - 1
        self._gemm, self._alu = (FoldLimits(variant, unit) for unit in (Opcode.GEMM, Opcode.ALU))
        self._rows, self._columns = (PaddingRuns(axis) for axis in shape.axes)

    def bounds(self, tiles: Table) -> tuple[Column, Column]:
        """The least and the most instructions of each schedule."""
        shape, tail = self._shape, self._shape.tail
        blocks, height, width = tiles["blocks"], tiles["height"], tiles["width"]
        outs = ceil_div(shape.blocks, blocks)
        maps = ceil_div(shape.height, height) * ceil_div(shape.width, width)
        count = shape.batches * maps * outs
        groups = ceil_div(outs, tiles["groups"])
        constants = groups * (2 + tail.requantizes)
        inputs, most_inputs = self._inputs(tiles)
        stored = self._stored(tiles)
        operation = self._alu.most((blocks, height, width))
        skips = tail.rows * (stored + shape.batches * maps * shape.blocks * height)
        least = constants + inputs + stored + count * (2 + tail.operations)
        most = (
            constants
            + most_inputs
            + stored
            + shape.batches * outs * self._products(tiles)
            + count * operation * (1 + tail.requantizes + tail.operations)
            + skips
            + _TABLES
        )
        return least, most

    def _products(self, tiles: Table) -> Column:
        """Most products of the tiles of one map."""
        shape = self._shape
        height, width = tiles["height"], tiles["width"]
        maps = ceil_div(shape.height, height) * ceil_div(shape.width, width)
        _, rows = self._rows.begins(height, np.full_like(height, shape.window[0]))
        _, columns = self._columns.begins(width, np.full_like(width, shape.window[1]))
        if shape.taps > 1:
            # Tiles at the border may have a piece more: adjacent taps are one product.
            columns = 2 * columns - ceil_div(shape.width, width)
        pieces = np.where(tiles["keep_padding"] > 0, maps, rows * columns)
        outputs = (tiles["blocks"], height, width)
        sums = (shape.window[0], shape.window[1] // shape.taps)
        return np.asarray(pieces * self._gemm.most(outputs, sums))

    def _inputs(self, tiles: Table) -> tuple[Column, Column]:
        """LOADs of the maps: one for each tile, or for its rows where they are not dense."""
        shape = self._shape
        blocks, height, width = tiles["blocks"], tiles["height"], tiles["width"]
        rows = self._rows.loads(height, np.full_like(height, shape.window[0]))
        columns = self._columns.loads(width, np.full_like(width, shape.window[1]))
        outs = ceil_div(shape.blocks, blocks)
        found = columns.cut * rows.elements * shape.blocks + columns.whole * (
            rows.cut * shape.blocks + rows.whole * outs
        )
        high, wide = shape.input_size(height, width)
        more = blocks * high * wide // self._max_pad
        fills = np.where(rows.outside + columns.outside > 0, found, 0)
        fills = np.minimum(fills, shape.blocks * rows.only_padding(columns, high))
        most = found + more * fills
        if max(self._rows.past, self._columns.past) > self._max_pad:
            most = columns.elements * rows.elements * shape.blocks
        return shape.batches * found, shape.batches * most

    def _stored(self, tiles: Table) -> Column:
        """STOREs: one for each tile, or for its rows where they are not dense."""
        shape = self._shape
        found: Column = np.zeros_like(tiles["blocks"])
        for (height, num_rows), (width, num_columns), (blocks, num_blocks) in product(
            sizes(shape.height, tiles["height"]),
            sizes(shape.width, tiles["width"]),
            sizes(shape.blocks, tiles["blocks"]),
        ):
            pieces = np.where(
                width < tiles["width"],
                blocks * height,
                np.where(height < tiles["height"], blocks, 1),
            )
            found = found + shape.batches * num_rows * num_columns * num_blocks * pieces
        return found
