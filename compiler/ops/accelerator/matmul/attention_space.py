"""`AttentionSpace`: the schedules of the two layers of attention on a variant.

A tile has all channels of its pixels, so the knobs are rows and columns of its map.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.ops.accelerator.matmul.space import MatmulSpace
from daedal.compiler.ops.accelerator.tiles.capacity import tile_sizes
from daedal.compiler.ops.accelerator.tiles.tile_space import Mask
from daedal.compiler.ops.space import Column, Table
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["MASK_STAGES", "AttentionSpace", "images_of_tile", "keeps_mask"]

MASK_STAGES = ("low_mask", "wide_mask")

_KEPT_SHARE = 4
"""A mask stays on chip if it takes at most one of so many parts of the accumulators."""

TILE_CYCLES = 64
"""As that of `MatmulSpace`. Here the ALU works on a tile in many stages, and each waits for the
results of the one before."""

_LOOKUPS = ("bytes", "inverse", "y")
_OF_BLOCKS = ("tops", "distance", "normal", "divided", "y")
_OVER_BLOCKS = "tops"
_WITH_TWO_OPERANDS = ("masked", "tops", "distance", "normal", "divided")
_WITHOUT_ALU = ("left", "right", "constant", "product", "rows", "cols", *MASK_STAGES)
_OWN_ROWS = ("bytes", "tops", "mantissa", "amount", "rows")


class _Stage(NamedTuple):
    """ALU operations: how many for each pixel, in how many blocks, and cycles of one.

    With `two_operands`, both come from the accumulators: in every other block, from one bank, if a
    block has an odd number of rows. Of `rounds` operations for a pixel, each waits for the result
    of the one before: a maximum over blocks has one row for all of them.
    """

    blocks: int
    times: int
    cycles: int
    two_operands: bool
    rounds: int


def images_of_tile(func: PrimFunc) -> int:
    """Images of a tile: all, if together they have no more pixels than a block has channels, as the
    heads of a single token. Then a tile for each would take the ALU's instructions, and wait for
    its results, again for a few rows."""
    (images, _, height, width, *_, lanes), others = func.outputs[0].shape, func.params[1].shape[0]
    return images if images == others and images * height * width <= lanes else 1


def keeps_mask(func: PrimFunc, variant: Variant) -> bool:
    """Whether the mask of all pixels stays in the accumulators."""
    rows = _mask_rows(func)
    return rows * _KEPT_SHARE <= scratchpad(variant, Memory.ACC).depth_rows


def _mask(func: PrimFunc) -> Buffer | None:
    return next((x for x in func.inputs if x.name == "mask"), None)


def _mask_rows(func: PrimFunc) -> int:
    """Accumulator rows of the whole mask, with blocks of zeros; 0 if there is none."""
    mask = _mask(func)
    if mask is None:
        return 0
    return int(np.prod(mask.shape[:-2])) // mask.shape[1] * func.outputs[0].shape[1]


def _mask_words(func: PrimFunc, variant: Variant) -> int:
    """Bus words of a row that is loaded."""
    mask = _mask(func)
    bits = 0 if mask is None else 8 * np.dtype(mask.dtype).itemsize
    return scratchpad(variant, Memory.ACC).elements * bits // variant.bus.data_bits


class AttentionSpace(MatmulSpace):
    """All tiles of a function of `daedal.compiler.ops.attention` that fit the scratchpads."""

    _tile_cycles = TILE_CYCLES

    def __init__(self, func: PrimFunc, variant: Variant) -> None:
        super().__init__(func, variant)
        self._images_of_tile = images_of_tile(func)
        self._has_rows = False
        self._result_latency = machine_cost(variant).reuse
        lanes = func.outputs[0].shape[-1]
        others = -(-lanes // variant.units.alu_lanes)
        shapes = {
            site.block.name: site.block.writes[0].buffer.shape for site in collect(func.body)[0]
        }
        self._masked_blocks = 0 if (mask := _mask(func)) is None else mask.shape[1] * self._parts
        blocks = dict.fromkeys(_OF_BLOCKS, self._blocks) | {"masked": self._masked_blocks}
        self._stages = [
            _Stage(
                blocks.get(name, 1),
                shapes["bytes"][0] if name in ("bytes", "zeros") else 1,
                self._result_cycles if name in _LOOKUPS else others,
                name in _WITH_TWO_OPERANDS and variant.memory.acc_banks > 2,
                self._blocks if name == _OVER_BLOCKS else 1,
            )
            for name in shapes
            if name not in _WITHOUT_ALU
        ]
        self._own_rows = sum(
            shapes[name][0] if name == "bytes" else 1 for name in _OWN_ROWS if name in shapes
        )
        self._mask_rows, self._mask_words = _mask_rows(func), _mask_words(func, variant)
        self._keeps_mask = keeps_mask(func, variant)

    def on(self, variant: Variant) -> "AttentionSpace":
        return AttentionSpace(self._func, variant)

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        height, width = (tile_sizes(size) for size in self._map)
        if self._images_of_tile > 1:  # More tiles would load the second operand again.
            height, width = ([size] for size in self._map)
        even = [size + size % 2 for size in height if size < self._map[0]]
        height = sorted({*height, *even}, reverse=True)
        return {"out_blocks": [self._outer], "height": height, "width": width}

    def holds(self, table: Table, share: int) -> Mask:
        held: Mask = super().holds(table, share)
        if self._mask_rows and self._keeps_mask:
            depth = scratchpad(self.variant, Memory.ACC).depth_rows
            held &= self._accumulators(table) * share + self._mask_rows <= depth
        return held

    def _pixels(self, table: Table) -> Column:
        return self._images_of_tile * super()._pixels(table)

    def _tiles(self, table: Table) -> Column:
        return super()._tiles(table) // self._images_of_tile

    def instructions(self, table: Table) -> tuple[Column, Column]:
        least, most = super().instructions(table)
        return least, most * self._images_of_tile

    def _accumulators(self, table: Table) -> Column:
        pixels = self._pixels(table)
        rows = pixels * (self._rows(table) + self._own_rows) + self._blocks
        if self._mask_rows and not self._keeps_mask:
            rows = rows + pixels * self._blocks
        return rows

    def _beats(self, table: Table) -> Column:
        vectors = self._mask_rows if self._keeps_mask else self._vectors
        loaded = vectors // self._blocks * self._masked_blocks
        return super()._beats(table) + self._mask_words * loaded

    def _tile_alu(self, table: Table) -> Column:
        pixels = self._pixels(table)
        found = [
            np.maximum(
                pixels
                * stage.times
                * stage.cycles
                * (stage.blocks + pixels % 2 * (stage.blocks // 2) * stage.two_operands),
                stage.rounds * self._result_latency,
            )
            for stage in self._stages
        ]
        return np.asarray(np.sum(found, axis=0))

    def _alu(self, table: Table) -> Column:
        return self._tiles(table) * self._tile_alu(table)
