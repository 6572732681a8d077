"""The accelerator's schedules of pooling over large windows, above all global pooling.

A row of accumulators accepts its next addend only after the last one is written, some 15 cycles
later. If there are few outputs, each column of the window is therefore first reduced in its own
accumulator row, and then the columns are combined. The rows of the window may be loaded in steps,
so the window may be larger than the accumulators.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.tiles.site_limits import SiteLimits
from daedal.compiler.ops.accelerator.tiles.template import TileTemplate
from daedal.compiler.ops.accelerator.tiles.tile_space import (
    Floats,
    Mask,
    TileSpace,
    ceil_div,
    chosen,
    whole_rows_first,
)
from daedal.compiler.ops.accelerator.vector.elementwise_stages import MAP_RANK
from daedal.compiler.ops.accelerator.vector.tile import TILE_CYCLES, accumulation
from daedal.compiler.ops.accelerator.vector.vector import tiled
from daedal.compiler.ops.space import Column, Config, Table
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["ColumnSpace", "columns_template"]

BURST_CYCLES = 8
"""What a burst takes at least, about: the memory's latency of 64, with eight bursts in flight."""


def columns_template(
    func: PrimFunc, kernel: Sequence[int], reduction: str, variant: Variant
) -> TileTemplate:
    """The schedules of a function of `daedal.compiler.ops.pooling` with ``columns``; `reduction` is
    "add" or "max"."""
    intrin = f"alu_{reduction}_accumulate"

    def build(config: Config) -> Schedule:
        sch = tiled(func, variant, (config["blocks"], 1, 1), ("acc",))
        acc, columns, wide = (sch.get_block(name) for name in ("acc", "columns", "wide"))
        *_, n, c, h, w, u, b, o, kw = sch.get_loops(acc)
        kw_0, kw_1 = sch.split(kw, [None, config["width"]])
        sch.reorder(kw_0, n, c, h, w, u, kw_1, b, o)
        sch.set_scope(columns, 0, "acc")
        sch.compute_at(columns, kw_0)
        sch.tensorize(b, intrin)
        *_, n, c, h, w, u, b, o, kh = sch.get_loops(columns)
        kh_0, kh_1 = sch.split(kh, [None, config["height"]])
        sch.reorder(kh_0, n, c, h, w, u, kh_1, b, o)
        sch.set_scope(wide, 0, "acc")
        sch.compute_at(wide, kh_0)
        sch.tensorize(sch.get_loops(wide)[-MAP_RANK], "load_widen")
        sch.tensorize(b, intrin)
        return sch

    return TileTemplate(ColumnSpace(func, kernel, variant), build)


class ColumnSpace(TileSpace):
    """Channel blocks of a tile of one output, and rows and columns of the window in one step."""

    def __init__(self, func: PrimFunc, kernel: Sequence[int], variant: Variant) -> None:
        super().__init__(variant)
        self._func = func
        self._name = func.name
        self._batches, self._channels, *self._outputs, self._parts, _, _ = func.outputs[0].shape
        self._kernel = kernel

    def on(self, variant: Variant) -> "ColumnSpace":
        return ColumnSpace(self._func, self._kernel, variant)

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        height, width = (tile_sizes(size) for size in self._kernel)
        return {"blocks": tile_sizes(self._channels), "height": height, "width": width}

    def holds(self, table: Table, share: int) -> Mask:
        capacity = Capacity(self.variant, share)
        buffers = self._buffers(table)
        # Buffers alternate between the halves of the accumulators; see `VectorSpace.holds`.
        held: Mask = self._parts * np.sum(buffers, axis=0) <= capacity.acc
        held &= np.max(buffers, axis=0) <= capacity.acc // share // self._parts
        held &= self._parts * table["blocks"] <= capacity.out
        return held

    def _buffers(self, table: Table) -> list[Column]:
        """Vectors of a step's part of the window, of its columns, and of the result."""
        blocks, width = table["blocks"], table["width"]
        return [blocks * table["height"] * width, blocks * width, blocks]

    def usual(self, table: Table) -> Table:
        """Whole rows of the window, or parts of one."""
        whole = (table["width"] == self._kernel[1]) | (table["height"] == 1)
        return whole_rows_first(chosen(table, whole), self._kernel[1])

    def cycles(self, table: Table) -> Floats:
        return self.cycles_with(table, DDR)

    def cycles_with(self, table: Table, memory: MemoryModel) -> Floats:
        """The busier of bus and ALU in every step, then the columns' reduction."""
        words = machine_cost(self.variant, memory).word_cycles
        bus, alu, last = self._bus(table) * words, self._alu(table), self._last(table)
        steps = self._steps(table) * (np.maximum(bus, alu) + TILE_CYCLES)
        return np.asarray(self._count(table) * (steps + last) + np.minimum(bus, alu), np.float64)

    def instructions(self, table: Table) -> tuple[Column, Column]:
        """A step has a LOAD and an operation at least."""
        steps, blocks = self._count(table) * self._steps(table), self._parts * table["blocks"]
        rows = blocks * table["height"]
        loops = (blocks, table["width"])
        most = SiteLimits(self._func, self.variant).most(
            rows * table["width"], rows, loops, (table["height"], self._kernel[1])
        )
        return (2 * steps)[np.newaxis], (steps * most)[np.newaxis]

    def features(self, table: Table) -> dict[str, Floats]:
        """Cycles of bus and ALU, numbers of tiles and steps, and sizes of a step."""
        count, steps = self._count(table), self._steps(table)
        bus, alu, last = self._bus(table), self._alu(table), self._last(table)
        found = {
            "estimate": self.cycles(table),
            "beats": count * steps * bus,
            "vector_cycles": count * (steps * alu + last),
            "tile_beats": bus,
            "tile_vector_cycles": alu,
            "tiles": count,
            "steps": steps,
            "accumulators": self._parts * np.sum(self._buffers(table), axis=0),
            **table,
        }
        return {name: np.asarray(column, dtype=np.float64) for name, column in found.items()}

    def _count(self, table: Table) -> Column:
        """Number of tiles."""
        return self._batches * math.prod(self._outputs) * ceil_div(self._channels, table["blocks"])

    def _steps(self, table: Table) -> Column:
        """Steps of a tile."""
        height, width = self._kernel
        return ceil_div(height, table["height"]) * ceil_div(width, table["width"])

    def _bus(self, table: Table) -> Column:
        """Cycles of the bus for a step; parts of rows of the map are a burst each."""
        row = self._parts * scratchpad(self.variant, Memory.OUT).row_beats(self.variant)
        beats = table["width"] * row
        parts = (table["width"] < self._kernel[1]) | (math.prod(self._outputs) > 1)
        bursts = np.where(parts, np.maximum(beats, BURST_CYCLES), beats)
        return np.asarray(table["blocks"] * table["height"] * bursts)

    def _alu(self, table: Table) -> Column:
        """The ALU's cycles for a step."""
        targets = self._parts * table["blocks"] * table["width"]
        return self._groups * accumulation(table["height"], targets, self.variant)

    def _last(self, table: Table) -> Column:
        """The ALU's cycles for the reduction of the columns."""
        targets = self._parts * table["blocks"]
        return self._groups * accumulation(self._kernel[1], targets, self.variant)

    @property
    def _groups(self) -> int:
        """Cycles of the ALU for one row."""
        array = self.variant.array
        return -(-array.batch * array.block_out // self.variant.units.alu_lanes)

    def misfit(self) -> str:
        need = 3 * self._parts * scratchpad(self.variant, Memory.ACC).row_bytes
        return (
            f"a vector, a column and the result of {self._name!r} must fit scratchpad 'acc' of "
            f"{self.variant.memory.acc_bytes} bytes, and take {need}; use a variant with a larger "
            "one"
        )
