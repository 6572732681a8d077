"""`ConvCost`: the estimated cost of a convolution's tiles, from bytes, products and their overlap.

Input: shape, variant, and tiles as columns, one for each field of `ConvTile`. Output: estimated
cycles, by which `ConvSpace` ranks configurations, and what a learned cost model sees of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.space import Column, Table
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import instruction_bytes
from daedal.isa.variant import Variant

__all__ = ["ConvCost", "ConvTile"]

TRANSFER_CYCLES = 100
"""From the request of the first row to the first product, and from the last one to the end."""

TILE_CYCLES = 4
"""Cycles that an accumulated tile takes beyond its work, about: units wait for each other."""


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


_Floats = npt.NDArray[np.float64]


class ConvCost:
    """Estimated cycles of the tiles of one convolution.

    Tables have the columns ``height``, ``width``, ``out_blocks``, ``in_blocks``, ``group``,
    ``keep_inputs``, ``tap_rows`` and ``tap_columns``, with the meaning of the fields of `ConvTile`.
    """

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

    def cycles(self, tiles: Table) -> _Floats:
        """Cycles of the busier of multipliers and bus in each pass, plus what does not overlap.

        Not overlapped are one step's load before the first product, one step's products after the
        last load, and a tile's requantization and store after the last product. Loads of the first
        accumulated tile overlap only with its own products. The last store is after everything
        else that the bus does, so that it counts once. Without overlap, everything adds up.
        """
        passes = list(self._passes(tiles))
        last = tiles["out_blocks"] * self._shape.out_parts * tiles["height"] * tiles["width"]
        count = _total(item.times * item.tiles for item in passes)
        if not self._overlap:
            busy = _total(
                item.times * (item.products + item.vector_cycles + item.beats) for item in passes
            )
            return busy + count * (self._steps(tiles) + 2) * TRANSFER_CYCLES
        first = passes[0]
        kept = self._kept_weights(tiles)
        tile_beats = first.tile_beats + kept * tiles["out_blocks"] / np.maximum(tiles["group"], 1)
        products, computing = first.products / first.tiles, first.computing / first.tiles
        steps = np.where(self._joins_steps(tiles), 1, self._steps(tiles))
        step, store = products / steps, last * self._out
        loaded = tile_beats + np.maximum(step, computing - (steps - 1) * tile_beats / steps)
        alone = np.maximum(
            loaded + (first.tiles - 1) * computing, first.beats + kept - store + step
        )
        others = _total(item.times * np.maximum(item.computing, item.beats) for item in passes)
        others = others - np.maximum(first.computing, first.beats)
        end = np.minimum(last * self._vector_cycles, products) + store
        between = TILE_CYCLES * count + TRANSFER_CYCLES
        return _total([alone, others, end, between])

    def instructions(self, tiles: Table) -> _Floats:
        """Estimated number of instructions: one per load, product and operation of a tile."""
        return _total(item.times * item.instructions for item in self._passes(tiles))

    def beats(self, tiles: Table) -> _Floats:
        """Beats of everything that is moved."""
        kept = self._kept_weights(tiles)
        return _total([kept, *(item.times * item.beats for item in self._passes(tiles))])

    def features(self, tiles: Table) -> dict[str, _Floats]:
        """What a learned cost model sees: cycles of every unit, and sizes of a tile."""
        shape, passes = self._shape, list(self._passes(tiles))
        pixels = tiles["height"] * tiles["width"]
        taps = tiles["tap_rows"], tiles["tap_columns"]
        first = passes[0]
        vectors = tiles["out_blocks"] * shape.out_parts * pixels
        reads = _total(
            item.times * np.where(tiles["keep_inputs"] > 0, 1, item.tiles) for item in passes
        )
        found = {
            "estimate": self.cycles(tiles),
            "product_cycles": _total(item.times * item.products for item in passes),
            "vector_cycles": _total(item.times * item.vector_cycles for item in passes),
            "beats": self.beats(tiles),
            # What begins and ends the layer overlaps with nothing.
            "first_step_beats": first.tile_beats / self._steps(tiles),
            "first_tile_beats": first.tile_beats,
            "kept_weight_beats": self._kept_weights(tiles),
            "tile_product_cycles": first.products / first.tiles,
            "last_vector_cycles": vectors * self._vector_cycles,
            "last_beats": vectors * self._out,
            "input_beats": reads * self._input_beats(tiles, tiles["height"], tiles["width"]),
            "unbalanced_cycles": _total(
                item.times * np.maximum(item.computing, item.beats) for item in passes
            ),
            "instructions": self.instructions(tiles),
            "steps": self._steps(tiles),
            "tile_products": tiles["out_blocks"]
            * tiles["in_blocks"]
            * pixels
            * shape.weight_rows(taps),
            "accumulators": tiles["out_blocks"] * pixels * shape.out_parts * shape.accumulators,
            "input_rows": shape.input_rows(tiles["height"], tiles["width"], taps),
            "weight_rows": tiles["out_blocks"] * tiles["in_blocks"] * shape.weight_rows(taps),
            **{name: tiles[name] for name in tiles},
        }
        return {name: np.asarray(column, dtype=np.float64) for name, column in found.items()}

    def _steps(self, tiles: Table) -> Column:
        """Steps of the reduction."""
        rows, columns = self._shape.kernel
        windows = _ceil(rows, tiles["tap_rows"]) * _ceil(columns, tiles["tap_columns"])
        return _ceil(self._shape.in_blocks, tiles["in_blocks"]) * windows

    def _joins_steps(self, tiles: Table) -> npt.NDArray[np.bool_]:
        """Whether one GEMM does all steps: no LOAD comes between them, as both operands stay."""
        joins: npt.NDArray[np.bool_] = (tiles["keep_inputs"] > 0) & (tiles["group"] > 0)
        return joins

    def _input_beats(self, tiles: Table, height: Column, width: Column) -> _Floats:
        """Beats of the inputs of a tile of the output map."""
        shape = self._shape
        loaded = _total(
            num_rows * num_columns * shape.loaded_rows(height, width, (rows, columns))
            for rows, num_rows in _sizes(shape.kernel[0], tiles["tap_rows"])
            for columns, num_columns in _sizes(shape.kernel[1], tiles["tap_columns"])
        )
        return shape.in_blocks * loaded * self._inp

    def _kept_weights(self, tiles: Table) -> _Floats:
        """Beats of the weights that stay on chip; 0 if they are streamed."""
        blocks = np.minimum(tiles["group"], self._shape.out_blocks).astype(np.float64)
        return blocks * (self._shape.in_blocks * self._shape.weight_rows() * self._wgt)

    def _passes(self, tiles: Table) -> Iterator["_Pass"]:
        """Each kind of tile of the map, with the output blocks of one group; the largest first.

        Of a kind that a tile does not have, `times` is 0.
        """
        shape = self._shape
        steps = self._steps(tiles)
        keeps = tiles["group"] > 0
        groups_of = np.where(keeps, tiles["group"], shape.out_blocks)
        # The groups of a grouped convolution have weights of their own.
        reloads = shape.batches if shape.groups > 1 else 1
        num_loads = _ceil(shape.out_blocks, groups_of) * reloads
        later = (num_loads - 1) * reloads / num_loads
        for height, rows in _sizes(shape.height, tiles["height"]):
            for width, columns in _sizes(shape.width, tiles["width"]):
                maps = rows * columns * shape.batches
                inputs = self._input_beats(tiles, height, width)
                for blocks, groups in _sizes(shape.out_blocks, groups_of):
                    count = _ceil(blocks, tiles["out_blocks"])
                    joins = blocks * (shape.in_blocks * shape.weight_rows())
                    vectors = blocks * shape.out_parts * height * width
                    # Weights that stay are loaded during all tiles of the previous pass, the first
                    # ones before it.
                    weights = joins * self._wgt * np.where(keeps, later / np.maximum(maps, 1), 1)
                    moved = self._out + shape.tail.loads * self._inp
                    params = blocks * (shape.out_parts * shape.classes * self._par)
                    reads = np.where(tiles["keep_inputs"] > 0, 1, count)
                    # Kept weights are loaded for the first tile of the map only.
                    loads = reads + count / np.where(keeps, np.maximum(maps, 1), 1)
                    products = np.where(self._joins_steps(tiles), 1, steps)
                    instructions = steps * loads + count * (products + 3 + shape.tail.instructions)
                    others = params + vectors * moved + instructions * self._instruction_beats
                    streamed = joins * self._wgt / np.maximum(count, 1)
                    yield _Pass(
                        maps * groups,
                        count,
                        vectors * self._vector_cycles,
                        np.asarray(joins * height * width * shape.needed, np.float64),
                        inputs * reads + weights + others,
                        inputs + np.where(keeps, 0, streamed),
                        instructions,
                    )


class _Pass(NamedTuple):
    """Work of each of `times` equal passes: accumulated tiles, ALU cycles, products, beats,
    instructions.

    `tile_beats` are those that the first tile has to wait for.
    """

    times: Column
    tiles: Column
    vector_cycles: Column
    products: _Floats
    beats: _Floats
    tile_beats: _Floats
    instructions: _Floats

    @property
    def computing(self) -> _Floats:
        """The busier of multipliers and ALU."""
        return np.maximum(self.products, self.vector_cycles)


def _ceil(extent: int | Column, size: Column) -> Column:
    return -(-extent // size)


def _sizes(extent: int, size: Column) -> list[tuple[Column, Column]]:
    """(size, count) of the tiles of one dimension: whole ones, and the remainder."""
    whole, rest = np.divmod(extent, size)
    return [(size, whole), (rest, np.minimum(rest, 1))]


def _total(terms: Iterable[npt.NDArray[Any]]) -> _Floats:
    result: _Floats = np.sum(list(terms), axis=0, dtype=np.float64)
    return result
