"""Runs layers without products behind parts of the layer before them that are done.

The result of a convolution may be too large to stay in the accumulators (`follow_tiles`), and a
norm needs all channels of a pixel. If the convolution computes these for one part of the pixels
after the other, the norm of a part runs during the products of the next one.

Before, where N0 and N1 read what C0 and C1 stored, and N2 and N3 the rest::

    C0 C1 C2 C3 N0 N1 N2 N3

After, in pieces of tiles::

    C0 C1 C2 N0 C2 C3 N1 C3 N2 N3

Input: the instructions of both in program order. Output: those of both, mixed.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from daedal.compiler.codegen.segment import Instance, SegmentInstruction
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.on_chip.row_parts import is_wide_load
from daedal.compiler.link.ordering.begin_early import interleaved
from daedal.compiler.link.ordering.follow_tiles import all_fit
from daedal.compiler.link.ordering.share_units import cycles_together
from daedal.compiler.link.ordering.tiles import Touched, Words, tiles_of
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["begin_behind", "halves_behind", "tiles_behind"]

LAG = 0.3
"""Of the products of a tile, those between the last tile that others read and these. By then it is
stored, for which LOAD, an in-order queue, would wait."""

END = 0.9
"""Of the products of a tile, those before which what runs behind the tiles before it ends, if it
takes more than a quarter of the accumulators: the next tile needs those of what runs behind."""

AHEAD = 1 / 4
"""Of the products of a tile, those before the last parts of the tile before it."""

LEAST_GAIN = 0.02
"""Of the cycles of all layers one after the other. Both need accumulators at the same time, and
products behind a norm would hide half of it anyway: with an estimated gain of 0, blocks of
transformers took up to 2.5 % more cycles."""

Item = tuple[int, SegmentInstruction]
"""An instruction with the number of its layer, counted from the one with products."""


def begin_behind(
    first: Sequence[SegmentInstruction],
    behind: Sequence[Item],
    kept: Collection[Instance],
    words: Words,
    variant: Variant,
    memory: MemoryModel = DDR,
) -> list[Item] | None:
    """A layer with products, number 0, mixed with the layers `behind` it, which have none. None if
    these need its last tile from the beginning, if nothing is gained, or if a scratchpad is too
    small."""
    first = _late_parts(first, words, kept)
    tiles, later = tiles_of(first), tiles_behind(behind)
    touched = Touched(tiles, words, kept)
    found = (touched.by([item for _, item in tile])[1] for tile in later)
    needs = list(accumulate(found, max))
    if needs[0] == NO_INSTRUCTION or needs[0] >= len(tiles) - 1:
        return None
    rates = InstructionCost(variant, memory)
    one, two = rates.by_unit(first), rates.by_unit(item for _, item in behind)
    head = min((needs[0] + 1 + LAG) / len(tiles), 1)
    tail = sum(need >= len(tiles) - 1 for need in needs) / len(needs)
    apart = max(one.values()) + max(two.values())
    if cycles_together(one, two, head, tail) > (1 - LEAST_GAIN) * apart:
        return None
    mixed = list(_mixed(tiles, later, needs, variant))
    return mixed if all_fit([item for _, item in mixed], variant) else None


def halves_behind(items: Sequence[Item]) -> dict[Instance, int]:
    """A half of the accumulators for each instance there: tiles with products, whose layer has
    number 0, take turns, and what runs behind them is in the half in which GEMM is not."""
    halves: dict[Instance, int] = {}
    half = 1
    for layer, item in items:
        found = [x.instance for x in item.rows if x.instance.memory is Memory.ACC]
        if layer:
            halves.update((instance, 1 - half) for instance in found if instance not in halves)
        elif item.unit is Unit.GEMM:
            if found[0] not in halves:
                halves[found[0]] = 1 - half
            half = halves[found[0]]
        elif item.unit is Unit.ALU:
            of_tile = next((halves[instance] for instance in found if instance in halves), half)
            halves.update((instance, of_tile) for instance in found if instance not in halves)
    return halves


def _mixed(
    tiles: Sequence[Sequence[SegmentInstruction]],
    later: Sequence[Sequence[Item]],
    needs: Sequence[int],
    variant: Variant,
) -> Iterator[Item]:
    """All instructions: the tiles `later` are spread over the products before others can come."""
    counts = Counter(_accumulated(item) for tile in tiles for item in tile)
    most = scratchpad(variant, Memory.ACC).depth_rows // 4
    last = END if any(own is not None and own.rows > most for own in counts) else 1.0
    done = number = 0
    while number < len(tiles):
        ready = sum(need < number for need in needs)
        more = (n for n in range(number + 1, len(tiles)) if number <= needs[ready] < n)
        end = next(more, len(tiles)) if ready < len(needs) else len(tiles)
        for place in range(number, end):
            until = done + (ready - done) // (end - place)
            yield from _spread(tiles[place], later[done:until], counts, last)
            done = until
        number = end
    yield from (item for tile in later[done:] for item in tile)


def _spread(
    tile: Sequence[SegmentInstruction],
    later: Sequence[Sequence[Item]],
    counts: Mapping[Instance | None, int],
    last: float,
) -> Iterator[Item]:
    """The instructions of a tile, and others from `LAG` to `last`, shares of its products."""
    part = [(0, item) for item in tile]
    products = [place for place, item in enumerate(tile) if item.unit is Unit.GEMM]
    own = _accumulated(tile[products[0]])
    before = counts[own] - sum(_accumulated(item) == own for item in tile)
    places = [*products, len(part)]
    begin, end = (
        places[min(max(int(share * counts[own]) - before, 0), len(products))]
        for share in (LAG, last)
    )
    yield from part[:begin]
    yield from interleaved(part[begin:end], [item for some in later for item in some])
    yield from part[end:]


def _accumulated(item: SegmentInstruction) -> Instance | None:
    """The accumulators of a product; None for other instructions."""
    if item.unit is not Unit.GEMM:
        return None
    return next(x.instance for x in item.rows if x.instance.memory is Memory.ACC)


def _late_parts(
    items: Sequence[SegmentInstruction], words: Words, kept: Collection[Instance]
) -> list[SegmentInstruction]:
    """Where a tile loads another map in parts, the second part and what follows it come behind the
    first products of the next tile: its LOADs need not wait for the additions of the first part."""
    tiles = tiles_of(items)
    result: list[SegmentInstruction] = []
    late: Sequence[SegmentInstruction] = ()
    for number, tile in enumerate(tiles):
        products = [place for place, item in enumerate(tile) if item.unit is Unit.GEMM]
        at = products[int(AHEAD * len(products))] if products else 0
        if Touched([late], words, kept).by(tile[:at])[1] != NO_INSTRUCTION:
            at = 0
        loads = [place for place, item in enumerate(tile) if is_wide_load(item)]
        cut = loads[1] if len(loads) > 1 and number + 1 < len(tiles) else len(tile)
        result += [*tile[:at], *late, *tile[at:cut]]
        late = tile[cut:]
    return [*result, *late]


def tiles_behind(items: Sequence[Item]) -> list[list[Item]]:
    """Cut after the STOREs of the last layer. LOADs of the next tile that come before these move
    behind them: they may need another tile of the layer with products."""
    last = items[-1][0]
    tiles: list[list[Item]] = [[]]
    for number, (layer, item) in enumerate(items):
        tiles[-1].append((layer, item))
        following = items[number + 1] if number + 1 < len(items) else None
        stores = following is not None and following[1].unit is Unit.STORE
        if layer == last and item.unit is Unit.STORE and following is not None and not stores:
            tiles.append([])
    for tile, following_tile in pairwise(tiles):
        stored = [n for n, (layer, x) in enumerate(tile) if layer != last and x.unit is Unit.STORE]
        begin = stored[-1] + 1 if stored else 0
        moved = [entry for entry in tile[begin:] if entry[0] != last]
        if stored:
            following_tile[:0] = moved
            tile[begin:] = [entry for entry in tile[begin:] if entry[0] == last]
    return tiles
