"""Runs norms behind pairs of tiles, whose results stay in the accumulators until then.

The result of a convolution may be too large to stay in the accumulators, and a norm needs all
channels of a pixel. If a tile has all channels of some pixels, the norm finds them there, and the
sum is neither stored nor loaded. But then the tile needs all weights. Two tiles therefore take
turns with the weights: each step of one is followed by the same step of the other. As many weights
as fit stay on chip for all tiles.

Before, where N0 reads what C0 stored, with weights W::

    LOAD W0, C0[0], LOAD W1, C0[1], STORE C0, LOAD W0, C1[0], LOAD W1, C1[1], STORE C1, N0, N1

After, with the norms of a pair spread over the products of the next one::

    LOAD W0, C0[0], C1[0], LOAD W1, C0[1], C1[1], C2[0], N0, C3[0], N1, C2[1], C3[1], N2, N3

A pair is in one half of the accumulators, as is all that is computed of it: ALU and GEMM then do
not wait for each other.

Input: the instructions of the layers in program order. Output: those of all, mixed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from daedal.compiler.codegen.segment import Instance, SegmentInstruction, renamed
from daedal.compiler.cost.paired_tiles import in_pairs, weights_that_stay
from daedal.compiler.link.on_chip.forward_rows import forward_rows
from daedal.compiler.link.on_chip.row_parts import is_wide_load
from daedal.compiler.link.ordering.begin_behind import tiles_behind
from daedal.compiler.link.ordering.begin_early import interleaved
from daedal.compiler.link.ordering.follow_tiles import all_fit
from daedal.compiler.link.ordering.tiles import Words, tiles_of
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["LEAST_TILES", "Pairs", "follow_pairs", "layer_of_pairs"]

LEAST_TILES = 4
"""With fewer, no norm runs during the products of another pair."""

AHEAD = 0.4
"""Of the instructions with the products of a pair, those before the first LOADs of another map
that is added to them: the half has rows for these, and ALU then does not wait for the bus."""

LOADS_AHEAD = 2

Item = tuple[int, SegmentInstruction]
"""An instruction with the number of its layer, counted from the one with products."""

Step = Sequence[SegmentInstruction]
"""LOADs and a product."""


class Pairs(NamedTuple):
    """A layer with products, number 0, mixed with those behind it.

    Parameters
    ----------
    items : instructions of all layers.
    halves : half of the accumulators of each instance.
    """

    items: Sequence[Item]
    halves: Mapping[Instance, int]


class _Tile(NamedTuple):
    """The steps of a tile, and the instructions behind its products."""

    steps: Sequence[Step]
    end: Sequence[SegmentInstruction]


def layer_of_pairs(items: Sequence[SegmentInstruction], variant: Variant) -> list[_Tile] | None:
    """The tiles of a layer with products, if two of them, but not four, fit a half of the
    accumulators, and all have the same steps; else None."""
    tiles = [_tile(items) for items in tiles_of(items)]
    counts = {len(tile.steps) for tile in tiles}
    if len(tiles) < LEAST_TILES or len(tiles) % 2 or len(counts) > 1 or 0 in counts:
        return None
    depth = scratchpad(variant, Memory.ACC).depth_rows
    rows = {_accumulated(step[-1]).rows for tile in tiles for step in tile.steps}
    return tiles if all(in_pairs(number, depth) for number in rows) else None


def follow_pairs(
    first: Sequence[SegmentInstruction],
    behind: Sequence[Item],
    kept: Collection[Instance],
    words: Words,
    variant: Variant,
) -> Pairs | None:
    """The layer `first` with the layers `behind` it, which have no products, if these find its
    results tile by tile in the accumulators; else None, or if a scratchpad is too small."""
    stored = {x.tensor for x in (*first, *(item for _, item in behind)) if x.unit is Unit.STORE}
    both = forward_rows(first, [item for _, item in behind], variant, words.aliases, kept)
    tiles = None if both is None else layer_of_pairs(both[0], variant)
    if both is None or tiles is None:
        return None
    left = set(map(id, both[1]))
    later = tiles_behind([entry for entry in behind if id(entry[1]) in left])
    if len(later) != len(tiles) or not all(any(map(is_wide_load, tile.end)) for tile in tiles):
        return None
    tiles = _with_weights(tiles, stored, variant)
    for own in () if tiles is None else (later, list(_with_parameters(later, stored))):
        found = _mixed(tiles or (), own, stored)
        if all_fit([item for _, item in found.items], variant):
            return found
    return None


def _tile(items: Sequence[SegmentInstruction]) -> _Tile:
    steps: list[list[SegmentInstruction]] = [[]]
    for item in items:
        steps[-1].append(item)
        if item.unit is Unit.GEMM:
            steps.append([])
    return _Tile(steps[:-1], steps[-1])


def _accumulated(item: SegmentInstruction) -> Instance:
    return next(x.instance for x in item.rows if x.instance.memory is Memory.ACC)


def _with_weights(
    tiles: Sequence[_Tile], stored: Collection[str | None], variant: Variant
) -> list[_Tile] | None:
    """The tiles without LOADs of weights that stay: some for all tiles, those of the other steps
    for a pair. None if tiles have other weights."""
    groups = list(_equal((x for tile in tiles for step in tile.steps for x in step), Memory.WGT))
    num_steps = len(tiles[0].steps)
    loaded = {x.tensor for tile in tiles for step in tile.steps for x in step if _fills(x)}
    if [len(group) for group in groups] != [len(tiles)] * num_steps or loaded & set(stored):
        return None
    places = scratchpad(variant, Memory.WGT).depth_rows // max(group[0].rows for group in groups)
    # The others are as far apart as possible.
    num_others = num_steps - weights_that_stay(num_steps, places)
    others = {num_steps - 1 - num_steps * number // num_others for number in range(num_others)}
    names: dict[Instance, Instance] = {}
    for number, group in enumerate(groups):
        for place, instance in enumerate(group):
            names[instance] = group[place // 2 * 2 if number in others else 0]
    gone = {instance for instance, name in names.items() if instance is not name}
    return [_Tile([_without(step, gone, names) for step in tile.steps], tile.end) for tile in tiles]


def _fills(item: SegmentInstruction) -> bool:
    """Whether it loads weights."""
    return item.unit is Unit.LOAD and item.rows[0].instance.memory is Memory.WGT


def _without(
    items: Iterable[SegmentInstruction],
    gone: Collection[Instance],
    names: Mapping[Instance, Instance],
) -> list[SegmentInstruction]:
    """Without LOADs into the instances that are `gone`, and with others instead."""
    return [
        renamed(item, names)
        for item in items
        if not (item.unit is Unit.LOAD and item.rows[0].instance in gone)
    ]


def _equal(items: Iterable[SegmentInstruction], memory: Memory) -> Iterator[list[Instance]]:
    """Instances of a scratchpad into which the same is loaded, in program order."""
    loads: dict[Instance, list[object]] = {}
    for item in items:
        if item.unit is Unit.LOAD and item.rows[0].instance.memory is memory:
            key = item.tensor, frozenset(item.template.values.items())
            loads.setdefault(item.rows[0].instance, []).append(key)
    groups: dict[object, list[Instance]] = {}
    for instance, found in loads.items():
        groups.setdefault((instance.rows, tuple(found)), []).append(instance)
    yield from groups.values()


def _with_parameters(
    later: Sequence[Sequence[Item]], stored: Collection[str | None]
) -> Iterator[list[Item]]:
    """The tiles behind, where each loads the parameters of the last layer again: the scratchpad
    then has rows for others meanwhile."""
    last = later[0][-1][0]
    loads: dict[Instance, SegmentInstruction] = {}
    for tile in later:
        names: dict[Instance, Instance] = {}
        result: list[Item] = []
        for layer, item in tile:
            if layer == last:
                new = [x.instance for x in item.rows if x.instance in loads]
                for instance in new if item.unit is Unit.ALU else ():
                    if instance not in names:
                        names[instance] = replace(instance)
                        result.append((layer, renamed(loads[instance], names)))
            result.append((layer, renamed(item, names)))
        for layer, item in tile:
            is_load = item.unit is Unit.LOAD and item.rows[0].instance.memory is Memory.PAR
            if layer == last and is_load and item.tensor not in stored:
                loads[item.rows[0].instance] = item
        yield result


def _mixed(
    tiles: Sequence[_Tile], later: Sequence[Sequence[Item]], stored: Collection[str | None]
) -> Pairs:
    """All instructions: what follows a pair is spread over the products of the next one."""
    items: list[Item] = []
    halves: dict[Instance, int] = {}
    behind: list[Item] = []
    for number in range(0, len(tiles), 2):
        pair = tiles[number : number + 2]
        steps = zip(*(tile.steps for tile in pair), strict=True)
        products = [(0, item) for both in steps for step in both for item in step]
        mixed = list(interleaved(products, behind))
        behind = _in_turns([tile.end for tile in pair], later[number : number + 2], stored)
        loads = [entry for entry in behind if is_wide_load(entry[1])][:LOADS_AHEAD]
        behind = [entry for entry in behind if entry not in loads]
        ahead = int(AHEAD * len(mixed))
        items += [*mixed[:ahead], *loads, *mixed[ahead:]]
        for _, item in (*products, *loads, *behind):
            for access in item.rows:
                if access.instance.memory is Memory.ACC:
                    halves.setdefault(access.instance, number // 2 % 2)
    return Pairs([*items, *behind], halves)


def _in_turns(
    ends: Sequence[Sequence[SegmentInstruction]],
    later: Sequence[Sequence[Item]],
    stored: Collection[str | None],
) -> list[Item]:
    """What follows a pair: parameters are loaded once for both tiles. First the products of both
    are requantized, then other maps are added, then come the norms. Their STOREs are the last: the
    rows are not free before."""
    heads: list[Item] = []
    sums: list[Item] = []
    for end in ends:
        cut = next(place for place, item in enumerate(end) if is_wide_load(item))
        heads += [(0, item) for item in end[:cut]]
        sums += [(0, item) for item in end[cut:]]
    norms = [entry for tile in later for entry in tile]
    stores = [entry for entry in norms if entry[1].unit is Unit.STORE]
    items = [*heads, *sums, *(entry for entry in norms if entry[1].unit is not Unit.STORE), *stores]
    names: dict[Instance, Instance] = {}
    fixed = (x for _, x in items if x.tensor not in stored)
    for one, *others in _equal(fixed, Memory.PAR):
        names |= dict.fromkeys(others, one)
    return [
        (layer, renamed(item, names))
        for layer, item in items
        if not (item.unit is Unit.LOAD and item.rows[0].instance in names)
    ]
