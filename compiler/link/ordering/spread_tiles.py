"""Places the tiles of a layer behind the tiles of another layer that they read.

Input: the tiles of both layers. Output: the instructions of both, in program order.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, takewhile
from typing import NamedTuple

from daedal.compiler.codegen.segment import Instance, SegmentInstruction
from daedal.compiler.link.ordering.tiles import Touched, Words
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.table import Unit

__all__ = ["Behind", "Tile", "behind", "independent", "spread"]

Tile = Sequence[SegmentInstruction]

LAG = 1
"""Tiles of the first layer between the last one that a tile of the second reads and this tile.

LOAD is one in-order queue: a LOAD that waits for a STORE delays those of the next tiles. One tile
later, the STORE has probably been acknowledged."""


class Behind(NamedTuple):
    """The second of two layers.

    Parameters
    ----------
    tiles : its tiles, sorted by the tiles of the first layer that they need, if that is possible.
    places : for each, the number of the tile of the first layer behind which it can come.
    reads : whether it reads what the first layer stores.
    """

    tiles: Sequence[Tile]
    places: Sequence[int]
    reads: bool


def behind(
    tiles: Sequence[Tile], later: Sequence[Tile], words: Words, kept: Collection[Instance]
) -> Behind:
    """Where the tiles `later` of a second layer can come."""
    touched = Touched(tiles, words, kept)
    found = [touched.by(tile) for tile in later]
    if independent(later):
        # A pool may go through the channels first, the convolution before it through the rows.
        head, *rest = zip(found, later, strict=True)
        order = [head, *sorted(rest, key=lambda item: item[0])]
        found, later = [need for need, _ in order], [tile for _, tile in order]
    places = list(accumulate((conflict + LAG for _, conflict in found), max))
    return Behind(later, places, max(stored for stored, _ in found) != NO_INSTRUCTION)


def spread(tiles: Sequence[Tile], second: Behind) -> Iterator[tuple[int, SegmentInstruction]]:
    """Instructions of both layers, each with 0 or 1, those of `second` where they can come.

    They are spread evenly over the remaining tiles, so that units have work of both layers all the
    time. The next tile's first LOADs precede them: LOAD is an in-order queue, and products must not
    wait for the rows of the second layer.
    """
    later, places = second.tiles, second.places
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


def independent(tiles: Sequence[Tile], but: Collection[Instance] = ()) -> bool:
    """Whether the tiles after the first can have any order: they share only rows that the first
    has written, or a layer before, and a layer stores each word once. Instances `but` do not count.
    """
    written: dict[Instance, set[int]] = {}
    used: dict[Instance, set[int]] = {}
    for number, tile in enumerate(tiles):
        for item in tile:
            for access in item.rows:
                used.setdefault(access.instance, set()).add(number)
                if access.writes:
                    written.setdefault(access.instance, set()).add(number)
    return all(
        len(users) == 1 or written.get(name, {0}) == {0}
        for name, users in used.items()
        if name not in but
    )
