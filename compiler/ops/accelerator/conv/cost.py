"""`ConvCost`: the estimated cost of a convolution's tile, from bytes, products and their overlap.

Input: shape, tile and variant. Output: estimated cycles, by which `tile` ranks tiles.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import instruction_bytes
from daedal.isa.variant import Variant

__all__ = ["ConvCost", "ConvTile"]

TRANSFER_CYCLES = 100
"""From the request of the first row to the first product, and from the last one to the end."""


@dataclass(frozen=True)
class ConvTile:
    """Sizes in blocks and pixels, and which operand stays on chip while the other is streamed.

    Parameters
    ----------
    height, width : of a tile of the output map.
    out_blocks : output blocks that are accumulated at once.
    in_blocks : input blocks of one step of the reduction, with one LOAD and one GEMM each.
    taps : rows and columns of the window of one step; None for all.
    group : output blocks whose weights stay on chip for all tiles of the map; 0 if weights are
        reloaded for each tile.
    keep_inputs : whether all input blocks of a tile stay on chip for all output blocks.
    threads : virtual threads, each with the next output blocks of one tile. The linker's renaming
        interleaves tiles without them; if it is off, only threads do.
    """

    height: int
    width: int
    out_blocks: int
    in_blocks: int
    group: int
    keep_inputs: bool
    threads: int = 1
    taps: tuple[int, int] | None = None


class ConvCost:
    """Estimated cycles of the tiles of one convolution."""

    def __init__(self, shape: ConvShape, variant: Variant, overlap: bool) -> None:
        pads = scratchpads(variant)
        self._shape = shape
        self._overlap = overlap
        self._inp, self._wgt, self._out, self._par = (
            pads[memory].row_beats(variant)
            for memory in (Memory.INP, Memory.WGT, Memory.OUT, Memory.PAR)
        )
        self._vector_cycles = shape.tail.vector_cycles(variant)
        self._instruction_beats = instruction_bytes(variant) // variant.bus_bytes

    def cycles(self, tile: ConvTile) -> float:
        """Cycles of the busier of multipliers and bus in each pass, plus what does not overlap.

        Loads of the first accumulated tile overlap only with its own products. Not overlapped are
        one step's load before the first product, and a tile's requantization and store after the
        last one. Without overlap, everything adds up.
        """
        passes = list(self._passes(tile))
        last = tile.out_blocks * self._shape.out_parts * tile.height * tile.width
        end = last * (self._vector_cycles + self._out)
        if not self._overlap:
            tiles = sum(item.times * item.tiles for item in passes)
            steps = self._steps(tile)
            busy = sum(
                item.times * (item.products + item.vector_cycles + item.beats) for item in passes
            )
            return busy + tiles * (steps + 2) * TRANSFER_CYCLES
        first = passes[0]
        kept = self._kept_weights(tile)
        tile_beats = first.tile_beats + kept * tile.out_blocks / max(tile.group, 1)
        turns = first.tiles - 1
        products, beats = first.computing / first.tiles, first.beats + kept - tile_beats
        total = sum(item.times * max(item.computing, item.beats) for item in passes)
        return (
            total
            - max(first.computing, first.beats)
            + max(products, tile_beats)
            + max(turns * products, beats)
            + tile_beats / self._steps(tile)
            + end
            + TRANSFER_CYCLES
        )

    def instructions(self, tile: ConvTile) -> int:
        """Estimated number of instructions: one per load, product and result of a tile."""
        steps = self._steps(tile)
        return sum(item.times * item.tiles for item in self._passes(tile)) * (3 * steps + 3)

    def _steps(self, tile: ConvTile) -> int:
        """Steps of the reduction."""
        rows, columns = self._windows(tile)
        return -(-self._shape.in_blocks // tile.in_blocks) * len(rows) * len(columns)

    def _windows(self, tile: ConvTile) -> tuple[list[int], list[int]]:
        """Rows and columns of the window in each of the steps over them."""
        rows, columns = (
            [size for size, count in _sizes(extent, step) for _ in range(count)]
            for extent, step in zip(
                self._shape.kernel, tile.taps or self._shape.kernel, strict=True
            )
        )
        return rows, columns

    def _input_beats(self, tile: ConvTile, height: int, width: int) -> float:
        """Beats of the inputs of a tile of the output map."""
        shape = self._shape
        rows, columns = self._windows(tile)
        loaded = sum(shape.loaded_rows(height, width, (r, c)) for r in rows for c in columns)
        return shape.in_blocks * loaded * self._inp

    def _kept_weights(self, tile: ConvTile) -> int:
        """Beats of the weights that stay on chip; 0 if they are streamed."""
        return tile.group * self._shape.in_blocks * self._shape.weight_rows() * self._wgt

    def _passes(self, tile: ConvTile) -> Iterator["_Pass"]:
        """Each kind of tile of the map, with the output blocks of one group; the largest first."""
        shape = self._shape
        steps = self._steps(tile)
        for height, rows in _sizes(shape.height, tile.height):
            for width, columns in _sizes(shape.width, tile.width):
                maps = rows * columns * shape.batches
                inputs = self._input_beats(tile, height, width)
                for blocks, groups in _sizes(shape.out_blocks, tile.group or shape.out_blocks):
                    tiles = -(-blocks // tile.out_blocks)
                    joins = blocks * shape.in_blocks * shape.weight_rows()
                    vectors = blocks * shape.out_parts * height * width
                    # Weights that stay are loaded during all tiles of the previous pass.
                    weights = joins * self._wgt / (maps if tile.group else 1)
                    moved = self._out + shape.tail.loads * self._inp
                    params = blocks * shape.out_parts * shape.classes * self._par
                    instructions = tiles * (3 * steps + 3) * self._instruction_beats
                    others = params + vectors * moved + instructions
                    yield _Pass(
                        maps * groups,
                        tiles,
                        vectors * self._vector_cycles,
                        joins * height * width * shape.needed,
                        inputs * (1 if tile.keep_inputs else tiles) + weights + others,
                        inputs + (0 if tile.group else joins * self._wgt / tiles),
                    )


class _Pass(NamedTuple):
    """Work of each of `times` equal passes: accumulated tiles, ALU cycles, products, beats.

    `tile_beats` are those that the first tile has to wait for.
    """

    times: int
    tiles: int
    vector_cycles: int
    products: float
    beats: float
    tile_beats: float

    @property
    def computing(self) -> float:
        """The busier of multipliers and ALU."""
        return max(self.products, self.vector_cycles)


def _sizes(extent: int, size: int) -> list[tuple[int, int]]:
    """(size, count) of the tiles of one dimension; the smaller remainder is last."""
    whole, rest = divmod(extent, size)
    return [(size, whole), *([(rest, 1)] if rest else [])]
