"""What a tile of a pool costs: vectors loaded and held, and the ALU's cycles."""

from collections.abc import Sequence
from functools import cache

from daedal.compiler.codegen.window_nests import operation_cycles
from daedal.compiler.codegen.windows import Windows
from daedal.compiler.ops.accelerator.vector.tile import Tile, TileWork
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.latencies import alu_latency_cycles
from daedal.isa.table import AluOp
from daedal.isa.variant import Variant

__all__ = ["PoolCost"]


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
        self._operation, self._variant = operation, variant
        *_, self._parts, batch, lanes = func.outputs[0].shape
        self.row = batch * lanes
        self.odd_rows = self._parts % 2 == 1 and kernel[0] > 1

    def work(self, tile: Tile) -> TileWork:
        """The work of a tile of the result."""
        c, h, w = tile
        height = (h - 1) * self._strides[0] + self._kernel[0]
        width = (w - 1) * self._strides[1] + self._kernel[1]
        pitch = width + (self.odd_rows and width % 2 == 0)
        vectors = self._parts * c
        cycles = self._cycles(0, h, self._parts * pitch, vectors * width)
        cycles += self._cycles(1, w, self._parts, vectors * h)
        return TileWork(c * height * width, (c * height * pitch,), alu_cycles=cycles)

    def _cycles(self, dim: int, count: int, pitch: int, lines: int) -> int:
        """Cycles to reduce `count` windows along `dim` in each of `lines` lines, whose positions
        are `pitch` accumulator rows apart."""
        windows = Windows(self._operation, self._kernel[dim], self._strides[dim], count == 1)
        return _line_cycles(windows, count, pitch, lines, self._variant)


@cache
def _line_cycles(windows: Windows, count: int, pitch: int, lines: int, variant: Variant) -> int:
    latency = alu_latency_cycles(variant) + 1

    def cost(distance: int) -> int:
        return operation_cycles(variant, distance * pitch)

    total = 0
    for step in windows.steps(count, cost):
        each = cost(step.distance)
        if step.chained:
            total += step.count * max(lines * each, latency)
        else:
            total += max(step.count * lines * each, latency)
    return total
