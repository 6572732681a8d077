"""Interleaves a layer with the one before it, so that they run at the same time.

Units run in parallel, but a layer keeps few of them busy: a convolution the multipliers, a pool
the bus and the ALU. Their instructions are therefore mixed where a layer without products reads the
result of one with products: each tile of the second follows the tiles of the first that it reads.

Input: the segments of a program. Output: `Stretch`es, the instructions in program order.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice, takewhile

from daedal.compiler.codegen.segment import (
    Instance,
    Segment,
    SegmentInstruction,
)
from daedal.compiler.cost.instructions import num_steps
from daedal.compiler.link.on_chip.kept_results import keep_results
from daedal.compiler.link.on_chip.resident_rows import resident_rows
from daedal.compiler.link.ordering.begin_early import Early, begin_early
from daedal.compiler.link.ordering.follow_tiles import all_fit, follow_tiles
from daedal.compiler.link.ordering.order import ordered
from daedal.compiler.link.ordering.side_by_side import side_by_side
from daedal.compiler.link.ordering.tiles import Touched, Words, tiles_of
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["SHORTEST_TILE", "Stretch", "is_long", "stretches", "tile_rows"]

LAG = 1
"""Tiles of the first layer between the last one that a tile of the second reads and this tile.

LOAD is one in-order queue: a LOAD that waits for a STORE delays those of the next tiles. One tile
later, the STORE has probably been acknowledged."""


SHORTEST_TILE = 512
"""Products of a tile of the first layer, on average, from which interleaving pays.

A tile of the second layer waits about 200 cycles for a requantization and a STORE, and LOADs of the
first layer wait in the queue behind it. Products must continue during that time."""


@dataclass(frozen=True)
class Stretch:
    """One layer, or several that are interleaved.

    Parameters
    ----------
    layers : their numbers.
    items : instructions with the number of the layer of each.
    kept : instances that live across stretches.
    halves : half of the accumulators of some instances, where more than one layer has products or
        begins early: GEMM and ALU, which work on different layers most of the time, then do not
        wait for each other. Other instances take turns.
    """

    layers: tuple[int, ...]
    items: tuple[tuple[int, SegmentInstruction], ...]
    kept: frozenset[Instance] = frozenset()
    halves: Mapping[Instance, int] = field(default_factory=dict)

    @property
    def multiplies(self) -> bool:
        """Whether it has products."""
        return _multiplies([item for _, item in self.items])

    def with_early(self, early: Early) -> "Stretch":
        """The same with the layers behind it that begin before it has ended."""
        first = self.layers[-1] + 1
        layers = (*self.layers, *range(first, first + early.num_layers))
        return replace(self, layers=layers, items=tuple(early.items), halves=early.halves)


def stretches(
    segments: Sequence[Segment],
    constants: Collection[str],
    variant: Variant,
    aliases: Mapping[str, Alias] | None = None,
    *,
    interleave: bool = True,
    resident: bool = False,
    results: bool = False,
    early: bool = True,
) -> list[Stretch]:
    """All instructions of `segments` in the order that the program has them.

    `constants` are the names of the tensors that nothing writes, `aliases` those that share bytes.
    Without `interleave`, every layer is a stretch of its own. With `resident`, small tensors of
    accumulators stay on chip (`resident_rows`), with `results` those that GEMM multiplies
    (`keep_results`). With `early`, layers begin before those in front of
    them have ended (`begin_early`), where these are interleaved.
    """
    words = Words(variant, aliases or {})
    layers = [ordered(segment, constants) for segment in segments]
    kept: frozenset[Instance] = frozenset()
    if resident:
        layers, kept = resident_rows(layers, variant, words.aliases)
    if results:
        moves = {number for number, segment in enumerate(segments) if segment.is_move}
        layers, more = keep_results(layers, variant, words.aliases, moves)
        kept |= more
    # The allocator places a layer's tiles in the two halves of the accumulators in turn.
    half_rows = scratchpad(variant, Memory.ACC).depth_rows // 2
    found: list[Stretch] = []
    last: list[SegmentInstruction] = []
    for number, items in enumerate(layers):
        if found and number <= found[-1].layers[-1]:
            continue
        mixed = begun = None
        alone = interleave and found and len(found[-1].layers) == 1
        if alone and not _multiplies(items):
            mixed = follow_tiles(last, items, kept, words, variant)
            if mixed is None and is_long(last) and _fit(last, items, half_rows):
                mixed = _interleaved(last, items, words, kept)
        elif alone and _multiplies(last):
            mixed = _beside(last, items, words, kept, variant)
        elif interleave and early and found and not found[-1].multiplies:
            behind = takewhile(is_long, islice(layers, number, None))
            begun = begin_early(found[-1].items, behind, kept, words, variant)
        if begun is not None:
            found[-1] = found[-1].with_early(begun)
        elif mixed is not None:
            found[-1] = Stretch(
                (number - 1, number),
                tuple((number - 1 + which, item) for which, item in mixed),
                kept,
                _halves(mixed) if _multiplies(items) else {},
            )
        else:
            found.append(Stretch((number,), tuple((number, item) for item in items), kept))
        last = layers[found[-1].layers[-1]]
    return found


def _fit(
    first: Sequence[SegmentInstruction], second: Sequence[SegmentInstruction], half_rows: int
) -> bool:
    """Whether a tile of each layer fits `half_rows` rows of accumulators at the same time."""
    return tile_rows(first) + tile_rows(second) <= half_rows


def tile_rows(items: Sequence[SegmentInstruction]) -> int:
    """Rows of accumulators of a layer's largest tile."""
    tiles = tiles_of(items)
    return max(sum(instance.rows for instance in _accumulators(tile)) for tile in tiles)


def _accumulators(tile: Sequence[SegmentInstruction]) -> set[Instance]:
    return {
        access.instance
        for item in tile
        for access in item.rows
        if access.instance.memory is Memory.ACC
    }


def _halves(items: Sequence[tuple[int, SegmentInstruction]]) -> dict[Instance, int]:
    """A half for the instances of each of two layers."""
    return {access.instance: which for which, item in items for access in item.rows}


def _multiplies(items: Sequence[SegmentInstruction]) -> bool:
    return any(item.unit is Unit.GEMM for item in items)


def is_long(items: Sequence[SegmentInstruction]) -> bool:
    """Whether a layer's tiles have enough products to hide what another layer waits for."""
    products = sum(num_steps(item) for item in items if item.unit is Unit.GEMM)
    return products >= SHORTEST_TILE * len(tiles_of(items))


def _interleaved(
    first: Sequence[SegmentInstruction],
    second: Sequence[SegmentInstruction],
    words: Words,
    kept: Collection[Instance],
) -> list[tuple[int, SegmentInstruction]] | None:
    """Instructions of both layers, each with 0 or 1; None if no tile of `second` can come earlier.

    Instructions that access the same rows or words keep their order.
    """
    tiles, later = tiles_of(first), tiles_of(second)
    touched = Touched(tiles, words, kept)
    found = [touched.by(tile) for tile in later]
    if _independent(later):
        # A pool may go through the channels first, the convolution before it through the rows.
        head, *rest = zip(found, later, strict=True)
        order = [head, *sorted(rest, key=lambda item: item[0])]
        found, later = [need for need, _ in order], [tile for _, tile in order]
    places = list(accumulate((conflict + LAG for _, conflict in found), max))
    if max(stored for stored, _ in found) == NO_INSTRUCTION or places[0] >= len(tiles) - 1:
        return None
    return list(_mixed(tiles, later, places))


def _mixed(
    tiles: list[list[SegmentInstruction]],
    later: Sequence[Sequence[SegmentInstruction]],
    places: Sequence[int],
) -> Iterator[tuple[int, SegmentInstruction]]:
    """The tiles of both layers; those of `later` come after the tiles with the numbers `places`.

    They are spread evenly over the remaining tiles, so that units have work of both layers all the
    time. The next tile's first LOADs precede them: LOAD is an in-order queue, and products must not
    wait for the rows of the second layer.
    """
    done, share, leading = 0, 0.0, 0
    for number, tile in enumerate(tiles):
        yield from ((0, item) for item in tile[leading:])
        leading = 0
        if done == len(later) or places[done] > number:
            continue
        share = min(share, 1.0) + (len(later) - done) / (len(tiles) - number)
        if share >= 1 and number + 1 < len(tiles):
            after = tiles[number + 1]
            leading = sum(1 for _ in takewhile(lambda item: item.unit is Unit.LOAD, after))
            yield from ((0, item) for item in after[:leading])
        while done < len(later) and places[done] <= number and share >= 1:
            yield from ((1, item) for item in later[done])
            done, share = done + 1, share - 1
    yield from ((1, item) for tile in later[done:] for item in tile)


def _beside(
    first: Sequence[SegmentInstruction],
    second: Sequence[SegmentInstruction],
    words: Words,
    kept: Collection[Instance],
    variant: Variant,
) -> list[tuple[int, SegmentInstruction]] | None:
    """Instructions of both layers, each with 0 or 1, if they have nothing in common that one of
    them writes, fit the scratchpads together, and gain by that; else None."""
    if (_instances(first) & _instances(second)).difference(kept):
        return None
    tiles, later = tiles_of(first), tiles_of(second)
    touched = Touched(tiles, words, kept)
    if any(touched.by(tile)[1] != NO_INSTRUCTION for tile in later):
        return None
    mixed = side_by_side(tiles, later, variant)
    fits = mixed is not None and all_fit([item for _, item in mixed], variant)
    return mixed if fits else None


def _instances(items: Sequence[SegmentInstruction]) -> set[Instance]:
    return {access.instance for item in items for access in item.rows}


def _independent(tiles: Sequence[Sequence[SegmentInstruction]]) -> bool:
    """Whether the tiles after the first can have any order: they share only rows that the first
    has written, or a layer before, and a layer stores each word once."""
    written: dict[Instance, set[int]] = {}
    used: dict[Instance, set[int]] = {}
    for number, tile in enumerate(tiles):
        for item in tile:
            for access in item.rows:
                used.setdefault(access.instance, set()).add(number)
                if access.writes:
                    written.setdefault(access.instance, set()).add(number)
    return all(len(users) == 1 or written.get(name, {0}) == {0} for name, users in used.items())
