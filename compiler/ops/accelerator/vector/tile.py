"""Cost and choice of tiles for operators that only the ALU computes.

Input: what a tile loads, holds and computes, as a function of its size. Output: the size that fits
with the fewest estimated cycles.
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

BESIDE = 0.03
"""Additional cycles that a tile may take so that another layer's tile fits beside it."""

Tile = tuple[int, int, int]
"""Channel blocks, rows and columns of the output."""


@dataclass(frozen=True)
class TileWork:
    """The work of a tile before requantization, per vector of a channel block.

    Parameters
    ----------
    loaded : vectors loaded into the accumulators.
    held : rows of each accumulator buffer in use at once.
    operations : vectors that go through the ALU, as if each took one cycle.
    alu_cycles : cycles of the ALU for all vectors of a channel, instead of `operations`.
    """

    loaded: int
    held: tuple[int, ...]
    operations: int = 0
    alu_cycles: int = 0


def accumulation(steps: int, targets: int, variant: Variant) -> int:
    """Cycles of `steps` operations on each of `targets` rows. A row accepts the next operation only
    after the last result is written."""
    return steps * max(targets, alu_latency_cycles(variant) + 1)


class VectorTiles:
    """The possible tiles of a function whose output is (NB, CB, H, W, U, batch, lanes).

    Parameters
    ----------
    work : the work of a tile.
    grain : rows and columns are multiples of these.
    blocks : channel blocks of every tile; None to choose them.
    overlapping : whether neighbouring tiles share operands (a halo). Then tiles of several partial
        rows are tried too, because they share less.
    moves : whether the results are moved to OUT and not requantized.
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
        moves: bool = False,
    ) -> None:
        self._func = func
        self._variant = variant
        self._work = work
        self._grain = grain
        self._blocks = blocks
        self._overlapping = overlapping
        self._lanes = variant.units.alu_lanes if moves else variant.units.requantize_lanes
        self._parts = func.outputs[0].shape[4]

    def best(self) -> Tile:
        """The tile with the fewest estimated cycles, of those that fit twice (or once, if none
        does).

        Of the tiles that cost little more and leave room to another layer's in the same half of the
        accumulators, the one with the fewest rows is taken instead: the linker can then interleave
        the two layers (`compiler.link.interleave`), and this one ends soon after the other.

        Raises
        ------
        ScheduleError
            Not even the smallest tile fits.
        """
        for share in (2, 1):
            fitting = list(self.fitting(share))
            if fitting:
                best = min(fitting, key=self.cycles)
                limit = (1 + BESIDE) * self.cycles(best)
                small = [tile for tile in self.fitting(2 * share) if self.cycles(tile) <= limit]
                return min(small, key=lambda tile: (tile[1], self.cycles(tile)), default=best)
        variant, pad = self._variant, scratchpad(self._variant, Memory.ACC)
        need = self._parts * sum(self._work((1, *self._grain)).held) * pad.row_bytes
        raise ScheduleError(
            f"a window of {self._func.name!r} must fit scratchpad 'acc' of "
            f"{variant.memory.acc_bytes} bytes, and takes {need}; use a variant with a larger one"
        )

    def fitting(self, share: int) -> Iterator[Tile]:
        """Tiles that take at most 1/`share` of the scratchpads."""
        capacity = Capacity(self._variant, share)
        _, channels, height, width, parts, _, _ = self._func.outputs[0].shape
        for c in tile_sizes(channels) if self._blocks is None else [self._blocks]:
            for h, w in map_sizes(height, width, self._grain, self._overlapping):
                if parts * c * h * w > capacity.out:
                    continue
                held = self._work((c, h, w)).held
                # Buffers alternate between the halves of the accumulators: if a tile has
                # several, a buffer of the next tile shares a half with one of this tile.
                room = capacity.acc // share if len(held) > 1 else capacity.acc
                if parts * sum(held) <= capacity.acc and parts * max(held) <= room:
                    yield c, h, w

    def cycles(self, tile: Tile) -> int:
        """Estimated cycles. Tiles overlap, so the busier of bus and ALU counts. For the first and
        the last tile, the other one is not hidden and counts too."""
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
        alu += work.alu_cycles + vectors * -(-elements // self._lanes)
        return count * (max(bus, alu) + TILE_CYCLES) + min(bus, alu)


def map_sizes(
    height: int, width: int, grain: tuple[int, int], overlapping: bool = False
) -> list[tuple[int, int]]:
    """Tile sizes: whole rows, from all to `grain`, then parts of `grain` or any number of rows."""
    heights, widths = (
        [count * step for count in tile_sizes(size // step)]
        for size, step in zip((height, width), grain, strict=True)
    )
    cut = heights if overlapping else [grain[0]]
    return [(h, width) for h in heights] + [(h, w) for h in cut for w in widths[1:]]
