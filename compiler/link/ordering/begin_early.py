"""Begins layers with products before the layers without products in front of them have ended.

A norm waits for the bus while the multipliers have nothing to do, and the convolutions behind it
have words of the bus to spare. Where a tile of a convolution reads only what the first tiles of the
norm have stored, its products overlap with the remaining ones.

Before::

    tiles of the norm:         N0 N1 N2 N3
    tiles of the convolution:               C0 C1 C2 C3

After, where C0 and C1 read what N0 and N1 stored, and C2 and C3 the rest::

    N0 N1 C0 N2 N3 C1 C2 C3

Input: the instructions of the layers in program order. Output: those of all, mixed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from daedal.compiler.codegen.segment import Instance, SegmentInstruction, renamed
from daedal.compiler.cost.instructions import num_steps
from daedal.compiler.link.ordering.follow_tiles import all_fit
from daedal.compiler.link.ordering.tiles import Touched, Words, tiles_of
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["LATEST", "Early", "begin_early", "interleaved"]

LATEST = 3 / 4
"""Of the tiles in front, those that the first tile of a layer behind may need. With more, little is
left to overlap with products."""

LAG = 1
"""Tiles of the layers behind between the last tile in front that one of them reads, and this one.
LOAD is one in-order queue: a LOAD that waits for a STORE delays those of other tiles."""

DURING_LAST = 2
"""Tiles of the layers behind during which the last tile with products in front is stored. LOADs of
those in front that wait for it come later."""

Item = tuple[int, SegmentInstruction]
"""An instruction with the number of its layer."""

Items = Sequence[SegmentInstruction]


class Early(NamedTuple):
    """Layers that begin early.

    Parameters
    ----------
    num_layers : of the layers behind, those that begin early.
    items : instructions of all layers.
    halves : half of the accumulators of each instance that is allocated while both run, so that the
        ALU, which works on the layers in front, and GEMM do not wait for each other.
    """

    num_layers: int
    items: list[Item]
    halves: Mapping[Instance, int]


def begin_early(
    front: Sequence[Item],
    behind: Iterable[Items],
    kept: frozenset[Instance],
    words: Words,
    variant: Variant,
) -> Early | None:
    """Layers without products, mixed with as many of the layers with products behind as possible.
    The first one in front may have products; nothing comes before these.

    These need nothing of each other, and their first tiles not nearly all of what is in front. None
    if the first layer behind is not like that, or if a scratchpad is too small.
    `kept` are instances that live across layers, and pass values from one to the other.
    """
    first = front[-1][0] + 1
    taken = _instances(item for _, item in front)
    seen: list[Items] = []
    others: list[list[Item]] = []
    best = None
    for number, items in enumerate(behind, first):
        shared = (taken & _instances(items)) - kept
        if any(_conflict(items, layer, words, kept) for layer in seen):
            break
        seen.append(items)
        names = {instance: replace(instance) for instance in shared}
        own = [renamed(item, names) for item in items]
        taken |= _instances(own)
        others.append([(number, item) for item in own])
        found = _mixed(front, others, words, kept)
        if found is None or not all_fit([item for _, item in found], variant):
            break
        best = Early(len(others), found, _halves(found, first))
    return best


def _mixed(
    front: Sequence[Item],
    others: Sequence[Sequence[Item]],
    words: Words,
    kept: frozenset[Instance],
) -> list[Item] | None:
    """All instructions: those in front are spread over the products that can come before them."""
    tiles = _tiles(front)
    touched = Touched([[item for _, item in tile] for tile in tiles], words, kept)
    order: list[tuple[int, list[Item]]] = []
    for layer in others:
        later = _tiles(layer)
        found = (touched.by([item for _, item in tile])[1] for tile in later)
        needs = list(accumulate(found, max))
        if needs[0] == NO_INSTRUCTION or needs[0] + 1 > LATEST * len(tiles):
            return None
        order += zip(needs, later, strict=True)
    order.sort(key=lambda entry: entry[0])
    ends = list(accumulate(len(tile) for tile in tiles))
    products = _end(item.unit is Unit.GEMM for _, item in front)
    last = _end(layer == front[0][0] for layer, _ in front) if products else 0
    bounds = [max(ends[need], products) for need, _ in order]
    return list(_in_order(front, [tile for _, tile in order], bounds, last))


def _end(found: Iterable[bool]) -> int:
    """The place behind the last one that is true."""
    return max((place + 1 for place, true in enumerate(found) if true), default=0)


def _tiles(items: Sequence[Item]) -> list[list[Item]]:
    """As `tiles_of`, with the layer of every instruction."""
    layers = iter(items)
    return [[next(layers) for _ in tile] for tile in tiles_of([item for _, item in items])]


def _in_order(
    front: Sequence[Item], later: Sequence[Sequence[Item]], bounds: Sequence[int], last: int
) -> Iterator[Item]:
    """All instructions. Each of the tiles `later` follows as many of `front` as `bounds` says. Up
    to `last`, there are those of a tile with products."""
    done = number = 0
    while number < len(later):
        yield from front[done : bounds[number]]
        done = max(done, bounds[number])
        after = next((k for k in range(number, len(later)) if bounds[k] > done), len(later))
        goal = bounds[after] if after < len(later) else len(front)
        most = max(after - LAG, number + 1)
        if done < last:
            stop = min(number + DURING_LAST, most)
            yield from interleaved(_joined(later[number:stop]), front[done : min(last, goal)])
            done, number = min(last, goal), stop
        yield from interleaved(_joined(later[number:most]), front[done:goal])
        yield from (item for tile in later[most:after] for item in tile)
        done, number = goal, after
    yield from front[done:]


def _joined(tiles: Iterable[Sequence[Item]]) -> list[Item]:
    return [item for tile in tiles for item in tile]


def interleaved(items: Sequence[Item], others: Sequence[Item]) -> Iterator[Item]:
    """Both, the work of the ALU in `others` in proportion to the products in `items`.

    FETCH hands instructions to the units in program order: a tile that fills the ALU's queue would
    keep those behind it from the multipliers.
    """
    shares, places = _shares(items, Unit.GEMM), _shares(others, Unit.ALU)
    done = 0
    for item, share in zip(items, shares, strict=True):
        while done < len(others) and places[done] <= share:
            yield others[done]
            done += 1
        yield item
    yield from others[done:]


def _shares(items: Sequence[Item], unit: Unit) -> list[float]:
    """For each instruction, the share of the work of `unit` that comes before it."""
    steps = [num_steps(item) if item.unit is unit else 0 for _, item in items]
    whole = max(sum(steps), 1)
    return [before / whole for before in accumulate([0, *steps][: len(steps)])]


def _halves(items: Sequence[Item], first: int) -> dict[Instance, int]:
    """One half for instances of layers from `first` on, the other one for those in front, if they
    are first used between an instruction of the former and one of the latter."""
    in_front = [layer < first for layer, _ in items]
    begin, end = in_front.index(False), len(items) - in_front[::-1].index(True)
    before = _instances(item for _, item in items[:begin])
    found: dict[Instance, int] = {}
    for layer, item in items[begin:end]:
        for access in item.rows:
            if access.instance not in before:
                found.setdefault(access.instance, int(layer >= first))
    return found


def _conflict(items: Items, others: Items, words: Words, kept: frozenset[Instance]) -> bool:
    """Whether instructions of two layers touch the same words or rows, and one of them writes
    them."""
    return Touched([others], words, kept).by(items)[1] != NO_INSTRUCTION


def _instances(items: Iterable[SegmentInstruction]) -> set[Instance]:
    return {access.instance for item in items for access in item.rows}
