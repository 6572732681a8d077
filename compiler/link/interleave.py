"""Interleaves a layer with the one before it, so that they run at the same time.

Units run in parallel, but a layer keeps few of them busy: a convolution the multipliers, a pool
the bus and the ALU. Their instructions are therefore mixed where a layer without products reads the
result of one with products: each tile of the second follows the tiles of the first that it reads.

Input: the segments of a program. Output: `Stretch`es, the instructions in program order.
"""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.segment import (
    Instance,
    RowAccess,
    Runs,
    Segment,
    SegmentInstruction,
    overlap,
)
from daedal.compiler.link.forward_rows import forward_rows
from daedal.compiler.link.memory_plan import Alias
from daedal.compiler.link.order import ordered
from daedal.compiler.link.placed import BeatRange
from daedal.compiler.link.resident_rows import resident_rows
from daedal.compiler.link.transfer_beats import TransferBeats, entries
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LOOPS, Unit
from daedal.isa.variant import Variant

__all__ = ["SHORTEST_TILE", "Stretch", "stretches"]

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
    """

    layers: tuple[int, ...]
    items: tuple[tuple[int, SegmentInstruction], ...]
    kept: frozenset[Instance] = frozenset()


def stretches(
    segments: Sequence[Segment],
    constants: Collection[str],
    variant: Variant,
    aliases: Mapping[str, Alias] | None = None,
    *,
    interleave: bool = True,
    resident: bool = False,
) -> list[Stretch]:
    """All instructions of `segments` in the order that the program has them.

    `constants` are the names of the tensors that nothing writes, `aliases` those that share bytes.
    Without `interleave`, every layer is a stretch of its own. With `resident`, small tensors of
    accumulators stay on chip (`resident_rows`).
    """
    words = _Words(variant, aliases or {})
    layers = [ordered(segment, constants) for segment in segments]
    kept: frozenset[Instance] = frozenset()
    if resident:
        layers, kept = resident_rows(layers, variant, words.aliases)
    # The allocator places a layer's tiles in the two halves of the accumulators in turn.
    half_rows = scratchpad(variant, Memory.ACC).depth_rows // 2
    found: list[Stretch] = []
    last: list[SegmentInstruction] = []
    for number, items in enumerate(layers):
        mixed = None
        alone = interleave and found and len(found[-1].layers) == 1
        if alone and not _multiplies(items):
            mixed = _forwarded(last, items, kept, words, variant)
            if mixed is None and _is_long(last) and _fit(last, items, half_rows):
                mixed = _interleaved(last, items, words)
        if mixed is None:
            found.append(Stretch((number,), tuple((number, item) for item in items), kept))
        else:
            found[-1] = Stretch(
                (number - 1, number),
                tuple((number - 1 + which, item) for which, item in mixed),
                kept,
            )
        last = items
    return found


def _fit(
    first: Sequence[SegmentInstruction], second: Sequence[SegmentInstruction], half_rows: int
) -> bool:
    """Whether a tile of each layer fits `half_rows` rows of accumulators at the same time."""
    rows = [
        max(sum(instance.rows for instance in _accumulators(tile)) for tile in _tiles(items))
        for items in (first, second)
    ]
    return sum(rows) <= half_rows


def _accumulators(tile: Sequence[SegmentInstruction]) -> set[Instance]:
    return {
        access.instance
        for item in tile
        for access in item.rows
        if access.instance.memory is Memory.ACC
    }


def _multiplies(items: Sequence[SegmentInstruction]) -> bool:
    return any(item.unit is Unit.GEMM for item in items)


def _is_long(items: Sequence[SegmentInstruction]) -> bool:
    """Whether a layer's tiles have enough products to hide what another layer waits for."""
    products = sum(_steps(item) for item in items if item.unit is Unit.GEMM)
    return products >= SHORTEST_TILE * len(_tiles(items))


def _steps(item: SegmentInstruction) -> int:
    """Micro-ops that an instruction executes."""
    values = item.template.values
    extents = (values.get(f"extent{level}", 1) for level in range(LOOPS))
    return len(item.uops or ()) * math.prod(extents)


class _Words:
    """The bus words that instructions move, numbered from the start of the group of tensors that
    share bytes."""

    def __init__(self, variant: Variant, aliases: Mapping[str, Alias]) -> None:
        self._transfers = TransferBeats(variant)
        self._bus_bytes = variant.bus_bytes
        self.aliases = aliases

    def of(self, item: SegmentInstruction) -> tuple[str, BeatRange] | None:
        """(group, words) of a LOAD or STORE; None if it moves nothing between chip and memory."""
        words = None if item.tensor is None else self._transfers.of(item.template)
        if item.tensor is None or words is None:
            return None
        alias = self.aliases.get(item.tensor, Alias(item.tensor, 0))
        offset = words.offset + alias.offset_bytes // self._bus_bytes
        return alias.group, words._replace(offset=offset)


def _tiles(items: Sequence[SegmentInstruction]) -> list[list[SegmentInstruction]]:
    """Cut after every run of STOREs."""
    tiles: list[list[SegmentInstruction]] = [[]]
    for item in items:
        if tiles[-1] and tiles[-1][-1].unit is Unit.STORE and item.unit is not Unit.STORE:
            tiles.append([])
        tiles[-1].append(item)
    return tiles


def _interleaved(
    first: Sequence[SegmentInstruction], second: Sequence[SegmentInstruction], words: _Words
) -> list[tuple[int, SegmentInstruction]] | None:
    """Instructions of both layers, each with 0 or 1; None if no tile of `second` can come earlier.

    Instructions that access the same rows or words keep their order.
    """
    tiles, later = _tiles(first), _tiles(second)
    touched = _Touched(tiles, words)
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


def _forwarded(
    first: Sequence[SegmentInstruction],
    second: Sequence[SegmentInstruction],
    kept: Collection[Instance],
    words: _Words,
    variant: Variant,
) -> list[tuple[int, SegmentInstruction]] | None:
    """Instructions of both layers, each with 0 or 1, where `second` finds the results of `first` in
    the accumulators; None if it finds none, or if a scratchpad is too small for both.

    Each tile of `second` follows the tiles of `first` that it reads, and the products of the next
    tile, which the multipliers compute meanwhile.
    """
    both = forward_rows(first, second, variant, words.aliases)
    if both is None and not _written(first, kept) & _read(second, kept):
        return None
    first, second = both or (first, second)
    tiles, later = _tiles(first), _tiles(second)
    touched = _Touched(tiles, words)
    written: dict[Instance, dict[Runs, int]] = {}
    for number, tile in enumerate(tiles):
        for access in _accesses(tile):
            if access.writes:
                written.setdefault(access.instance, {})[access.runs] = number
    needs = [
        max(
            touched.by(tile)[1],
            *(
                number
                for access in _accesses(tile)
                for runs, number in written.get(access.instance, {}).items()
                if overlap(runs, access.runs)
            ),
        )
        for tile in later
    ]
    mixed = list(_following(tiles, later, list(accumulate(needs, max))))
    return mixed if _all_fit([item for _, item in mixed], variant) else None


def _accesses(items: Sequence[SegmentInstruction]) -> Iterator[RowAccess]:
    return (access for item in items for access in item.rows)


def _written(items: Sequence[SegmentInstruction], among: Collection[Instance]) -> set[Instance]:
    return {a.instance for a in _accesses(items) if a.writes and a.instance in among}


def _read(items: Sequence[SegmentInstruction], among: Collection[Instance]) -> set[Instance]:
    return {a.instance for a in _accesses(items) if a.reads and a.instance in among}


def _following(
    tiles: Sequence[Sequence[SegmentInstruction]],
    later: Sequence[Sequence[SegmentInstruction]],
    needs: Sequence[int],
) -> Iterator[tuple[int, SegmentInstruction]]:
    """The tiles of both layers, those of `later` directly after the ones with the numbers `needs`,
    and after the products of the next one."""
    done = leading = 0
    for number, tile in enumerate(tiles):
        yield from ((0, item) for item in tile[leading:])
        ready = bisect_right(needs, number)
        after = tiles[number + 1] if ready > done and number + 1 < len(tiles) else ()
        ahead = list(takewhile(lambda item: item.unit in (Unit.LOAD, Unit.GEMM), after))
        leading = len(ahead)
        yield from ((0, item) for item in ahead)
        yield from ((1, item) for tile in later[done:ready] for item in tile)
        done = ready
    yield from ((1, item) for tile in later[done:] for item in tile)


def _all_fit(items: Sequence[SegmentInstruction], variant: Variant) -> bool:
    """Whether the rows that are in use at once fit each scratchpad."""
    uses: dict[Instance, list[int]] = {}
    for number, item in enumerate(items):
        for access in item.rows:
            uses.setdefault(access.instance, []).append(number)
    changes: dict[Memory, list[tuple[int, int, int]]] = {}
    for instance, numbers in uses.items():
        change = changes.setdefault(instance.memory, [])
        change += [(numbers[0], 0, instance.rows), (numbers[-1], 1, -instance.rows)]
    return all(
        max(accumulate(rows for _, _, rows in sorted(change)))
        <= scratchpad(variant, memory).depth_rows
        for memory, change in changes.items()
    )


def _independent(tiles: Sequence[Sequence[SegmentInstruction]]) -> bool:
    """Whether the tiles after the first can have any order: they share only rows that the first
    has written, and a layer stores each word once."""
    written: dict[Instance, set[int]] = {}
    used: dict[Instance, set[int]] = {}
    for number, tile in enumerate(tiles):
        for item in tile:
            for access in item.rows:
                used.setdefault(access.instance, set()).add(number)
                if access.writes:
                    written.setdefault(access.instance, set()).add(number)
    return all(len(users) == 1 or written[name] == {0} for name, users in used.items())


class _Touched:
    """For every word, the last tile of a layer that stores it, and the last that touches it."""

    def __init__(self, tiles: Sequence[Sequence[SegmentInstruction]], words: _Words) -> None:
        self._words = words
        moves = [
            (number, item.unit, *found)
            for number, tile in enumerate(tiles)
            for item in tile
            if (found := words.of(item)) is not None
        ]
        sizes: dict[str, int] = {}
        for _, _, group, beats in moves:
            sizes[group] = max(sizes.get(group, 0), beats.end)
        self._stored = {group: _table(size) for group, size in sizes.items()}
        self._loaded = {group: _table(size) for group, size in sizes.items()}
        for number, unit, group, beats in moves:
            table = self._stored if unit is Unit.STORE else self._loaded
            entries(table[group], beats)[...] = number

    def by(self, tile: Sequence[SegmentInstruction]) -> tuple[int, int]:
        """The last tile that stores what `tile` of another layer loads, and the last one with which
        it has any conflict; NO_INSTRUCTION where there is none."""
        stored = conflict = NO_INSTRUCTION
        for item in tile:
            found = self._words.of(item)
            if found is None or found[0] not in self._stored:
                continue
            group, beats = found
            stores = _last(self._stored[group], beats)
            conflict = max(conflict, stores)
            if item.unit is Unit.STORE:
                conflict = max(conflict, _last(self._loaded[group], beats))
            else:
                stored = max(stored, stores)
        return stored, conflict


def _table(size: int) -> npt.NDArray[np.int32]:
    return np.full(size, NO_INSTRUCTION, dtype=np.int32)


def _last(table: npt.NDArray[np.int32], beats: BeatRange) -> int:
    """The largest entry in a range that may reach beyond the table."""
    if beats.end > len(table):
        table = np.concatenate([table, _table(beats.end - len(table))])
    return int(entries(table, beats).max())
