"""`ConvInstructions`: between which numbers the instructions of a convolution's schedules lie.

Input: shape, variant, and tiles as columns, one for each field of `ConvTile`. Output: bounds of the
number that `daedal.compiler.codegen.accelerator.emit_segment` makes. They follow the loops of
`daedal.compiler.ops.accelerator.conv.conv2d`: each execution of a copy, product or operation is
counted. How many instructions it is split into is counted exactly, or bounded where that depends on
more than a tile's sizes.
"""

from itertools import product

import numpy as np

from daedal.compiler.graph.window_extents import window_span
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.tiles.fold_limits import FoldLimits
from daedal.compiler.ops.accelerator.tiles.padding_runs import Loads, PaddingRuns, sizes
from daedal.compiler.ops.accelerator.tiles.tile_space import ceil_div
from daedal.compiler.ops.space import Column, Table
from daedal.isa.table import Opcode, instruction_layout
from daedal.isa.variant import Variant

__all__ = ["ConvInstructions"]

_TABLES = 2
"""Lookup tables of a layer, at most; each is loaded once."""

Bounds = tuple[Column, Column]
"""The least and the most."""


class ConvInstructions:
    """Bounds for one convolution.

    Parameters
    ----------
    strided : whether the result's pixels may lie apart in memory.
    """

    def __init__(self, shape: ConvShape, variant: Variant, *, strided: bool = False) -> None:
        self._shape = shape
        self._strided = strided
        self._max_pad = (1 << instruction_layout(variant, Opcode.LOAD)["pad_top"].width) - 1
        self._gemm, self._alu = (FoldLimits(variant, unit) for unit in (Opcode.GEMM, Opcode.ALU))
        self._rows, self._columns = (PaddingRuns(axis) for axis in shape.axes)

    def bounds(self, tiles: Table) -> Bounds:
        """The least and the most instructions of each schedule."""
        shape, loops = self._shape, _Loops(self._shape, tiles)
        parts = [
            self._products(loops),
            self._inputs(loops),
            self._weights(loops),
            self._results(loops),
        ]
        # The same for every tile: parameters, one operation for each stage, the tail's own loads.
        count = loops.maps * loops.outs
        stages = shape.tail.requantizes + shape.tail.operations
        params = 1 + shape.tail.requantizes
        pixels = tiles["height"] * tiles["width"]
        vectors = tiles["out_blocks"] * shape.out_parts
        operation = self._alu.most(
            (tiles["out_blocks"], tiles["height"], tiles["width"], shape.out_parts)
        )
        requantize = operation
        if shape.classes > 1:
            # Pixels of one class lie side by side in a row.
            requantize = vectors * np.minimum(pixels, tiles["height"] * shape.classes)
        skips = shape.tail.rows
        least = count * (2 + shape.tail.instructions)
        # Parameters that all channels share are loaded for tiles past the last block, too.
        most = (
            loops.maps * loops.padded_outs * params
            + count * (requantize + stages * operation + skips * vectors * tiles["height"])
            + _TABLES
            + skips * vectors
        )
        return (
            np.sum([least, *(low for low, _ in parts)], axis=0),
            np.sum([most, *(high for _, high in parts)], axis=0),
        )

    def _products(self, loops: "_Loops") -> Bounds:
        """A product for each step of a tile; one for all of equal steps between which nothing is
        loaded. Each is cut at the padding, and where it has too many micro-ops."""
        shape, tiles = self._shape, loops.tiles
        height, width = tiles["height"], tiles["width"]
        taps = tiles["tap_rows"], tiles["tap_columns"]
        rows, columns = self._rows.all(height, taps[0]), self._columns.all(width, taps[1])
        first = self._rows.first(height, taps[0]) * self._columns.first(width, taps[1])
        (least_begin, begin), (least_side, side) = (
            self._rows.begins(height, taps[0]),
            self._columns.begins(width, taps[1]),
        )
        steps = np.where(loops.joined, 1, loops.channel_steps)
        others = steps * rows * columns - first
        least, most = others + least_begin * least_side, others + begin * side
        outputs = (tiles["out_blocks"], height, width, shape.out_parts)
        # The steps of a joined product are one more loop.
        channels = np.where(loops.joined, shape.in_blocks, tiles["in_blocks"])
        folded = self._gemm.most(
            outputs,
            (ceil_div(channels, tiles["in_blocks"]), tiles["in_blocks"], *taps, shape.in_parts),
        )
        count = shape.batches * loops.outs
        return count * least, count * most * folded

    def _inputs(self, loops: "_Loops") -> Bounds:
        """A LOAD for each step of a tile, or if they stay on chip, for each step of a map's tile.
        Where rows are gathered, windows of several rows take one for each output row."""
        shape, tiles = self._shape, loops.tiles
        height, taps = tiles["height"], (tiles["tap_rows"], tiles["tap_columns"])
        columns = self._columns.loads(tiles["width"], taps[1])
        rows = self._rows.loads(height, taps[0])
        between = np.ones_like(height, dtype=np.bool_)
        if shape.gathers_rows:
            several = taps[0] > 1
            parts = ceil_div(shape.kernel[0], taps[0])
            rest = shape.kernel[0] % taps[0]
            cut = several & (rest > 0)
            rows = Loads(
                np.where(several, shape.height * (parts - cut), parts * (shape.height // height)),
                np.where(several, shape.height * cut, parts * (shape.height % height > 0)),
                np.where(several, shape.height * shape.kernel[0], parts * shape.height),
                rows.outside,
            )
            # The rows of a window of one output are not adjacent to those of the next block.
            between = ~several | (height == 1)
        steps, blocks = loops.channel_steps, shape.in_blocks
        least = columns.cut * rows.elements * blocks + columns.whole * (
            rows.cut * blocks + rows.whole * np.where(between, steps, blocks)
        )
        reach = shape.input_rows(height, tiles["width"], taps) * tiles["in_blocks"]
        if shape.in_parts > 1:
            every = columns.elements * rows.elements * blocks * shape.in_parts
            counts = (columns.cut + columns.whole) * (rows.cut + rows.whole) * steps
            least, most = counts, every
        elif max(self._rows.past, self._columns.past) > self._max_pad:
            most = columns.elements * rows.elements * blocks
        else:
            # What is only padding is filled with pads of bounded length.
            more = reach // self._max_pad
            fills = np.where(rows.outside + columns.outside > 0, least, 0)
            if not shape.gathers_rows:
                held = window_span(height, taps[0], shape.strides[0], shape.dilations[0])
                fills = np.minimum(fills, blocks * rows.only_padding(columns, held))
            most = least + more * fills
        # Inputs are loaded for tiles of blocks past the last one, too.
        reloads = np.where(tiles["keep_inputs"] > 0, loops.groups, loops.padded_outs)
        return shape.batches * reloads * least, shape.batches * reloads * most

    def _weights(self, loops: "_Loops") -> Bounds:
        """Weights that stay are loaded for each output block and step, others for each step of a
        tile: then the last part of a window, or of the channels, is not dense on chip."""
        shape, tiles = self._shape, loops.tiles
        kept = shape.out_blocks * shape.out_parts * shape.weight_sets * loops.channel_steps
        streamed: Column = np.zeros_like(kept)
        for blocks, num_blocks in sizes(shape.out_blocks, tiles["out_blocks"]):
            vectors = blocks * shape.out_parts
            for (rows, num_rows), (columns, num_columns) in product(
                sizes(shape.kernel[0], tiles["tap_rows"]),
                sizes(shape.kernel[1], tiles["tap_columns"]),
            ):
                pieces = np.where(
                    columns < tiles["tap_columns"],
                    vectors * rows,
                    np.where(rows < tiles["tap_rows"], vectors, 1),
                )
                last = np.where(loops.last_channels_differ, vectors, pieces)
                pieces = (loops.channel_steps - 1) * pieces + last
                streamed = streamed + num_blocks * num_rows * num_columns * pieces
        found = np.where(tiles["group"] > 0, kept, loops.maps * streamed)
        return found, found

    def _results(self, loops: "_Loops") -> Bounds:
        """A STORE for each tile; one for each of its blocks where the last pixels of a row or map
        are not dense on chip."""
        shape, tiles = self._shape, loops.tiles
        count = loops.maps * loops.outs
        found: Column = np.zeros_like(count)
        most: Column = np.zeros_like(count)
        for (height, num_rows), (width, num_columns), (blocks, num_blocks) in product(
            sizes(shape.height, tiles["height"]),
            sizes(shape.width, tiles["width"]),
            sizes(shape.out_blocks, tiles["out_blocks"]),
        ):
            dense = (height == tiles["height"]) & (width == tiles["width"])
            times = shape.batches * num_rows * num_columns * num_blocks
            found = found + times * np.where(dense, 1, blocks)
            most = most + times * blocks * height
        return (count, most) if self._strided else (found, found)


class _Loops:
    """How often the loops around a tile's copies and products run.

    Attributes
    ----------
    maps : tiles of the maps.
    outs : tiles of the output blocks; `padded_outs` includes those past the last block.
    groups : tiles whose weights stay in turn, past the last block, too; 1 if weights are streamed.
    channel_steps : steps of the reduction over input blocks.
    joined : whether a tile has one product for all steps.
    """

    def __init__(self, shape: ConvShape, tiles: Table) -> None:
        self.tiles = tiles
        blocks, group = tiles["out_blocks"], tiles["group"]
        threads = tiles.get("threads", np.ones_like(blocks))
        self.maps = shape.batches * (
            ceil_div(shape.height, tiles["height"]) * ceil_div(shape.width, tiles["width"])
        )
        self.outs = ceil_div(shape.out_blocks, blocks)
        turns = np.maximum(group // (blocks * threads), 1)
        outer = ceil_div(shape.out_blocks, turns * threads * blocks)
        self.padded_outs = outer * turns * threads
        self.groups = np.where(group > 0, outer, 1)
        self.channel_steps = ceil_div(shape.in_blocks, tiles["in_blocks"])
        self.last_channels_differ = shape.in_blocks % tiles["in_blocks"] > 0
        self.joined = (tiles["keep_inputs"] > 0) & (group > 0) & ~self.last_channels_differ
