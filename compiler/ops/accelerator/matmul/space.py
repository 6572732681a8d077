"""`MatmulSpace`: the schedules of a matrix product on a variant.

The knobs are blocks of the result's channels, and rows and columns of its map.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.tiles.site_limits import SiteLimits
from daedal.compiler.ops.accelerator.tiles.tile_space import (
    Floats,
    Mask,
    TileSpace,
    ceil_div,
    chosen,
    last_size,
    whole_rows_first,
)
from daedal.compiler.ops.accelerator.wide_results import narrow_vectors, result_rows
from daedal.compiler.ops.lower_bound import Work, least_cycles
from daedal.compiler.ops.space import Column, Table
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.variant import Variant

__all__ = ["MatmulSpace"]

TILE_CYCLES = 40
"""What a tile costs beyond its work, about: instructions, tokens, latencies that do not overlap."""


_INSTRUCTIONS = 4
"""Of a tile, at least: LOAD, GEMM, ALU, STORE."""


class MatmulSpace(TileSpace):
    """All tiles of the function of `daedal.compiler.ops.matmul` that fit the scratchpads."""

    _tile_cycles = TILE_CYCLES

    def __init__(self, func: PrimFunc, variant: Variant) -> None:
        super().__init__(variant)
        self._func = func
        pads = scratchpads(variant)
        self._inp, self._wgt, self._out, self._par = (
            pads[memory].row_beats(variant)
            for memory in (Memory.INP, Memory.WGT, Memory.OUT, Memory.PAR)
        )
        self._stored = narrow_vectors(func.outputs[0])
        self._out *= self._stored
        self._images, self._outer, *self._map, self._parts, batch, lanes = func.outputs[0].shape
        self._blocks = self._outer * self._parts
        self._depth = func.params[0].shape[1]
        self._others = func.params[1].shape[0]
        self._has_rows = any(x.name == "params" and x.shape[0] > 1 for x in func.inputs)
        self._result_cycles = batch * lanes // variant.units.requantize_lanes
        self._vector_cycles = 2 + self._result_cycles

    def on(self, variant: Variant) -> "MatmulSpace":
        return MatmulSpace(self._func, variant)

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        height, width = (tile_sizes(size) for size in self._map)
        return {"out_blocks": tile_sizes(self._outer), "height": height, "width": width}

    def holds(self, table: Table, share: int) -> Mask:
        capacity = Capacity(self.variant, share)
        blocks, pixels = self._rows(table), self._pixels(table)
        held: Mask = self._depth * blocks + 1 <= capacity.wgt
        held &= self._accumulators(table) <= capacity.acc
        held &= blocks * pixels <= result_rows(capacity, self._stored)
        held &= self._depth * pixels + 1 <= capacity.inp
        held &= (pixels if self._has_rows else 1) <= capacity.par
        return held

    def usual(self, table: Table) -> Table:
        """Whole rows, or parts of one row."""
        whole = (table["width"] == self._map[1]) | (table["height"] == 1)
        return whole_rows_first(chosen(table, whole), self._map[1], "out_blocks")

    def cycles(self, table: Table) -> Floats:
        return self.cycles_with(table, DDR)

    def cycles_with(self, table: Table, memory: MemoryModel) -> Floats:
        """Cycles of the busiest of multipliers, ALU and bus, plus non-overlapping work and
        overheads.

        Not overlapped are the load of a tile of each operand, and of parameters of its pixels,
        before its first result, and the ALU work and the store of a tile after the last product.
        """
        pixels = self._pixels(table)
        words = machine_cost(self.variant, memory).word_cycles
        operands = self._depth * (self._rows(table) * self._wgt + pixels * self._inp)
        begin = (operands + pixels * self._par * self._has_rows) * words
        end = self._tile_alu(table) + self._rows(table) * pixels * self._out * words
        units = (
            self._products(table),
            self._alu(table),
            self._beats(table) * words - begin,
        )
        cycles = begin + np.max(units, axis=0) + end + self._tile_cycles * self._tiles(table)
        return np.asarray(cycles, np.float64)

    def bound(self, table: Table, memory: MemoryModel) -> Floats:
        """The corrections' work is not counted."""
        row_bytes = {name: pad.row_bytes for name, pad in scratchpads(self.variant).items()}
        out = row_bytes[Memory.OUT] * self._stored
        blocks, pixels = self._rows(table), self._pixels(table)
        requantize = self._result_cycles
        last = last_size(self._map[0], table["height"]) * last_size(self._map[1], table["width"])
        last = last * last_size(self._blocks, blocks)
        left = self._outs(table) * (self._vectors // self._blocks) * row_bytes[Memory.INP]
        right = self._others * self._blocks * row_bytes[Memory.WGT]
        work = Work.of(
            len(blocks),
            products=self._depth * self._vectors,
            vectors=self._vectors * requantize,
            read=self._depth * (left + right),
            written=self._vectors * out,
            instructions=self._tiles(table) * _INSTRUCTIONS,
            first_read=self._depth
            * (blocks * row_bytes[Memory.WGT] + pixels * row_bytes[Memory.INP]),
            first_products=self._depth * blocks * pixels,
            last_vectors=last * requantize,
            last_written=last * out,
        )
        return least_cycles(work, self.variant, memory)

    def instructions(self, table: Table) -> tuple[Column, Column]:
        tiles, blocks, pixels = self._tiles(table), self._rows(table), self._pixels(table)
        widest = np.maximum(self._depth, blocks)
        rows = widest * np.maximum(table["height"], blocks)
        most = SiteLimits(self._func, self.variant).most(
            widest * np.maximum(pixels, blocks),
            rows,
            (blocks, table["height"], table["width"]),
            (self._depth,),
        )
        return (2 * tiles)[np.newaxis], (tiles * most)[np.newaxis]

    def features(self, table: Table) -> dict[str, Floats]:
        """What a learned cost model sees: cycles of every unit, and sizes of a tile."""
        blocks, pixels = self._rows(table), self._pixels(table)
        found = {
            "estimate": self.cycles(table),
            "product_cycles": self._products(table),
            "vector_cycles": self._alu(table),
            "beats": self._beats(table),
            "tiles": self._tiles(table),
            "tile_products": self._depth * blocks * pixels,
            "accumulators": self._accumulators(table),
            "input_rows": self._depth * pixels,
            "weight_rows": self._depth * blocks,
            **table,
        }
        return {name: np.asarray(column, dtype=np.float64) for name, column in found.items()}

    @property
    def _vectors(self) -> int:
        """Vectors of the result."""
        height, width = self._map
        return self._images * height * width * self._blocks

    def _rows(self, table: Table) -> Column:
        """Blocks of rows of the second operand that a tile has."""
        return table["out_blocks"] * self._parts

    def _pixels(self, table: Table) -> Column:
        """Pixels of a tile."""
        return table["height"] * table["width"]

    def _accumulators(self, table: Table) -> Column:
        """Accumulators of the product, and of the row and column corrections."""
        blocks, pixels = self._rows(table), self._pixels(table)
        return blocks * pixels + pixels + blocks

    def _outs(self, table: Table) -> Column:
        """Number of tiles that cover the result's channels."""
        return ceil_div(self._outer, table["out_blocks"])

    def _tiles(self, table: Table) -> Column:
        """Number of tiles."""
        maps = ceil_div(self._map[0], table["height"]) * ceil_div(self._map[1], table["width"])
        return self._images * self._outs(table) * maps

    def _tile_alu(self, table: Table) -> Column:
        """The ALU's cycles for a tile."""
        return np.asarray(self._rows(table) * self._pixels(table) * self._vector_cycles)

    def _alu(self, table: Table) -> Column:
        """The ALU's cycles for all tiles."""
        return np.full_like(self._rows(table), self._vectors * self._vector_cycles)

    def _products(self, table: Table) -> Column:
        """Products of the result and of the corrections."""
        pixels = self._vectors // self._blocks
        corrected = pixels * (self._blocks + self._outs(table)) + self._images * self._blocks
        return self._depth * corrected

    def _beats(self, table: Table) -> Column:
        """Bus words of all tiles."""
        pixels = self._vectors // self._blocks
        loaded = self._outs(table) * (pixels * self._inp) + self._others * self._blocks * self._wgt
        rows = self._outs(table) * pixels * self._par if self._has_rows else 0
        return self._depth * loaded + self._vectors * self._out + rows

    def misfit(self) -> str:
        memory = self.variant.memory
        elements = self._depth * self.variant.array.block_in
        return (
            f"one row of a matrix product must fit scratchpad 'inp' ({memory.inp_bytes} bytes) and "
            f"one block of the other operand 'wgt' ({memory.wgt_bytes}); they have {elements} "
            "elements in a row; use a variant with larger scratchpads"
        )
