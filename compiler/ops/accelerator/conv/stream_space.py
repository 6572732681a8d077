"""`StreamSpace`: the schedules of a convolution over streams on a variant.

The knobs are blocks of output channels, rows, and columns of a tile: all columns, or a multiple of
the period.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR, MemoryCost
from daedal.compiler.ops.accelerator.conv.stream_shape import StreamShape
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.tiles.fold_limits import FoldLimits
from daedal.compiler.ops.accelerator.tiles.tile_space import (
    Floats,
    Mask,
    TileSpace,
    ceil_div,
    chosen,
    whole_rows_first,
)
from daedal.compiler.ops.accelerator.wide_results import result_rows
from daedal.compiler.ops.space import Column, Config, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import Opcode, instruction_bytes
from daedal.isa.variant import Variant

__all__ = ["StreamSpace"]

NEARLY = 0.005
"""Estimates that differ by less than this share count as equal."""

TILE_CYCLES = 16
"""What a tile costs beyond its work, about: tokens, latencies that do not overlap."""


class StreamSpace(TileSpace):
    """All tiles of a convolution over streams that fit the scratchpads."""

    def __init__(self, shape: StreamShape, variant: Variant) -> None:
        super().__init__(variant)
        self._shape = shape
        pads = scratchpads(variant)
        self._inp, self._wgt, self._out = (
            pads[memory].row_beats(variant) for memory in (Memory.INP, Memory.WGT, Memory.OUT)
        )
        self._out *= shape.tail.stored

    def on(self, variant: Variant) -> "StreamSpace":
        return StreamSpace(self._shape, variant)

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        shape = self._shape
        rows, columns = shape.window.extent
        parts = tile_sizes(-(-columns // shape.period))[1:]
        return {
            "out_blocks": tile_sizes(shape.out_blocks),
            "height": tile_sizes(rows),
            "width": [columns, *(count * shape.period for count in parts)],
        }

    def holds(self, table: Table, share: int) -> Mask:
        shape, capacity = self._shape, Capacity(self.variant, share)
        height, width = table["height"], table["width"]
        vectors = table["out_blocks"] * shape.out_parts
        results = result_rows(capacity, shape.tail.stored)
        most = np.minimum(capacity.acc // (1 + shape.tail.rows), results)
        held: Mask = vectors + shape.tail.requantizes <= capacity.par
        held &= vectors * shape.weight_rows <= capacity.wgt
        held &= vectors * height * width <= most
        held &= shape.input_rows(height, width) <= capacity.inp
        return held

    def usual(self, table: Table) -> Table:
        """Whole rows, or parts of one row."""
        columns = self._shape.window.extent[1]
        whole = (table["width"] == columns) | (table["height"] == 1)
        return whole_rows_first(chosen(table, whole), columns, "out_blocks")

    def default_with(self, memory: MemoryModel) -> Config:
        """As `TileSpace.default_with`. With a memory whose words take longer than a cycle, of all
        tiles that take nearly the fewest cycles the one that moves the fewest words: the layer
        behind, which may run at the same time, needs them, too."""
        table = self.all()
        if not (MemoryCost.of(memory).slows_words and len(table["height"])):
            return super().default_with(memory)
        cycles = self.cycles_with(table, memory)
        close = cycles <= (1 + NEARLY) * cycles.min()
        return self.row(table, int(np.lexsort((cycles, self._beats(table), ~close))[0]))

    def cycles(self, table: Table) -> Floats:
        return self.cycles_with(table, DDR)

    def cycles_with(self, table: Table, memory: MemoryModel) -> Floats:
        """Cycles of the busier of multipliers and bus, plus what does not overlap.

        Not overlapped are the input of a tile before the first product, and its requantization and
        store after the last one.
        """
        machine = machine_cost(self.variant, memory)
        words, finish = machine.word_cycles, self._shape.tail.vector_cycles(machine)
        tile_input = self._tile_input(table) * words
        last = self._tile_vectors(table) * (finish + self._out * words)
        units = (
            self._products + tile_input,
            self._beats(table) * words,
            np.full_like(last, self._vectors * finish),
        )
        cycles = np.max(units, axis=0) + last + TILE_CYCLES * self._tiles(table)
        return np.asarray(cycles, np.float64)

    def instructions(self, table: Table) -> tuple[Column, Column]:
        """A tile has a product, an operation and a STORE at least."""
        shape, tiles = self._shape, self._tiles(table)
        height, width = table["height"], table["width"]
        vectors = self._tile_vectors(table)
        outputs = (table["out_blocks"] * shape.out_parts, height, width)
        products = shape.period * FoldLimits(self.variant, Opcode.GEMM).most(
            outputs, (shape.groups, shape.vectors)
        )
        tail = 2 + shape.tail.requantizes + shape.tail.operations
        operations = tail * FoldLimits(self.variant, Opcode.ALU).most(outputs)
        # Whole rows of the stream, the result, and the tail's operands.
        groups = (height - 1) * shape.window.groups_down + shape.groups
        results = np.minimum(vectors, outputs[0] * height)
        copies = shape.planes * groups + (1 + shape.tail.rows) * results
        # Weights, by phase, and parameters are loaded for all tiles of their channels.
        channels = ceil_div(shape.out_blocks, table["out_blocks"])
        constants = channels * (shape.period * outputs[0] + 1 + shape.tail.requantizes)
        most = tiles * (products + operations + copies) + constants + 2
        return (3 * tiles)[np.newaxis], np.asarray(most, np.int64)[np.newaxis]

    def features(self, table: Table) -> dict[str, Floats]:
        """What a learned cost model sees: cycles of every unit, and sizes of a tile."""
        shape, every = self._shape, np.ones(len(table["height"]))
        vectors = self._tile_vectors(table)
        found = {
            "estimate": self.cycles(table),
            "product_cycles": every * self._products,
            "vector_cycles": every
            * self._vectors
            * shape.tail.vector_cycles(machine_cost(self.variant)),
            "beats": self._beats(table),
            "instructions": self._instructions(table),
            "tiles": self._tiles(table),
            "tile_products": vectors * (shape.row_products / shape.window.extent[1]),
            "accumulators": vectors * (1 + shape.tail.rows),
            "input_rows": shape.input_rows(table["height"], table["width"]),
            "weight_rows": table["out_blocks"] * (shape.out_parts * shape.weight_rows),
            **table,
        }
        return {name: np.asarray(column, dtype=np.float64) for name, column in found.items()}

    @property
    def _vectors(self) -> int:
        """Vectors of the result."""
        shape = self._shape
        rows, columns = shape.window.extent
        return shape.batches * rows * columns * shape.out_blocks * shape.out_parts

    @property
    def _products(self) -> int:
        columns = self._shape.window.extent[1]
        return self._vectors // columns * self._shape.row_products

    def _tiles(self, table: Table) -> Column:
        """Number of tiles."""
        shape = self._shape
        rows, columns = shape.window.extent
        maps = ceil_div(rows, table["height"]) * ceil_div(columns, table["width"])
        return ceil_div(shape.out_blocks, table["out_blocks"]) * shape.batches * maps

    def _tile_vectors(self, table: Table) -> Column:
        """Vectors of a tile of the result."""
        return table["out_blocks"] * self._shape.out_parts * table["height"] * table["width"]

    def _tile_input(self, table: Table) -> Column:
        """Bus words of a tile's input."""
        return self._shape.input_rows(table["height"], table["width"]) * self._inp

    def _instructions(self, table: Table) -> Column:
        """Instructions of all tiles; a tile has a product for each window in a period."""
        return self._tiles(table) * (min(self._shape.period, self._shape.window.extent[1]) + 3)

    def _beats(self, table: Table) -> Column:
        """Bus words of all tiles: maps, weights and instructions."""
        shape = self._shape
        weights = shape.out_blocks * shape.out_parts * shape.weight_rows * self._wgt
        moved = self._vectors * (self._out + shape.tail.loaded * self._inp)
        size = instruction_bytes(self.variant)
        instructions = self._instructions(table) * size // self.variant.bus_bytes
        return self._tiles(table) * self._tile_input(table) + (weights + moved) + instructions

    def misfit(self) -> str:
        shape, memory = self._shape, self.variant.memory
        rows = shape.input_rows(1, min(shape.period, shape.window.extent[1]))
        need = rows * scratchpads(self.variant)[Memory.INP].row_bytes
        return (
            f"the window of a convolution over a stream must fit scratchpad 'inp' "
            f"({memory.inp_bytes} bytes) and its weights 'wgt'; the smallest tile takes "
            f"{need} bytes and {shape.weight_rows} rows; use a variant with larger scratchpads"
        )
