"""`DepthwiseSpace`: the schedules of a depthwise convolution on a variant.

The knobs are the fields of `DepthwiseTile`.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from daedal.compiler.ops.accelerator.depthwise.bound import DepthwiseBound
from daedal.compiler.ops.accelerator.depthwise.cost import LATENCY_CYCLES, DepthwiseCost
from daedal.compiler.ops.accelerator.depthwise.instructions import DepthwiseInstructions
from daedal.compiler.ops.accelerator.depthwise.shape import DepthwiseShape, DepthwiseTile
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity, tile_sizes
from daedal.compiler.ops.accelerator.tiles.tile_space import Floats, Mask, TileSpace, chosen
from daedal.compiler.ops.accelerator.wide_results import result_rows
from daedal.compiler.ops.lower_bound import least_cycles
from daedal.compiler.ops.space import Column, Config, Table
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["DepthwiseSpace"]


class DepthwiseSpace(TileSpace):
    """All tiles of a depthwise convolution that fit the scratchpads."""

    def __init__(self, shape: DepthwiseShape, variant: Variant) -> None:
        super().__init__(variant)
        self.shape = shape
        self._block_out = variant.array.block_out
        self._capacity = Capacity(variant, 1)

    def on(self, variant: Variant) -> "DepthwiseSpace":
        return DepthwiseSpace(self.shape, variant)

    def latency_cycles(self, memory: MemoryModel) -> float:
        del memory
        return LATENCY_CYCLES

    @cached_property
    def knobs(self) -> Mapping[str, Sequence[int]]:
        shape = self.shape
        return {
            "height": tile_sizes(shape.height),
            "width": tile_sizes(shape.width),
            "blocks": tile_sizes(shape.blocks),
            "groups": [1 << power for power in range(shape.blocks.bit_length() + 1)],
            "keep_padding": [0, 1] if shape.skips_padding else [0],
        }

    def possible(self, table: Table) -> Mask:
        found = np.ones(len(table["height"]), dtype=np.bool_)
        if "blocks" in table:
            found &= self._holds_maps(table, self._capacity)
        if "groups" in table:
            found &= self._holds_constants(table, self._capacity)
        return found

    def holds(self, table: Table, share: int) -> Mask:
        capacity = Capacity(self.variant, share)
        held: Mask = self._holds_maps(table, capacity) & self._holds_constants(table, capacity)
        return held

    def _holds_maps(self, table: Table, capacity: Capacity) -> Mask:
        shape, blocks = self.shape, table["blocks"]
        rows, columns = shape.input_size(table["height"], table["width"])
        vectors = blocks * table["height"] * table["width"]
        results = result_rows(capacity, shape.tail.stored)
        most = np.minimum(capacity.acc // (1 + shape.tail.rows), results)
        held: Mask = (blocks * rows * columns <= capacity.inp) & (vectors <= most)
        return held

    def _holds_constants(self, table: Table, capacity: Capacity) -> Mask:
        """Whether the weights and parameters that are loaded at once fit; no group has more tiles
        than the next power of two after those of the layer."""
        shape = self.shape
        asked = table["blocks"] * table["groups"]
        channels = np.minimum(asked, shape.blocks)
        # A part of the weights may begin within a row and then takes one more row.
        weights = shape.weight_rows(channels, self._block_out) + 1
        params = channels + shape.tail.requantizes
        useful = (table["groups"] == 1) | (asked < 2 * shape.blocks)
        held: Mask = useful & (params <= capacity.par) & (weights <= capacity.wgt)
        return held

    def usual(self, table: Table) -> Table:
        """Several blocks of channels only where they have the whole map; products with padding are
        left out unless GEMM waits for the bus anyway."""
        shape = self.shape
        whole = (table["height"] == shape.height) & (table["width"] == shape.width)
        keeps = self._cost.waits_for_bus(table) & shape.skips_padding
        return chosen(table, (whole | (table["blocks"] == 1)) & (table["keep_padding"] == keeps))

    def cycles(self, table: Table) -> Floats:
        return self._cost.cycles(table)

    def cycles_with(self, table: Table, memory: MemoryModel) -> Floats:
        cost = DepthwiseCost(self.shape, self.variant, memory, overlaps=self.share > 1)
        return cost.cycles(table)

    def bound(self, table: Table, memory: MemoryModel) -> Floats:
        work = DepthwiseBound(self.shape, self.variant).work(table)
        return least_cycles(work, self.variant, memory)

    def instructions(self, table: Table) -> tuple[Column, Column]:
        least, most = DepthwiseInstructions(self.shape, self.variant).bounds(table)
        return least[np.newaxis], most[np.newaxis]

    def features(self, table: Table) -> dict[str, Floats]:
        return self._cost.features(table)

    @cached_property
    def _cost(self) -> DepthwiseCost:
        return DepthwiseCost(self.shape, self.variant, overlaps=self.share > 1)

    def misfit(self) -> str:
        height, width = self.shape.input_size(1, 1)
        need = height * width * scratchpad(self.variant, Memory.INP).row_bytes
        return (
            "a depthwise convolution's window must fit scratchpad 'inp' "
            f"({self.variant.memory.inp_bytes} bytes) and its weights 'wgt'; one window of "
            f"{height}x{width} pixels takes {need} bytes; use a variant with larger scratchpads"
        )

    @staticmethod
    def tile(config: Config) -> DepthwiseTile:
        """The decisions of a configuration."""
        return DepthwiseTile(
            config["blocks"],
            config["height"],
            config["width"],
            config["groups"],
            bool(config["keep_padding"]),
        )
