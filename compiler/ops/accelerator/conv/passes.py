"""`ConvPasses`: what the tiles of a convolution make the units do, pass by pass.

A pass has all output blocks of a tile of the map, or those of them whose weights stay on chip.
Input: shape, variant, and tiles as columns, one for each field of `ConvTile`. Output: `Pass`es.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from daedal.compiler.cost.kept_constants import LEAST_BUSY, SHARES, least_saved
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.ops.accelerator.conv.shape import ConvShape
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, ceil_div
from daedal.compiler.ops.space import Column, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpads
from daedal.isa.table import LoadMemory, Opcode
from daedal.isa.variant import Variant

__all__ = ["ConvPasses", "Pass", "PassUnits", "total"]


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


class PassUnits:
    """What the units of a variant take for a row of each memory, and for an output vector.

    With `keeps`, constants that tiles load again stay on chip where the linker keeps them in a
    program of this layer alone.
    """

    def __init__(
        self, shape: ConvShape, variant: Variant, memory: MemoryModel = DDR, *, keeps: bool = False
    ) -> None:
        machine = self.machine = machine_cost(variant, memory)
        self.shape = shape
        self.inp, self.out, self.par = (
            machine.row_cycles[pad] for pad in (Memory.INP, Memory.OUT, Memory.PAR)
        )
        self.wgt: Column | Floats = np.asarray(machine.row_cycles[Memory.WGT])
        """Cycles of a row of each memory on the bus; of OUT, of a result."""
        if np.any(shape.narrow_weights):
            narrow = machine.transfer_cycles[Opcode.LOAD, LoadMemory.WGT_NARROW.value]
            self.wgt = np.where(shape.narrow_weights, narrow, self.wgt)
        self.out = self.out * shape.tail.stored
        pads = scratchpads(variant)
        self.most_kept = {
            name: keeps * share * pads[name].depth_rows for name, share in SHARES.items()
        }
        """Rows of each memory that constants may keep."""
        self.vector_cycles = shape.tail.vector_cycles(machine)
        """ALU cycles for an output vector."""


class ConvPasses:
    """The passes of tiles of one convolution, or of several if the numbers of `shape` are columns.

    Attributes
    ----------
    steps : of the reduction.
    joined_steps : GEMM instructions of a tile. One does all steps if no LOAD comes between them, as
        both operands stay, and all steps are equal.
    blocks : output blocks of a pass.
    first_share : share of the first tile in its pass.
    turns : how often weights that stay are loaded.
    maps_of_turn : tiles of the map between two loads of weights that stay.
    kept_weights : beats of the weights that stay on chip; 0 if they are streamed.
    """

    def __init__(self, units: PassUnits, tiles: Table) -> None:
        self._units = units
        self._shape = units.shape
        self.tiles = tiles

    @cached_property
    def steps(self) -> Column:
        rows, columns = self._shape.kernel
        windows = ceil_div(rows, self.tiles["tap_rows"])
        windows = windows * ceil_div(columns, self.tiles["tap_columns"])
        return ceil_div(self._shape.in_blocks, self.tiles["in_blocks"]) * windows

    @cached_property
    def joined_steps(self) -> Column:
        equal = self._shape.in_blocks % self.tiles["in_blocks"] == 0
        joins = (self.tiles["keep_inputs"] > 0) & (self.tiles["group"] > 0) & equal
        return np.where(joins, 1, self.steps)

    @cached_property
    def blocks(self) -> Column:
        most, group = self._shape.out_blocks, self.tiles["group"]
        return np.where(group > 0, np.minimum(group, most), most)

    @cached_property
    def first_share(self) -> Floats:
        share: Floats = self.tiles["out_blocks"] / self.blocks
        return share

    @cached_property
    def turns(self) -> Column:
        return ceil_div(self._shape.out_blocks, self.blocks) * self._shape.weight_sets

    @cached_property
    def maps_of_turn(self) -> Column:
        shape = self._shape
        maps = ceil_div(shape.height, self.tiles["height"])
        maps = maps * ceil_div(shape.width, self.tiles["width"])
        return maps * (shape.batches // shape.weight_sets)

    @cached_property
    def kept_weights(self) -> Floats:
        blocks = np.minimum(self.tiles["group"], self._shape.out_blocks).astype(np.float64)
        return blocks * (self._shape.in_blocks * self._shape.weight_rows() * self._units.wgt)

    @cached_property
    def _taps(self) -> Sequence[tuple[Column, Column, Column]]:
        """Rows and columns of the window that are loaded at once, and how often."""
        return [
            (rows, columns, num_rows * num_columns)
            for rows, num_rows in _sizes(self._shape.kernel[0], self.tiles["tap_rows"])
            for columns, num_columns in _sizes(self._shape.kernel[1], self.tiles["tap_columns"])
        ]

    def input_beats(self, height: Column, width: Column) -> Floats:
        """Beats of the inputs of a tile of the output map."""
        shape = self._shape
        loaded = total(
            count * shape.loaded_rows(height, width, (rows, columns))
            for rows, columns, count in self._taps
        )
        return shape.in_blocks * loaded * self._units.inp

    @property
    def first(self) -> Pass:
        """That of the largest tile of the map, as it is scheduled."""
        first, *_ = self._scheduled[0]
        return first

    @cached_property
    def all(self) -> Sequence[Pass]:
        """Each kind of tile of the map, with the output blocks of one group; the largest first.

        Of a kind that a tile does not have, `times` is 0. Constants that the linker keeps on chip
        (`daedal.compiler.cost.kept_constants`) are only in `first`.
        """
        found = [item for item, *_ in self._scheduled]
        if not any(self._units.most_kept.values()):
            return found
        bus = self.kept_weights * self.turns + total(item.times * item.beats for item in found)
        computing = [
            total(item.times * busy for item, busy in zip(found, column, strict=True))
            for column in zip(*((item.products, item.vector_cycles) for item in found), strict=True)
        ]
        weights_stay, params_stay = self._stay
        saved = [
            weights * weights_stay + params * params_stay for _, weights, params in self._scheduled
        ]
        gain = total(item.times * beats for item, beats in zip(found, saved, strict=True))
        gain = gain * (1 - 1 / self.maps_of_turn)
        pays = (bus >= LEAST_BUSY * np.maximum(*computing)) & (gain >= least_saved(bus))
        return [
            item._replace(beats=item.beats - np.where(pays, beats, 0.0))
            for item, beats in zip(found, saved, strict=True)
        ]

    @property
    def _stay(self) -> tuple[Floats, Floats]:
        """The shares of streamed weights, and of parameters, that have the rows to stay: those of
        whole steps and tiles."""
        shape, tiles, most = self._shape, self.tiles, self._units.most_kept
        taps = tiles["tap_rows"], tiles["tap_columns"]
        step = tiles["out_blocks"] * tiles["in_blocks"] * shape.weight_rows(taps)
        weights = shape.out_blocks * shape.in_blocks * shape.weight_rows() * shape.weight_sets
        vector = shape.out_parts * shape.classes
        params = shape.out_blocks * vector * shape.weight_sets
        return (
            _share(weights, step, most[Memory.WGT]),
            _share(params, tiles["out_blocks"] * vector, most[Memory.PAR]),
        )

    @cached_property
    def _scheduled(self) -> Sequence[tuple[Pass, Floats, Floats]]:
        """Each kind of tile as it is scheduled, and its beats of streamed weights and of
        parameters."""
        shape, units, tiles = self._shape, self._units, self.tiles
        keeps = tiles["group"] > 0
        kinds = [
            (blocks, groups, ceil_div(blocks, tiles["out_blocks"]))
            for blocks, groups in _sizes(shape.out_blocks, self.blocks)
        ]
        weight_rows = shape.in_blocks * shape.weight_rows()
        streamed = np.where(keeps, 0, tiles["out_blocks"] * (weight_rows * units.wgt))
        moved = units.out + shape.tail.loaded * units.inp
        row_params = shape.out_parts * shape.classes * units.par
        per_tile = self.joined_steps + 3 + shape.tail.instructions
        found = []
        for height, rows in _sizes(shape.height, tiles["height"]):
            for width, columns in _sizes(shape.width, tiles["width"]):
                maps = rows * columns * shape.batches
                inputs = self.input_beats(height, width)
                pixels = height * width
                for blocks, groups, count in kinds:
                    joins = blocks * weight_rows
                    vectors = blocks * shape.out_parts * pixels
                    weights = np.where(keeps, 0, joins * units.wgt)
                    reads = np.where(tiles["keep_inputs"] > 0, 1, count)
                    # Kept weights are loaded for the first tile of the map only.
                    loads = reads + count / np.where(keeps, np.maximum(maps, 1), 1)
                    instructions = self.steps * loads + count * per_tile
                    others = blocks * row_params + vectors * moved
                    others = others + instructions * units.machine.instruction_cycles
                    item = Pass(
                        maps * groups,
                        count,
                        vectors,
                        vectors * units.vector_cycles,
                        np.asarray(joins * pixels * shape.needed, np.float64),
                        inputs * reads + weights + others,
                        inputs + streamed,
                        instructions,
                    )
                    params = np.asarray(blocks * row_params, np.float64)
                    found.append((item, np.asarray(weights, np.float64), params))
        return found


def _sizes(extent: int, size: Column) -> list[tuple[Column, Column]]:
    """(size, count) of the tiles of one dimension: whole ones, and the remainder."""
    whole = np.asarray(extent // size)
    rest = extent - whole * size
    return [(size, whole), (rest, np.minimum(rest, 1))]


def _share(rows: Column | int, part: Column, most: float) -> Floats:
    """The share of `rows` in whole parts that `most` rows hold."""
    held: Floats = np.where(rows <= most, rows, most // part * part) / rows
    return held


def total(terms: Iterable[npt.NDArray[Any]]) -> Floats:
    """The sum, in the order of the terms whatever the number of rows."""
    first, *others = terms
    result = first.astype(np.float64)
    for term in others:
        result += term
    return result
