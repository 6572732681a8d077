"""Runs a layer without products tile by tile behind the layer that computes its operand.

That is possible where the operand is in the accumulators already (`forward_rows`,
`resident_rows`), or can be computed there again (`requantized_rows`), so that no LOAD has to wait
for a STORE. Input: the instructions of two layers.
Output: those of both, in program order.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile

from daedal.compiler.codegen.segment import (
    Instance,
    RowAccess,
    Runs,
    SegmentInstruction,
    overlap,
)
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.on_chip.forward_rows import forward_rows
from daedal.compiler.link.on_chip.requantized_rows import requantized_rows
from daedal.compiler.link.ordering.tiles import Touched, Words, tiles_of
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["all_fit", "follow_tiles"]

LEAST_PRODUCTS = 512
"""Of a tile, on average, that hide the ALU's work on the tile before: a decoder's tiles have fewer,
and a token took 2 % more cycles."""


def follow_tiles(
    first: Sequence[SegmentInstruction],
    second: Sequence[SegmentInstruction],
    kept: Collection[Instance],
    words: Words,
    variant: Variant,
    memory: MemoryModel = DDR,
) -> list[tuple[int, SegmentInstruction]] | None:
    """Instructions of both layers, each with 0 or 1, where `second` finds the results of `first` in
    the accumulators; None if it finds none, or if a scratchpad is too small for both.

    Each tile of `second` follows the tiles of `first` that it reads, and the products of the next
    tile, which the multipliers compute meanwhile.
    """
    # Layers with the same code share instances (`daedal.compiler.codegen.segment.relabeled`).
    common = {a.instance for a in _accesses(first)} & {a.instance for a in _accesses(second)}
    if not common.issubset(kept):
        return None
    both = forward_rows(first, second, variant, words.aliases, kept)
    if both is None and not _written(first) & common:
        again = requantized_rows(first, second, variant, words.aliases)
        if again is None or not _pays(InstructionCost(variant, memory), first, second, again):
            return None
        both = list(first), again
    first, second = both or (first, second)
    tiles, later = tiles_of(first), tiles_of(second)
    touched = Touched(tiles, words)
    written: dict[Instance, dict[Runs, int]] = {}
    for number, tile in enumerate(tiles):
        for access in _accesses(tile):
            if access.writes:
                written.setdefault(access.instance, {})[access.runs] = number
    needs = [max([touched.by(tile)[1], *_producers(tile, written)]) for tile in later]
    mixed = list(_following(tiles, later, list(accumulate(needs, max))))
    return mixed if all_fit([item for _, item in mixed], variant) else None


def _pays(
    rates: InstructionCost,
    first: Sequence[SegmentInstruction],
    second: Sequence[SegmentInstruction],
    again: Sequence[SegmentInstruction],
) -> bool:
    """Whether two layers together take fewer cycles, with `again` for the second one. Nothing hides
    the ALU's work for the last tile, and where it has more to do than the first layer takes, GEMM
    waits for accumulators."""
    one, two, other = (rates.by_unit(items) for items in (first, second, again))
    if one[Unit.GEMM.name] < LEAST_PRODUCTS * len(tiles_of(first)):
        return False
    both, alu = one + other, Unit.ALU.name
    together = max(both.values()) + other[alu] / len(tiles_of(first))
    apart = max(one.values()) + max(two.values()) + rates.latency
    return both[alu] <= max(one.values()) and together < apart


def _accesses(items: Sequence[SegmentInstruction]) -> Iterator[RowAccess]:
    return (access for item in items for access in item.rows)


def _producers(
    tile: Sequence[SegmentInstruction], written: Mapping[Instance, Mapping[Runs, int]]
) -> Iterator[int]:
    """The numbers of the tiles that wrote rows that `tile` accesses."""
    for access in _accesses(tile):
        for runs, number in written.get(access.instance, {}).items():
            if overlap(runs, access.runs):
                yield number


def _written(items: Sequence[SegmentInstruction]) -> set[Instance]:
    return {access.instance for access in _accesses(items) if access.writes}


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


def all_fit(items: Sequence[SegmentInstruction], variant: Variant) -> bool:
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
