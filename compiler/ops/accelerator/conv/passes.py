"""`ConvPasses`: what the tiles of a convolution make the units do, pass by pass.

A pass has all output blocks of a tile of the map, or those of them whose weights stay on chip.
Input: shape, variant, and tiles as columns, one for each field of `ConvTile`. Output: `Pass`es.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, ceil_div
from daedal.compiler.space import Column, Table
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import instruction_bytes
from daedal.isa.variant import Variant

__all__ = ["ConvPasses", "Pass", "total"]


class Pass(NamedTuple):
    """Work of each of `times` equal passes: accumulated tiles, output vectors, ALU cycles,
    products, beats, instructions.

    Weights that stay on chip are in none. `tile_beats` are those that the first tile waits for.
    """

    times: Column
    tiles: Column
    vectors: Column
    vector_cycles: Column
    products: Floats
    beats: Floats
    tile_beats: Floats
    instructions: Floats

    @property
    def computing(self) -> Floats:
        """The busier of multipliers and ALU."""
        busier: Floats = np.maximum(self.products, self.vector_cycles)
        return busier


class ConvPasses:
    """The passes of one convolution's tiles."""

    def __init__(self, shape: ConvShape, variant: Variant) -> None:
        pads = scratchpads(variant)
        self._shape = shape
        self.inp, self.wgt, self.out, self.par = (
            pads[memory].row_beats(variant)
            for memory in (Memory.INP, Memory.WGT, Memory.OUT, Memory.PAR)
        )
        """Beats of a row of each memory."""
        self.vector_cycles = shape.tail.vector_cycles(variant)
        """ALU cycles for an output vector."""
        self._instruction_beats = instruction_bytes(variant) // variant.bus_bytes

    def steps(self, tiles: Table) -> Column:
        """Steps of the reduction."""
        rows, columns = self._shape.kernel
        windows = ceil_div(rows, tiles["tap_rows"]) * ceil_div(columns, tiles["tap_columns"])
        return ceil_div(self._shape.in_blocks, tiles["in_blocks"]) * windows

    def joined_steps(self, tiles: Table) -> Column:
        """GEMM instructions of a tile. One does all steps if no LOAD comes between them, as both
        operands stay, and all steps are equal."""
        equal = self._shape.in_blocks % tiles["in_blocks"] == 0
        joins = (tiles["keep_inputs"] > 0) & (tiles["group"] > 0) & equal
        return np.where(joins, 1, self.steps(tiles))

    def blocks(self, tiles: Table) -> Column:
        """Output blocks of a pass."""
        most = self._shape.out_blocks
        return np.where(tiles["group"] > 0, np.minimum(tiles["group"], most), most)

    def first_share(self, tiles: Table) -> Floats:
        """Share of the first tile in its pass."""
        share: Floats = tiles["out_blocks"] / self.blocks(tiles)
        return share

    def turns(self, tiles: Table) -> Column:
        """How often weights that stay are loaded."""
        # The groups of a grouped convolution have weights of their own.
        reloads = self._shape.batches if self._shape.groups > 1 else 1
        return ceil_div(self._shape.out_blocks, self.blocks(tiles)) * reloads

    def maps_of_turn(self, tiles: Table) -> Column:
        """Tiles of the map between two loads of weights that stay."""
        shape = self._shape
        maps = ceil_div(shape.height, tiles["height"]) * ceil_div(shape.width, tiles["width"])
        return maps * (1 if shape.groups > 1 else shape.batches)

    def input_beats(self, tiles: Table, height: Column, width: Column) -> Floats:
        """Beats of the inputs of a tile of the output map."""
        shape = self._shape
        loaded = total(
            num_rows * num_columns * shape.loaded_rows(height, width, (rows, columns))
            for rows, num_rows in _sizes(shape.kernel[0], tiles["tap_rows"])
            for columns, num_columns in _sizes(shape.kernel[1], tiles["tap_columns"])
        )
        return shape.in_blocks * loaded * self.inp

    def kept_weights(self, tiles: Table) -> Floats:
        """Beats of the weights that stay on chip; 0 if they are streamed."""
        blocks = np.minimum(tiles["group"], self._shape.out_blocks).astype(np.float64)
        return blocks * (self._shape.in_blocks * self._shape.weight_rows() * self.wgt)

    def all(self, tiles: Table) -> Iterator[Pass]:
        """Each kind of tile of the map, with the output blocks of one group; the largest first.

        Of a kind that a tile does not have, `times` is 0.
        """
        shape = self._shape
        steps = self.steps(tiles)
        keeps = tiles["group"] > 0
        for height, rows in _sizes(shape.height, tiles["height"]):
            for width, columns in _sizes(shape.width, tiles["width"]):
                maps = rows * columns * shape.batches
                inputs = self.input_beats(tiles, height, width)
                for blocks, groups in _sizes(shape.out_blocks, self.blocks(tiles)):
                    count = ceil_div(blocks, tiles["out_blocks"])
                    joins = blocks * (shape.in_blocks * shape.weight_rows())
                    vectors = blocks * shape.out_parts * height * width
                    weights = joins * self.wgt * np.where(keeps, 0, 1)
                    moved = self.out + shape.tail.loads * self.inp
                    params = blocks * (shape.out_parts * shape.classes * self.par)
                    reads = np.where(tiles["keep_inputs"] > 0, 1, count)
                    # Kept weights are loaded for the first tile of the map only.
                    loads = reads + count / np.where(keeps, np.maximum(maps, 1), 1)
                    products = self.joined_steps(tiles)
                    instructions = steps * loads + count * (products + 3 + shape.tail.instructions)
                    others = params + vectors * moved + instructions * self._instruction_beats
                    streamed = tiles["out_blocks"] * (
                        shape.in_blocks * shape.weight_rows() * self.wgt
                    )
                    yield Pass(
                        maps * groups,
                        count,
                        vectors,
                        vectors * self.vector_cycles,
                        np.asarray(joins * height * width * shape.needed, np.float64),
                        inputs * reads + weights + others,
                        inputs + np.where(keeps, 0, streamed),
                        instructions,
                    )


def _sizes(extent: int, size: Column) -> list[tuple[Column, Column]]:
    """(size, count) of the tiles of one dimension: whole ones, and the remainder."""
    whole, rest = np.divmod(extent, size)
    return [(size, whole), (rest, np.minimum(rest, 1))]


def total(terms: Iterable[npt.NDArray[Any]]) -> Floats:
    """The sum."""
    result: Floats = np.sum(list(terms), axis=0, dtype=np.float64)
    return result
