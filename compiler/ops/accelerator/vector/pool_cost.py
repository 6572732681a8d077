"""What a tile of a pool costs: vectors loaded and held, and the ALU's cycles."""

from collections.abc import Sequence
from functools import cache, partial

from daedal.compiler.codegen.padding import interiors
from daedal.compiler.codegen.window_nests import operation_cycles
from daedal.compiler.codegen.windows import Windows, is_neutral
from daedal.compiler.ops.accelerator.vector.tile import Tile, TileWork
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.latencies import alu_latency_cycles
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
        self._operation, self._variant = operation, variant
        *_, self._parts, batch, lanes = func.outputs[0].shape
        self.row = batch * lanes
        self.odd_rows = self._parts % 2 == 1 and kernel[0] > 1
        self._outputs = func.outputs[0].shape[2:4]
        accepts = partial(is_neutral, operation, bits=variant.array.input_bits)
        maps = [part for buffer, part in interiors(func, accepts).items() if buffer.name == "wide"]
        self._interior = maps[0].ranges[2:4] if maps else None

    def work(self, tile: Tile) -> TileWork:
        """The work of a tile of the result."""
        c, h, w = tile
        height = (h - 1) * self._strides[0] + self._kernel[0]
        width = (w - 1) * self._strides[1] + self._kernel[1]
        pitch = width + (self.odd_rows and width % 2 == 0)
        vectors = self._parts * c
        inside = self._inside(0, h, height), self._inside(1, w, width)
        cycles = self._cycles(0, h, self._parts * pitch, vectors * len(inside[1]), inside[0])
        cycles += self._cycles(1, w, self._parts, vectors * h, inside[1])
        return TileWork(c * height * width, (c * height * pitch,), alu_cycles=cycles)

    def _inside(self, dim: int, count: int, size: int) -> range:
        """The positions along `dim` of a tile that are not padding, of `size`.

        Of one or two tiles, each has padding; of more, most have none.
        """
        if self._interior is None or self._outputs[dim] > 2 * count:
            return range(size)
        part = self._interior[dim]
        return range(min(part.start, size), min(part.stop, size))

    def _cycles(self, dim: int, count: int, pitch: int, lines: int, inside: range) -> int:
        """Cycles to reduce `count` windows along `dim` in each of `lines` lines, whose positions
        are `pitch` accumulator rows apart."""
        windows = Windows(self._operation, self._kernel[dim], self._strides[dim], count == 1)
        return _line_cycles(windows, count, pitch, lines, inside, self._variant)


@cache
def _line_cycles(
    windows: Windows, count: int, pitch: int, lines: int, inside: range, variant: Variant
) -> int:
    latency = alu_latency_cycles(variant) + 1

    def cost(distance: int) -> int:
        return operation_cycles(variant, distance * pitch)

    total = 0
    for step in windows.steps(count, cost, inside):
        each = cost(step.distance)
        if step.chained:
            total += step.count * max(lines * each, latency + RESULT_CYCLES)
        else:
            total += max(step.count * lines * each, latency)
    return total
