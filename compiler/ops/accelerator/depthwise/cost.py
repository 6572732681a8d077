"""Estimated cycles of a tiled depthwise convolution."""

from daedal.compiler.codegen.vectors import num_rows
from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseShape, DepthwiseTile
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import instruction_bytes
from daedal.isa.variant import Variant

__all__ = ["DepthwiseCost"]

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

    def __init__(self, shape: DepthwiseShape, variant: Variant, *, overlaps: bool = True) -> None:
        array, pads = variant.array, scratchpads(variant)
        self._shape = shape
        self._overlaps = overlaps
        self._block_out = array.block_out
        self._beats = {memory: pad.row_beats(variant) for memory, pad in pads.items()}
        self._instruction_beats = instruction_bytes(variant) / variant.bus_bytes
        self._vector_cycles = shape.tail.vector_cycles(variant)
        self._vectors = shape.batches * shape.blocks * shape.height * shape.width
        self._passing: dict[tuple[int, int], int] = {}

    def cycles(self, tile: DepthwiseTile) -> float:
        """The estimate, only meaningful in comparison with that of other tiles."""
        shape, beats = self._shape, self._beats
        tiles = self._channels(tile) * self._maps(tile)
        # One tile, without overlap.
        rows, columns = shape.input_size(tile.height, tile.width)
        load = self._constant_beats(tile) + tile.blocks * rows * columns * beats[Memory.INP]
        outputs = tile.blocks * tile.height * tile.width
        multiply, finish = outputs * shape.products, outputs * self._vector_cycles
        store = outputs * beats[Memory.OUT]
        if not self._overlaps:
            return tiles * (load + multiply + finish + store + LATENCY_CYCLES)
        busiest = max(
            self._bus_cycles(tile) + multiply + finish,
            load + self._vectors * shape.products + finish + store,
            load + multiply + self._vectors * self._vector_cycles + store,
        )
        return LATENCY_CYCLES + TILE_CYCLES * tiles + busiest

    def waits_for_bus(self, tile: DepthwiseTile) -> bool:
        """Whether the bus is busier than the multipliers."""
        return self._bus_cycles(tile) > self._vectors * self._shape.products

    def _bus_cycles(self, tile: DepthwiseTile) -> float:
        """Bus words of all tiles: maps, weights, parameters and instructions."""
        shape, beats = self._shape, self._beats
        loads = -(-self._channels(tile) // tile.groups)
        pixels = self._passed(0, tile.height) * self._passed(1, tile.width)
        words = shape.batches * shape.blocks * pixels * beats[Memory.INP]
        words += self._vectors * (beats[Memory.OUT] + shape.tail.loads * beats[Memory.INP])
        words += loads * self._constant_beats(tile)
        tiles = self._channels(tile) * self._maps(tile)
        instructions = tiles * self._instructions(tile) + 2 * loads
        return words + instructions * self._instruction_beats

    def _channels(self, tile: DepthwiseTile) -> int:
        """Number of tiles that cover the channels."""
        return -(-self._shape.blocks // tile.blocks)

    def _maps(self, tile: DepthwiseTile) -> int:
        """Number of tiles that cover the maps of one block of channels."""
        shape = self._shape
        return -(-shape.height // tile.height) * -(-shape.width // tile.width) * shape.batches

    def _constant_beats(self, tile: DepthwiseTile) -> int:
        """Bus words of the weights and parameters that are loaded at once."""
        blocks = min(tile.blocks * tile.groups, self._shape.blocks)
        weights = num_rows(blocks * self._shape.products, self._shape.taps, self._block_out)
        return weights * self._beats[Memory.WGT] + blocks * self._beats[Memory.PAR]

    def _passed(self, axis: int, size: int) -> int:
        key = (axis, size)
        if key not in self._passing:
            self._passing[key] = self._shape.passing(axis, size)
        return self._passing[key]

    def _instructions(self, tile: DepthwiseTile) -> float:
        """Instructions of a tile, on average: LOAD, GEMM, ALU and STORE, one each.

        If tiles do not divide the columns, the last tile of a row is not dense on chip, and each of
        its rows takes a LOAD and a STORE.
        """
        shape = self._shape
        if shape.width % tile.width == 0:
            return 4
        rows = tile.height + shape.reach(0, tile.height)
        return 4 + rows / -(-shape.width // tile.width)
