"""How long a tiled depthwise convolution takes, about."""

from daedal.compiler.codegen.vectors import num_rows
from daedal.compiler.ops.accelerator.depthwise_shape import DepthwiseShape, DepthwiseTile
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

    LOAD and STORE share the bus; GEMM and the ALU work beside it and each other, a tile behind,
    where `overlaps`: then the busiest of the three decides, and what the others do before it can
    begin and after it has ended.
    """

    def __init__(self, shape: DepthwiseShape, variant: Variant, *, overlaps: bool) -> None:
        array, pads = variant.array, scratchpads(variant)
        self._shape = shape
        self._overlaps = overlaps
        self._block_out = array.block_out
        self._beats = {memory: pad.row_beats(variant) for memory, pad in pads.items()}
        self._instruction_beats = instruction_bytes(variant) / variant.bus_bytes
        self._vector_cycles = array.batch * array.block_out // variant.units.requantize_lanes
        self._passing: dict[tuple[int, int], int] = {}

    def cycles(self, tile: DepthwiseTile) -> float:
        """The estimate; only to be compared with that of other tiles."""
        shape, beats = self._shape, self._beats
        channels = -(-shape.blocks // tile.blocks)
        loads = -(-channels // tile.groups)
        maps = -(-shape.height // tile.height) * -(-shape.width // tile.width) * shape.batches
        constants = self._constant_beats(min(tile.blocks * tile.groups, shape.blocks))
        pixels = self._passed(0, tile.height) * self._passed(1, tile.width)
        vectors = shape.batches * shape.blocks * shape.height * shape.width
        instructions = channels * maps * self._instructions(tile) + 2 * loads
        bus = shape.batches * shape.blocks * pixels * beats[Memory.INP]
        bus += vectors * beats[Memory.OUT] + loads * constants
        # One tile: what it takes in turn.
        rows, columns = shape.input_size(tile.height, tile.width)
        load = constants + tile.blocks * rows * columns * beats[Memory.INP]
        outputs = tile.blocks * tile.height * tile.width
        multiply, finish = outputs * shape.products, outputs * self._vector_cycles
        store = outputs * beats[Memory.OUT]
        if not self._overlaps:
            return channels * maps * (load + multiply + finish + store + LATENCY_CYCLES)
        return (
            LATENCY_CYCLES
            + TILE_CYCLES * channels * maps
            + max(
                bus + instructions * self._instruction_beats + multiply + finish,
                load + vectors * shape.products + finish + store,
                load + multiply + vectors * self._vector_cycles + store,
            )
        )

    def _constant_beats(self, blocks: int) -> int:
        """Bus words of the weights and parameters of some blocks of channels."""
        weights = num_rows(blocks * self._shape.products, self._shape.taps, self._block_out)
        return weights * self._beats[Memory.WGT] + blocks * self._beats[Memory.PAR]

    def _passed(self, axis: int, size: int) -> int:
        key = (axis, size)
        if key not in self._passing:
            self._passing[key] = self._shape.passing(axis, size)
        return self._passing[key]

    def _instructions(self, tile: DepthwiseTile) -> float:
        """Instructions of a tile, on average: LOAD, GEMM, ALU and STORE, one each.

        Where columns are left over, the last tile of a row is not dense on chip, and each of its
        rows takes a LOAD and a STORE.
        """
        shape = self._shape
        if shape.width % tile.width == 0:
            return 4
        rows = tile.height + shape.reach(0, tile.height)
        return 4 + rows / -(-shape.width // tile.width)
