"""`VectorSpace`: the schedules of an operator on maps that only the ALU computes.

The knobs are channel blocks, rows and columns of a tile of the output.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod

import numpy as np

from daedal.common.errors import ScheduleError
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
    whole_rows_first,
)
from daedal.compiler.ops.accelerator.vector.elementwise_stages import check_parameters
from daedal.compiler.ops.accelerator.vector.tile import TILE_CYCLES, Tile, TileWork
from daedal.compiler.ops.accelerator.wide_results import narrow_vectors, result_rows
from daedal.compiler.ops.lower_bound import Work, least_cycles
from daedal.compiler.ops.space import Column, Config, Table
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["VectorSpace"]

CONCURRENT_LOSS = 0.03
"""Share of its cycles that a layer may lose by smaller tiles, so that the accumulators can hold a
tile of another layer at the same time."""


class VectorSpace(TileSpace):
    """The possible tiles of a function whose output is (NB, CB, H, W, U, batch, lanes), or has
    other outer dimensions instead of NB.

    Parameters
    ----------
    work : the work of tiles, by their table.
    alu_cycles : the ALU's cycles for all vectors of a tile on a variant, instead of the operations
        of `work`.
    grain : rows and columns are multiples of these.
    blocks : channel blocks of every tile; None to choose them.
    overlapping : whether neighbouring tiles share operands (a halo). Then the default may be a tile
        of several partial rows, because they share less.
    moves : whether the results are moved to OUT and not requantized.
    parameters : operands whose rows must all fit the scratchpad of parameters.

    Raises ScheduleError where the `parameters` do not fit.
    """

    def __init__(
        self,
        func: PrimFunc,
        variant: Variant,
        work: Callable[[Table], TileWork],
        *,
        alu_cycles: Callable[[Table, Variant], Column] | None = None,
        grain: tuple[int, int] = (1, 1),
        blocks: int | None = None,
        overlapping: bool = False,
        moves: bool = False,
        parameters: Sequence[str] = (),
    ) -> None:
        super().__init__(variant)
        check_parameters(func, variant, parameters)
        self._func = func
        self._name = func.name
        *outer, self._channels, height, width, self._parts, _, _ = func.outputs[0].shape
        self._batches, self._map = prod(outer), (height, width)
        self._stored = narrow_vectors(func.outputs[0])
        self._work = work
        self._alu_cycles = alu_cycles
        self._grain = grain
        self._blocks = blocks
        self._overlapping = overlapping
        self._moves = moves
        self._parameters = parameters
        lanes = variant.units.alu_lanes if moves else variant.units.requantize_lanes
        self._elements = variant.array.batch * variant.array.block_out
        self._result_cycles = -(-self._elements // lanes)

    def on(self, variant: Variant) -> "VectorSpace":
        return VectorSpace(
            self._func,
            variant,
            self._work,
            alu_cycles=self._alu_cycles,
            grain=self._grain,
            blocks=self._blocks,
            overlapping=self._overlapping,
            moves=self._moves,
            parameters=self._parameters,
        )

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        height, width = (
            [count * step for count in tile_sizes(size // step)]
            for size, step in zip(self._map, self._grain, strict=True)
        )
        blocks = tile_sizes(self._channels) if self._blocks is None else [self._blocks]
        return {"blocks": blocks, "height": height, "width": width}

    def possible(self, table: Table) -> Mask:
        if "width" not in table:
            return super().possible(table)
        return self._holds_results(table, Capacity(self.variant, 1))

    def _holds_results(self, table: Table, capacity: Capacity) -> Mask:
        held: Mask = self._vectors(table) <= result_rows(capacity, self._stored)
        return held

    def holds(self, table: Table, share: int) -> Mask:
        capacity = Capacity(self.variant, share)
        rows = self._work(table).held
        # Buffers alternate between the halves of the accumulators: if a tile has several, a buffer
        # of the next tile shares a half with one of this tile.
        room = capacity.acc // share if len(rows) > 1 else capacity.acc
        held = self._holds_results(table, capacity)
        held &= self._parts * np.sum(rows, axis=0) <= capacity.acc
        held &= self._parts * np.max(rows, axis=0) <= room
        return held

    def usual(self, table: Table) -> Table:
        """Whole rows, or parts of one row; of an overlapping operator, parts of several."""
        width = self._map[1]
        if not self._overlapping:
            rows = (table["width"] == width) | (table["height"] == self._grain[0])
            table = chosen(table, rows)
        return whole_rows_first(table, width)

    def default_with(self, memory: MemoryModel) -> Config:
        """The usual tile with the fewest estimated cycles.

        Of those that cost little more and leave room to another layer's tile in the same half of
        the accumulators, the one with the fewest rows is taken instead: the linker can then
        interleave the two layers (`compiler.link.interleave`), and this one ends soon after the
        other.

        Raises
        ------
        ScheduleError
            Not even the smallest tile fits.
        """
        table = self.usual(self.all())
        cycles = self.cycles_with(table, memory)
        if not len(cycles):
            raise ScheduleError(self.misfit())
        small = (cycles <= (1 + CONCURRENT_LOSS) * cycles.min()) & self.holds(table, 2 * self.share)
        if not small.any():
            return self.row(table, int(np.argmin(cycles)))
        return self.row(table, int(np.lexsort((cycles, table["height"], ~small))[0]))

    def cycles(self, table: Table) -> Floats:
        return self.cycles_with(table, DDR)

    def cycles_with(self, table: Table, memory: MemoryModel) -> Floats:
        """Estimated cycles. Tiles overlap, so the busier of bus and ALU counts. For the first and
        the last tile, the other one is not hidden and counts too."""
        words = machine_cost(self.variant, memory).word_cycles
        bus, alu = self._bus(table) * words, self._alu(table)
        count = self._count(table)
        cycles = count * (np.maximum(bus, alu) + TILE_CYCLES) + np.minimum(bus, alu)
        return np.asarray(cycles, np.float64)

    def bound(self, table: Table, memory: MemoryModel) -> Floats:
        """Only of the result: each vector goes through the ALU and is stored.

        What is loaded depends on the operator's windows and is not counted.
        """
        count = len(table["height"])
        vectors = self._batches * self._channels * self._parts * prod(self._map)
        work = Work.of(
            count,
            products=0,
            vectors=vectors * self._result_cycles,
            read=0,
            written=vectors * self._stored * scratchpad(self.variant, Memory.OUT).row_bytes,
            instructions=self._count(table),
            first_read=0,
            first_products=0,
            last_vectors=0,
            last_written=0,
        )
        return least_cycles(work, self.variant, memory)

    def instructions(self, table: Table) -> tuple[Column, Column]:
        """A tile has an operation and a STORE at least."""
        tiles, width = self._count(table), table["width"]
        held = self._parts * np.max(self._work(table).held, axis=0)
        results = self._vectors(table)
        vectors = np.maximum(held, results)
        # An operand's rows are at least as wide as those of the result, but where it is repeated.
        rows = np.maximum(ceil_div(held, width), ceil_div(results, width))
        limits = SiteLimits(self._func, self.variant, windows=self._alu_cycles is not None)
        most = limits.most(vectors, rows, (rows, width))
        return (2 * tiles)[np.newaxis], (tiles * most)[np.newaxis]

    def features(self, table: Table) -> dict[str, Floats]:
        """Cycles of bus and ALU, numbers of tiles, and sizes of one."""
        work, count = self._work(table), self._count(table)
        bus, alu = self._bus(table), self._alu(table)
        found = {
            "estimate": self.cycles(table),
            "beats": count * bus,
            "vector_cycles": count * alu,
            "tile_beats": bus,
            "tile_vector_cycles": alu,
            "tiles": count,
            "loaded": work.loaded,
            "accumulators": np.sum(work.held, axis=0),
            "interleaves": self.holds(table, 2 * self.share),
            **table,
        }
        return {name: np.asarray(column, dtype=np.float64) for name, column in found.items()}

    def _count(self, table: Table) -> Column:
        """Number of tiles."""
        height, width = self._map
        maps = ceil_div(height, table["height"]) * ceil_div(width, table["width"])
        return self._batches * ceil_div(self._channels, table["blocks"]) * maps

    def _vectors(self, table: Table) -> Column:
        """Vectors of a tile of the result."""
        return self._parts * table["blocks"] * table["height"] * table["width"]

    def _bus(self, table: Table) -> Column:
        """Bus words of a tile."""
        beats = scratchpad(self.variant, Memory.OUT).row_beats(self.variant)
        loaded = self._parts * self._work(table).loaded
        return (loaded + self._vectors(table) * self._stored) * beats

    def _alu(self, table: Table) -> Column:
        """The ALU's cycles for a tile."""
        units = self.variant.units
        requantize = self._vectors(table) * self._result_cycles
        if self._alu_cycles is not None:
            return self._alu_cycles(table, self.variant) + requantize
        operations = self._parts * self._work(table).operations
        return operations * -(-self._elements // units.alu_lanes) + requantize

    def misfit(self) -> str:
        pad, memory = scratchpad(self.variant, Memory.ACC), self.variant.memory
        sizes = (1, *self._grain)
        smallest = {knob: np.array([size]) for knob, size in zip(self.knobs, sizes, strict=True)}
        need = self._parts * int(np.sum(self._work(smallest).held)) * pad.row_bytes
        return (
            f"a window of {self._name!r} must fit scratchpad 'acc' of {memory.acc_bytes} bytes, "
            f"and takes {need}; use a variant with a larger one"
        )

    @staticmethod
    def tile(config: Config) -> Tile:
        """The decisions of a configuration."""
        return config["blocks"], config["height"], config["width"]
