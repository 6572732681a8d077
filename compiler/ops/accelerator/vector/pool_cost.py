"""What a tile of a pool costs: vectors loaded and held, and the ALU's cycles."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import overload

import numpy as np

from daedal.compiler.codegen.padding import interiors
from daedal.compiler.codegen.window_nests import operation_cycles
from daedal.compiler.codegen.windows import Windows, is_neutral
from daedal.compiler.cost.machine import machine_cost
from daedal.compiler.graph.window_extents import Extent
from daedal.compiler.ops.accelerator.vector.tile import TileWork
from daedal.compiler.ops.space import Column, Table
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.table import AluOp
from daedal.isa.variant import Variant

__all__ = ["PoolCost"]

RESULT_CYCLES = 3
"""From a result's end of the pipeline to the first read of it (docs/hardware.md, ALU)."""


class PoolCost:
    """The costs of the tiles of a function of `daedal.compiler.ops.pooling`.

    Attributes
    ----------
    row : elements of a row of the accumulators.
    odd_rows : whether the rows of a map begin an odd number of accumulator rows apart, so that
        operands from neighbouring rows of the map are in different banks.
    """

    def __init__(
        self,
        func: PrimFunc,
        kernel: Sequence[int],
        strides: Sequence[int],
        operation: AluOp,
        variant: Variant,
    ) -> None:
        self._kernel, self._strides = kernel, strides
        self._operation = operation
        *_, self._parts, batch, lanes = func.outputs[0].shape
        self.row = batch * lanes
        self.odd_rows = self._parts % 2 == 1 and kernel[0] > 1
        self._outputs = func.outputs[0].shape[2:4]
        accepts = partial(is_neutral, operation, bits=variant.array.input_bits)
        maps = [part for buffer, part in interiors(func, accepts).items() if buffer.name == "wide"]
        self._interior = maps[0].ranges[2:4] if maps else None

    def work(self, tiles: Table) -> TileWork:
        """What tiles of the result load and hold."""
        height, width = self._sizes(tiles["height"], tiles["width"])
        loaded = tiles["blocks"] * height * width
        return TileWork(loaded, (tiles["blocks"] * height * self._pitch(width),))

    def alu_cycles(self, tiles: Table, variant: Variant) -> Column:
        """The ALU's cycles for each tile of the result."""
        blocks = self._parts * tiles["blocks"]
        shapes = np.stack([tiles["height"], tiles["width"]])
        known, numbers = np.unique(shapes, axis=1, return_inverse=True)
        found = np.zeros(len(blocks), dtype=np.int64)
        for number, (h, w) in enumerate(known.T.tolist()):
            rows = np.flatnonzero(numbers.reshape(-1) == number)
            found[rows] = self._shape_cycles(h, w, blocks[rows], variant)
        return found

    def _shape_cycles(self, h: int, w: int, vectors: Column, variant: Variant) -> Column:
        """The ALU's cycles for a tile of `h` x `w` results of each of `vectors` lanes."""
        height, width = self._sizes(h, w)
        inside = self._inside(0, h, height), self._inside(1, w, width)
        pitch = self._parts * self._pitch(width)
        down = self._cycles(0, h, pitch, vectors * len(inside[1]), inside[0], variant)
        return down + self._cycles(1, w, self._parts, vectors * h, inside[1], variant)

    @overload
    def _sizes(self, h: int, w: int) -> tuple[int, int]: ...
    @overload
    def _sizes(self, h: Column, w: Column) -> tuple[Column, Column]: ...
    def _sizes(self, h: Extent, w: Extent) -> tuple[Extent, Extent]:
        """Rows and columns that `h` x `w` windows take."""
        kernel, strides = self._kernel, self._strides
        return (h - 1) * strides[0] + kernel[0], (w - 1) * strides[1] + kernel[1]

    @overload
    def _pitch(self, width: int) -> int: ...
    @overload
    def _pitch(self, width: Column) -> Column: ...
    def _pitch(self, width: Extent) -> Extent:
        """Accumulator rows from one row of the map to the next."""
        return width + (width % 2 == 0) * self.odd_rows

    def _inside(self, dim: int, count: int, size: int) -> range:
        """The positions along `dim` of a tile that are not padding, of `size`.

        Of one or two tiles, each has padding; of more, most have none.
        """
        if self._interior is None or self._outputs[dim] > 2 * count:
            return range(size)
        part = self._interior[dim]
        return range(min(part.start, size), min(part.stop, size))

    def _cycles(
        self, dim: int, count: int, pitch: int, lines: Column, inside: range, variant: Variant
    ) -> Column:
        """Cycles to reduce `count` windows along `dim` in each of `lines` lines, whose positions
        are `pitch` accumulator rows apart."""
        windows = Windows(self._operation, self._kernel[dim], self._strides[dim], count == 1)
        latency = machine_cost(variant).reuse
        operation = _operation_cycles(variant, pitch)
        total = np.zeros(len(lines), dtype=np.int64)
        for step in windows.steps(count, operation, inside):
            each = operation(step.distance)
            if step.chained:
                total += step.count * np.maximum(lines * each, latency + RESULT_CYCLES)
            else:
                total += np.maximum(step.count * lines * each, latency)
        return total


def _operation_cycles(variant: Variant, pitch: int) -> Callable[[int], int]:
    """Cycles of an operation on two positions, by their distance."""
    return lambda distance: operation_cycles(variant, distance * pitch)
