"""`DepthwiseCost`: the estimated cycles of a depthwise convolution's tiles.

Input: shape, variant, and tiles as columns, one for each field of `DepthwiseTile`.
"""

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseShape
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, Mask, ceil_div
from daedal.compiler.ops.space import Column, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory
from daedal.isa.table import LoadMemory, Opcode
from daedal.isa.variant import Variant

__all__ = ["LATENCY_CYCLES", "DepthwiseCost"]

LATENCY_CYCLES = 100
"""Of memory and of an instruction's way, about: what nothing hides at the beginning and the end."""

TILE_CYCLES = 8
"""What a tile costs beyond its work: hand-overs between units that do not come in time, about, and
the time to compile and to fetch its instructions."""


class DepthwiseCost:
    """Estimates the cycles of tiles of one layer.

    LOAD and STORE share the bus. With `overlaps`, bus, GEMM and ALU work in parallel, each on
    another tile. Then the busiest of the three determines the cycles, plus the work of the others
    before it can begin and after it has ended.
    """

    def __init__(
        self,
        shape: DepthwiseShape,
        variant: Variant,
        memory: MemoryModel = DDR,
        *,
        overlaps: bool = True,
    ) -> None:
        array, machine = variant.array, machine_cost(variant, memory)
        self._shape = shape
        self._overlaps = overlaps
        self._block_out = array.block_out
        self._row_cycles = dict(machine.row_cycles)
        if shape.narrow_weights:
            narrow = machine.transfer_cycles[Opcode.LOAD, LoadMemory.WGT_NARROW.value]
            self._row_cycles[Memory.WGT] = narrow
        self._instruction_cycles = machine.instruction_cycles
        self._vector_cycles = shape.tail.vector_cycles(machine)
        self._vectors = shape.batches * shape.blocks * shape.height * shape.width

    def cycles(self, tiles: Table) -> Floats:
        """The estimate, only meaningful in comparison with that of other tiles."""
        shape, rows = self._shape, self._row_cycles
        count = self._channels(tiles) * self._maps(tiles)
        # One tile, without overlap.
        load = self._constant_cycles(tiles) + self._input_rows(tiles) * rows[Memory.INP]
        outputs = tiles["blocks"] * tiles["height"] * tiles["width"]
        multiply, finish = outputs * shape.products, outputs * self._vector_cycles
        store = outputs * (rows[Memory.OUT] * shape.tail.stored)
        if not self._overlaps:
            alone = count * (load + multiply + finish + store + LATENCY_CYCLES)
            return np.asarray(alone, np.float64)
        units = (
            self._bus_cycles(tiles) + multiply + finish,
            load + self._vectors * shape.products + finish + store,
            load + multiply + self._vectors * self._vector_cycles + store,
        )
        return np.asarray(LATENCY_CYCLES + TILE_CYCLES * count + np.max(units, axis=0), np.float64)

    def waits_for_bus(self, tiles: Table) -> Mask:
        """Whether the bus is busier than the multipliers."""
        waits: Mask = self._bus_cycles(tiles) > self._vectors * self._shape.products
        return waits

    def features(self, tiles: Table) -> dict[str, Floats]:
        """What a learned cost model sees: cycles of every unit, and sizes of a tile."""
        outputs = tiles["blocks"] * tiles["height"] * tiles["width"]
        count = self._channels(tiles) * self._maps(tiles)
        every = np.ones(len(outputs))
        found = {
            "estimate": self.cycles(tiles),
            "product_cycles": every * (self._vectors * self._shape.products),
            "vector_cycles": every * (self._vectors * self._vector_cycles),
            "beats": self._bus_cycles(tiles),
            "instructions": count * self._instructions(tiles),
            "tiles": count,
            "tile_products": outputs * self._shape.products,
            "accumulators": outputs,
            "input_rows": self._input_rows(tiles),
            "constant_beats": self._constant_cycles(tiles),
            **tiles,
        }
        return {name: np.asarray(column, dtype=np.float64) for name, column in found.items()}

    def _bus_cycles(self, tiles: Table) -> Floats:
        """Cycles on the bus of all tiles: maps, weights, parameters and instructions."""
        shape, rows = self._shape, self._row_cycles
        loads = -(-self._channels(tiles) // tiles["groups"])
        pixels = self._passed(0, tiles["height"]) * self._passed(1, tiles["width"])
        words = shape.batches * shape.blocks * pixels * rows[Memory.INP]
        words += self._vectors * (
            rows[Memory.OUT] * shape.tail.stored + shape.tail.loaded * rows[Memory.INP]
        )
        words += loads * self._constant_cycles(tiles)
        count = self._channels(tiles) * self._maps(tiles)
        instructions = count * self._instructions(tiles) + 2 * loads
        return words + instructions * self._instruction_cycles

    def _channels(self, tiles: Table) -> Column:
        """Number of tiles that cover the channels."""
        return ceil_div(self._shape.blocks, tiles["blocks"])

    def _maps(self, tiles: Table) -> Column:
        """Number of tiles that cover the maps of one block of channels."""
        shape = self._shape
        rows, columns = tiles["height"], tiles["width"]
        return ceil_div(shape.height, rows) * ceil_div(shape.width, columns) * shape.batches

    def _input_rows(self, tiles: Table) -> Column:
        """Scratchpad rows that a tile reads."""
        rows, columns = self._shape.input_size(tiles["height"], tiles["width"])
        return tiles["blocks"] * rows * columns

    def _constant_cycles(self, tiles: Table) -> Column:
        """Cycles on the bus of the weights and parameters that are loaded at once."""
        blocks: Column = np.minimum(tiles["blocks"] * tiles["groups"], self._shape.blocks)
        weights = self._shape.weight_rows(blocks, self._block_out)
        return weights * self._row_cycles[Memory.WGT] + blocks * self._row_cycles[Memory.PAR]

    def _passed(self, axis: int, sizes: Column) -> Column:
        """`DepthwiseShape.passing` of each size."""
        known, numbers = np.unique(sizes, return_inverse=True)
        passed = [self._shape.passing(axis, size) for size in known.tolist()]
        found: Column = np.array(passed, dtype=np.int64)[numbers]
        return found

    def _instructions(self, tiles: Table) -> Floats:
        """Instructions of a tile, on average: LOAD, GEMM, ALU and STORE, one each.

        If tiles do not divide the columns, the last tile of a row is not dense on chip, and each of
        its rows takes a LOAD and a STORE.
        """
        shape, width = self._shape, tiles["width"]
        rows = tiles["height"] + shape.reach(0, tiles["height"])
        several = rows / ceil_div(shape.width, width)
        return np.where(shape.width % width == 0, 4, 4 + several)
