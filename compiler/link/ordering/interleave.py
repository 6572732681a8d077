"""Interleaves a layer with the one before it, so that they run at the same time.

Units run in parallel, but a layer keeps few of them busy: a convolution the multipliers, a pool
the bus and the ALU. Their instructions are therefore mixed where a layer without products reads the
result of one with products: each tile of the second follows the tiles of the first that it reads.
Two layers with products are mixed where that pays (`share_units`, `side_by_side`).

Input: the segments of a program. Output: `Stretch`es, the instructions in program order.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

from daedal.compiler.codegen.segment import (
    Instance,
    Segment,
    SegmentInstruction,
)
from daedal.compiler.cost.instructions import InstructionCost, num_steps
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.on_chip.kept_results import keep_results
from daedal.compiler.link.on_chip.resident_rows import SHARE, resident_rows
from daedal.compiler.link.on_chip.row_parts import is_wide_load
from daedal.compiler.link.ordering.begin_behind import begin_behind, halves_behind
from daedal.compiler.link.ordering.begin_early import Early, begin_early
from daedal.compiler.link.ordering.chain_tiles import chain_layers, chain_tiles
from daedal.compiler.link.ordering.follow_pairs import follow_pairs, layer_of_pairs
from daedal.compiler.link.ordering.follow_tiles import all_fit, follow_tiles
from daedal.compiler.link.ordering.order import ordered
from daedal.compiler.link.ordering.share_units import share_units, tiles_in_turns
from daedal.compiler.link.ordering.side_by_side import side_by_side
from daedal.compiler.link.ordering.spread_tiles import behind, spread
from daedal.compiler.link.ordering.tiles import Touched, Words, tiles_of
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["SHORTEST_TILE", "Stretch", "is_long", "stretches", "tile_rows"]

Layers = list[list[SegmentInstruction]]
Chains = Mapping[int, Sequence[Instance]]
Mixed = list[tuple[int, SegmentInstruction]]

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
    is_chain : whether the second layer multiplies parts of the first one's results in OUT.
    is_open : whether layers without products end behind the products of the first layer, so that
        others may begin early.
    """

    layers: tuple[int, ...]
    items: tuple[tuple[int, SegmentInstruction], ...]
    kept: frozenset[Instance] = frozenset()
    halves: Mapping[Instance, int] = field(default_factory=dict)
    is_chain: bool = False
    is_open: bool = False

    @property
    def multiplies(self) -> bool:
        """Whether it has products."""
        return _multiplies([item for _, item in self.items])

    def with_early(self, early: Early) -> "Stretch":
        """The same with the layers behind it that begin before it has ended."""
        first = self.layers[-1] + 1
        layers = (*self.layers, *range(first, first + early.num_layers))
        halves = {**self.halves, **early.halves}
        return replace(self, layers=layers, items=tuple(early.items), halves=halves, is_open=False)


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
    apart: Collection[int] = (),
    memory: MemoryModel = DDR,
) -> list[Stretch]:
    """All instructions of `segments` in the order that the program has them.

    `constants` are the names of the tensors that nothing writes, `aliases` those that share bytes.
    Without `interleave`, every layer is a stretch of its own. With `resident`, small tensors of
    accumulators stay on chip (`resident_rows`), with `results` those that GEMM multiplies
    (`keep_results`, `chain_layers`), but no results of the layers `apart` part by part. With
    `early`, layers begin before those in front of them have ended (`begin_early`), where these are
    interleaved. Whether layers run together is decided for `memory`.
    """
    words = Words(variant, aliases or {})
    layers = [ordered(segment, constants) for segment in segments]
    kept: frozenset[Instance] = frozenset()
    if resident:
        layers, kept = resident_rows(layers, variant, words.aliases)
    chains: Mapping[int, Sequence[Instance]] = {}
    if results:
        moves = {number for number, segment in enumerate(segments) if segment.is_move}
        layers, chains, more = _on_chip(layers, kept, words, variant, memory, apart, moves)
        kept |= more
    together = _Together(layers, kept, words, variant, memory)
    found: list[Stretch] = []
    for number, items in enumerate(layers):
        if found and number <= found[-1].layers[-1]:
            continue
        if number in chains:
            mixed = chain_tiles(items, layers[number + 1], chains[number], variant)
            assert mixed is not None, "the linker has chained these layers"
            found.append(_chained(number, mixed, kept))
            continue
        mixed = begun = opened = None
        halves: Mapping[Instance, int] = {}
        alone = interleave and found and len(found[-1].layers) == 1
        last = layers[number - 1]
        if alone and not _multiplies(items):
            if early:
                opened = together.in_pairs(number - 1)
            if opened is None:
                mixed = together.follow(number)
            if opened is None and mixed is None and is_long(last):
                mixed = together.interleave(number)
                if mixed is None and early:
                    opened = together.behind(number - 1)
        elif alone and _multiplies(last) and not (early and together.in_pairs(number)):
            mixed, halves = together.mix_products(number)
        elif interleave and early and found and (found[-1].is_open or not found[-1].multiplies):
            long = takewhile(is_long, islice(layers, number, None))
            begun = begin_early(found[-1].items, long, kept, words, variant)
        if opened is not None:
            found[-1] = opened
        elif begun is not None:
            found[-1] = found[-1].with_early(begun)
        elif mixed is not None:
            found[-1] = Stretch(
                (number - 1, number),
                tuple((number - 1 + which, item) for which, item in mixed),
                kept,
                halves,
            )
        else:
            found.append(Stretch((number,), tuple((number, item) for item in items), kept))
    return found


def _on_chip(
    layers: Layers,
    kept: frozenset[Instance],
    words: Words,
    variant: Variant,
    memory: MemoryModel,
    apart: Collection[int],
    moves: Collection[int],
) -> tuple[Layers, Chains, frozenset[Instance]]:
    """The layers with results on chip, as a whole or part by part, the chains, and the instances
    that live across layers. Nothing else stays in OUT during a chain, so chains where something
    would are left out if all layers then need the bus for less time."""
    rates = InstructionCost(variant, memory)

    def with_chains(but: Collection[int]) -> tuple[Layers, Chains, frozenset[Instance]]:
        mixed, chains = chain_layers(layers, kept, words, variant, memory, but)
        chained = {layer for number in chains for layer in (number, number + 1)}
        result, more = keep_results(mixed, variant, words.aliases, moves, chained)
        return result, chains, more

    def bus_cycles(result: Layers) -> float:
        return rates.by_unit(item for items in result for item in items)["bus"]

    found = with_chains(apart)
    if found[1]:
        alone, whole = keep_results(layers, variant, words.aliases, moves)
        across = _layers_of(alone, whole)
        others = {number for number in found[1] if {number, number + 1} & across}
        if others:
            fewer = with_chains({*apart, *others})
            return fewer if bus_cycles(fewer[0]) < bus_cycles(found[0]) else found
    return found


def _layers_of(
    layers: Sequence[list[SegmentInstruction]], instances: Collection[Instance]
) -> set[int]:
    """Numbers of the layers from the first to the last that has rows of an instance."""
    places: dict[Instance, list[int]] = {}
    for number, items in enumerate(layers):
        for instance in {access.instance for item in items for access in item.rows}:
            if instance in instances:
                places.setdefault(instance, []).append(number)
    return {layer for found in places.values() for layer in range(found[0], found[-1] + 1)}


def _chained(
    number: int, mixed: Sequence[tuple[int, SegmentInstruction]], kept: frozenset[Instance]
) -> Stretch:
    """The stretch of layer `number` and the next one, which multiplies its results in OUT."""
    items = tuple((number + which, item) for which, item in mixed)
    return Stretch((number, number + 1), items, kept, tiles_in_turns(mixed), is_chain=True)


@dataclass(frozen=True)
class _Together:
    """Chooses which of the `layers` of a program run at the same time.

    Parameters
    ----------
    layers : instructions of each layer.
    kept : instances that live across layers.
    words : which words of memory an instruction accesses.
    memory : the memory that is decided for.
    """

    layers: Layers
    kept: frozenset[Instance]
    words: Words
    variant: Variant
    memory: MemoryModel

    def behind(self, number: int) -> Stretch | None:
        """Layer `number`, which has products, with those of `_large_behind`. None if nothing is
        gained."""
        items, first = self._large_behind(number), self.layers[number]
        if not items:
            return None
        begun = begin_behind(first, items, self.kept, self.words, self.variant, self.memory)
        return None if begun is None else _opened(number, begun, halves_behind(begun), self.kept)

    def in_pairs(self, number: int) -> Stretch | None:
        """As `behind`, where these find what they read in the accumulators."""
        first = self.layers[number]
        if number + 1 == len(self.layers) or not is_long(first):
            return None
        if layer_of_pairs(first, self.variant) is None:
            return None
        items = self._large_behind(number)
        found = follow_pairs(first, items, self.kept, self.words, self.variant) if items else None
        return None if found is None else _opened(number, found.items, found.halves, self.kept)

    def follow(self, number: int) -> Mixed | None:
        """Layer `number` tile by tile behind the one before, in the accumulators
        (`follow_tiles`)."""
        first, second = self.layers[number - 1 : number + 1]
        return follow_tiles(first, second, self.kept, self.words, self.variant, self.memory)

    def interleave(self, number: int) -> Mixed | None:
        """Layer `number` and the one before; None if no tile can come earlier, or too few rows of
        accumulators are there for a tile of each.

        Instructions that access the same rows or words keep their order.
        """
        first, second = self.layers[number - 1 : number + 1]
        # The allocator places a layer's tiles in the two halves of the accumulators in turn.
        half_rows = scratchpad(self.variant, Memory.ACC).depth_rows // 2
        if tile_rows(first) + tile_rows(second) > half_rows:
            return None
        tiles = tiles_of(first)
        found = behind(tiles, tiles_of(second), self.words, self.kept)
        if not found.reads or found.places[0] >= len(tiles) - 1:
            return None
        return list(spread(tiles, found))

    def mix_products(self, number: int) -> tuple[Mixed | None, Mapping[Instance, int]]:
        """Layer `number` and the one before, if they share no rows, fit the scratchpads together,
        and gain by that; else None. And the halves of the accumulators for instances."""
        first, second = self.layers[number - 1 : number + 1]
        if (_instances(first) & _instances(second)).difference(self.kept):
            return None, {}
        tiles, later = tiles_of(first), tiles_of(second)
        touched = Touched(tiles, self.words, self.kept)
        if all(touched.by(tile)[1] == NO_INSTRUCTION for tile in later):
            mixed = side_by_side(tiles, later, self.variant, self.memory)
            halves = _halves(mixed or ())
        else:
            mixed = None
            if is_long(first):
                mixed = share_units(tiles, later, self.kept, self.words, self.variant, self.memory)
            halves = tiles_in_turns(mixed or ())
        if mixed is None or not all_fit([item for _, item in mixed], self.variant):
            return None, {}
        return mixed, halves

    def _large_behind(self, number: int) -> Mixed:
        """The layer behind layer `number`, if that has no products and loads more rows of
        accumulators than may stay there; and the next one, if that has no products either, and
        finds the results of the former in the accumulators. Instructions have the number of their
        layer, from 1 on."""
        second, *others = self.layers[number + 1 : number + 3]
        wide = [item.template.values for item in second if is_wide_load(item)]
        rows = sum(math.prod(x.get(name, 1) for name in ("blocks", "rows", "cols")) for x in wide)
        most = scratchpad(self.variant, Memory.ACC).depth_rows // SHARE
        if _multiplies(second) or rows <= most:
            return []
        mixed = None
        if others and not _multiplies(others[0]):
            mixed = self.follow(number + 2)
        return [(1 + which, item) for which, item in mixed or [(0, item) for item in second]]


def _opened(
    number: int,
    items: Sequence[tuple[int, SegmentInstruction]],
    halves: Mapping[Instance, int],
    kept: frozenset[Instance],
) -> Stretch:
    """The stretch of layer `number` and those behind it, behind which others may begin early."""
    layers = range(number, number + 1 + max(which for which, _ in items))
    order = tuple((number + which, item) for which, item in items)
    return Stretch(tuple(layers), order, kept, halves, is_open=True)


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


def _instances(items: Sequence[SegmentInstruction]) -> set[Instance]:
    return {access.instance for item in items for access in item.rows}
