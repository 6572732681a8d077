"""Tiles of operators that only the ALU computes: what one costs, and which is best.

Input: what a tile loads, holds and computes, as a function of its size. Output: the size with the
fewest estimated cycles of those that fit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from daedal.compiler.ops.accelerator.capacity import Capacity, tile_sizes
from daedal.compiler.tir.stmt import PrimFunc
from daedal.isa.errors import ScheduleError
from daedal.isa.latencies import alu_latency_cycles
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = [
    "TILE_CYCLES",
    "Tile",
    "TileWork",
    "VectorTiles",
    "accumulation",
    "map_sizes",
]

TILE_CYCLES = 24
"""What a tile costs beyond its work, about: instructions, tokens, latencies that do not overlap."""

Tile = tuple[int, int, int]
"""Channel blocks, rows and columns of the output."""


@dataclass(frozen=True)
class TileWork:
    """What a tile takes before its results are requantized, per vector of a channel block.

    Parameters
    ----------
    loaded : vectors loaded into the accumulators.
    held : rows of each accumulator buffer in use at once.
    operations : vectors that go through the ALU, as if each took one cycle.
    """

    loaded: int
    held: tuple[int, ...]
    operations: int = 0


def accumulation(steps: int, targets: int, variant: Variant) -> int:
    """Cycles of `steps` operations on each of `targets` rows: a row takes the next one only when
    the last is written."""
    return steps * max(targets, alu_latency_cycles(variant) + 1)


class VectorTiles:
    """The possible tiles of a function whose output is (NB, CB, H, W, U, batch, lanes).

    Parameters
    ----------
    work : what a tile takes.
    grain : rows and columns are multiples of these.
    blocks : channel blocks of every tile; free where None.
    overlapping : whether tiles share operands with their neighbours: then those of several rows
        and of parts of them are tried too, which share less.
    """

    def __init__(
        self,
        func: PrimFunc,
        variant: Variant,
        work: Callable[[Tile], TileWork],
        *,
        grain: tuple[int, int] = (1, 1),
        blocks: int | None = None,
        overlapping: bool = False,
    ) -> None:
        self._func = func
        self._variant = variant
        self._work = work
        self._grain = grain
        self._blocks = blocks
        self._overlapping = overlapping
        self._parts = func.outputs[0].shape[4]

    def best(self) -> Tile:
        """The tile with the fewest estimated cycles, of those that fit twice (or once, if none
        does).

        Raises
        ------
        ScheduleError
            Not even the smallest tile fits.
        """
        for share in (2, 1):
            fitting = list(self.fitting(share))
            if fitting:
                return min(fitting, key=self.cycles)
        variant, pad = self._variant, scratchpad(self._variant, Memory.ACC)
        need = self._parts * sum(self._work((1, *self._grain)).held) * pad.row_bytes
        raise ScheduleError(
            f"a window of {self._func.name!r} must fit scratchpad 'acc' of "
            f"{variant.memory.acc_bytes} bytes, and takes {need}; use a variant with a larger one"
        )

    def fitting(self, share: int) -> Iterator[Tile]:
        """Tiles that take at most one part in `share` of the scratchpads."""
        capacity = Capacity(self._variant, share)
        _, channels, height, width, parts, _, _ = self._func.outputs[0].shape
        for c in tile_sizes(channels) if self._blocks is None else [self._blocks]:
            for h, w in map_sizes(height, width, self._grain, self._overlapping):
                if parts * c * h * w > capacity.out:
                    continue
                held = self._work((c, h, w)).held
                # Buffers alternate between the halves of the accumulators: where a tile has
                # several, that of the next tile meets this one in the same half.
                room = capacity.acc // share if len(held) > 1 else capacity.acc
                if parts * sum(held) <= capacity.acc and parts * max(held) <= room:
                    yield c, h, w

    def cycles(self, tile: Tile) -> int:
        """Estimated cycles: tiles overlap, so the busier of bus and ALU counts; of the first and
        the last tile the other one is not hidden either."""
        variant, array = self._variant, self._variant.array
        batches, channels, height, width, parts, _, _ = self._func.outputs[0].shape
        c, h, w = tile
        count = batches * -(-channels // c) * -(-height // h) * -(-width // w)
        work = self._work(tile)
        vectors = parts * c * h * w
        elements = array.batch * array.block_out
        beats = scratchpad(variant, Memory.OUT).row_beats(variant)
        bus = (parts * work.loaded + vectors) * beats
        alu = parts * work.operations * -(-elements // variant.units.alu_lanes)
        alu += vectors * -(-elements // variant.units.requantize_lanes)
        return count * (max(bus, alu) + TILE_CYCLES) + min(bus, alu)


def map_sizes(
    height: int, width: int, grain: tuple[int, int], overlapping: bool = False
) -> list[tuple[int, int]]:
    """Whole rows, from all to `grain`, and then parts of as many rows, or of any number."""
    heights, widths = (
        [count * step for count in tile_sizes(size // step)]
        for size, step in zip((height, width), grain, strict=True)
    )
    cut = heights if overlapping else [grain[0]]
    return [(h, width) for h in heights] + [(h, w) for h in cut for w in widths[1:]]
