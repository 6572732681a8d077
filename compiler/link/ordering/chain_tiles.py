"""Runs two layers with products tile by tile, where the second multiplies results of the first that
are still in OUT (`daedal.compiler.link.on_chip.chained_rows`).

A depthwise convolution waits for the bus, which moves its operand and its result, and the pointwise
convolution behind it loads that result again. Tile by tile, the result does not leave the chip, and
the products of both layers share the time of the bus.

Before::

    tiles of the first layer:   D0 D1 D2 D3 D4 D5
    tiles of the second:                          P0 P1 P2

After, where P0 multiplies what D0 and D1 have computed::

    D0 D1 D2 D3 P0 D4 D5 P1 P2

The first layer is a part ahead, so that the multipliers do not wait for the ALU.

Input: the instructions of layers in program order. Output: the same with parts of tensors in OUT,
and the instructions of two layers, mixed.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from daedal.compiler.codegen.segment import Instance, SegmentInstruction
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.on_chip.chained_rows import ChainedRows, ChainParts, chain_parts
from daedal.compiler.link.ordering.follow_tiles import all_fit
from daedal.compiler.link.ordering.spread_tiles import Tile, independent
from daedal.compiler.link.ordering.tiles import Words, tiles_of
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode, Unit
from daedal.isa.variant import Variant

__all__ = ["PART_CYCLES", "chain_layers", "chain_tiles"]

AHEAD = 1
"""Parts that the first layer has computed and the second one has not multiplied."""

PART_CYCLES = 20
"""What a part costs beyond its work: units wait for each other where they change between layers."""

Items = list[SegmentInstruction]


def chain_layers(
    layers: Sequence[Items],
    kept: Collection[Instance],
    words: Words,
    variant: Variant,
    memory: MemoryModel = DDR,
    apart: Collection[int] = (),
) -> tuple[list[Items], dict[int, Sequence[Instance]]]:
    """The layers, and by the number of a layer whose results the next one multiplies in OUT, the
    parts of these: where both layers are estimated to take fewer cycles by that, also than with all
    of them in OUT (`keep_results`), and the layer is not one of `apart`."""
    result, chains = list(layers), dict[int, Sequence[Instance]]()
    if GemmMode.DENSE_OUT not in GemmMode.of(variant):
        return result, chains
    loaded = Counter(group for items in layers for group in set(_loaded(items, words)))
    rates = InstructionCost(variant, memory)
    for number in range(len(layers) - 1):
        first, second = layers[number : number + 2]
        if number - 1 in chains or number in apart or _share_rows(first, second, kept):
            continue
        parts = chain_parts(first, second, variant, words)
        if parts is None:
            continue
        if _parts_of_tiles(tiles_of(first), tiles_of(second), parts.numbers) is None:
            continue  # it takes less time to find out than to move rows
        found = parts.rows()
        mixed = None if found is None else chain_tiles(*found, variant)
        alone = all(loaded[group] == 1 for group in _stored(first, words))
        if (
            found is not None
            and mixed is not None
            and all_fit([item for _, item in mixed], variant)
            and _pays(rates, (first, second), found, alone, _fits_as_a_whole(parts, variant))
        ):
            result[number : number + 2] = found.first, found.second
            chains[number] = found.parts
    return result, chains


def chain_tiles(
    first: Sequence[SegmentInstruction],
    second: Sequence[SegmentInstruction],
    parts: Sequence[Instance],
    variant: Variant,
) -> list[tuple[int, SegmentInstruction]] | None:
    """Instructions of both layers, each with 0 or 1: those of the second that multiply one of
    `parts` behind those of the first that compute it and the next one. None if the tiles cannot
    have this order."""
    tiles, later = tiles_of(first), tiles_of(second)
    known = _parts_of_tiles(tiles, later, {part: number for number, part in enumerate(parts)})
    if known is None:
        return None
    computed, multiplied = known
    order = sorted(range(len(tiles)), key=lambda number: computed[number])
    spreads = _spreads(tiles, len(parts), variant)
    return list(
        _mixed(
            [(computed[number], tiles[number]) for number in order],
            list(zip(multiplied, later, strict=True)),
            spreads,
        )
    )


def _share_rows(first: Items, second: Items, kept: Collection[Instance]) -> bool:
    """Whether two layers have instances in common, besides those that live across layers."""
    one, two = ({a.instance for item in items for a in item.rows} for items in (first, second))
    return not (one & two).issubset(kept)


def _loaded(items: Items, words: Words) -> Iterator[str]:
    """Groups of tensors that a layer loads."""
    for item in items:
        if item.unit is Unit.LOAD and item.tensor is not None:
            yield words.group(item.tensor)


def _stored(items: Items, words: Words) -> set[str]:
    return {words.group(x.tensor) for x in items if x.unit is Unit.STORE and x.tensor is not None}


def _fits_as_a_whole(parts: ChainParts, variant: Variant) -> bool:
    """Whether all parts fit OUT, with two tiles of the second layer's results."""
    others = {access.instance for item in parts.second for access in item.rows}
    results = max((x.rows for x in others if x.memory is Memory.OUT), default=0)
    return parts.num_rows + 2 * results <= scratchpad(variant, Memory.OUT).depth_rows


def _pays(
    rates: InstructionCost,
    layers: tuple[Items, Items],
    found: ChainedRows,
    alone: bool,
    whole: bool,
) -> bool:
    """Whether the two layers take fewer cycles together; `alone`: nothing else reads what the first
    one stores, so that its STOREs move nothing; `whole`: one after the other, all of it would stay
    in OUT."""
    first = [item for item in found.first if not (alone and item.unit is Unit.STORE)]
    one, two = rates.by_unit(first), rates.by_unit(found.second)
    together = max((one + two).values()) + PART_CYCLES * len(found.parts)
    if whole:
        return together < max(one.values()) + max(two.values())
    apart = [rates.by_unit(items) for items in layers]
    # One after the other, the second layer waits for the last tile of the first one.
    return together < sum(max(busy.values()) for busy in apart) + rates.latency


def _parts_of_tiles(
    tiles: Sequence[Tile], later: Sequence[Tile], numbers: Mapping[Instance, int]
) -> tuple[list[int], list[int]] | None:
    """The part that each tile of two layers computes or multiplies, by the `numbers` of instances;
    None if the tiles cannot have the order of a chain."""
    computed, multiplied = _parts_of(tiles, numbers), _parts_of(later, numbers)
    if computed is None or multiplied is None or multiplied != sorted(multiplied):
        return None
    if computed[0] or max(computed) == 0:
        return None
    if computed != sorted(computed) and not independent(tiles, but=numbers):
        return None
    return computed, multiplied


def _parts_of(tiles: Sequence[Tile], numbers: Mapping[Instance, int]) -> list[int] | None:
    """The number of the part that each tile computes or multiplies; None if one has none, or
    several."""
    found = []
    for tile in tiles:
        mine = {
            numbers[access.instance]
            for item in tile
            if item.unit is not Unit.LOAD
            for access in item.rows
            if access.instance in numbers
        }
        if len(mine) != 1:
            return None
        found.append(mine.pop())
    return found


def _spreads(tiles: Sequence[Tile], num_parts: int, variant: Variant) -> bool:
    """Whether tiles of both layers take turns. Otherwise all tiles of a part come before those of
    the other layer, which is faster as long as the operands of a part fit INP: LOAD moves them
    while the second layer multiplies."""
    loaded = {
        access.instance
        for tile in tiles
        for item in tile
        for access in item.rows
        if access.instance.memory is Memory.INP
    }
    rows = sum(instance.rows for instance in loaded)
    return rows > num_parts * scratchpad(variant, Memory.INP).depth_rows


def _mixed(
    tiles: Sequence[tuple[int, Tile]], later: Sequence[tuple[int, Tile]], spreads: bool
) -> Iterator[tuple[int, SegmentInstruction]]:
    """The tiles of both layers: those of part n of the second with those of part n + `AHEAD` of the
    first, or behind these."""
    done = 0
    while done < len(tiles) and tiles[done][0] < AHEAD:
        yield from ((0, item) for item in tiles[done][1])
        done += 1
    for part, entries in groupby(later, key=lambda entry: entry[0]):
        mine = [tile for _, tile in entries]
        ahead = [tile for number, tile in tiles[done:] if number <= part + AHEAD]
        done += len(ahead)
        for which, tile in _in_turns(ahead, mine) if spreads else _one_by_one(ahead, mine):
            yield from ((which, item) for item in tile)
    yield from ((0, item) for _, tile in tiles[done:] for item in tile)


def _one_by_one(*layers: Sequence[Tile]) -> Iterator[tuple[int, Tile]]:
    return ((which, tile) for which, tiles in enumerate(layers) for tile in tiles)


def _in_turns(*layers: Sequence[Tile]) -> list[tuple[int, Tile]]:
    """In proportion."""
    places = [
        ((number + 0.5) / len(tiles), which, number)
        for which, tiles in enumerate(layers)
        for number in range(len(tiles))
    ]
    return [(which, layers[which][number]) for _, which, number in sorted(places)]
