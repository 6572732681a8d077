"""Which axes of a reduction suit vectors and register tiles.

An axis suits a vector where every operand either stays in place along it or moves by one or two
elements (constants can be laid out so that they do). Along other axes on which a vector's operand
stays in place, the loaded vector is used again: these are tiled, with one accumulator per
iteration. Where an axis has only one vector, so is one along which what all lanes share stays in
place: an element of a map is multiplied by vectors of several blocks of channels. Where no axis of
the result suits, one of the reduction may: then each lane sums a part.
Source: the register blocking of Goto and van de Geijn, "Anatomy of High-Performance Matrix
Multiplication", ACM TOMS 34(3), 2008.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.tir.expr import Axis, Buffer, Call, Expr, Load
from daedal.compiler.tir.intrinsics import DOT_PRODUCTS
from daedal.compiler.tir.linear import Linear, accessed_element
from daedal.compiler.tir.visit import free_vars, loads, walk
from daedal.native.bodies.tile_products import TILE_REGISTERS

__all__ = [
    "LINE_BYTES",
    "MIN_LANES",
    "NARROW",
    "TILED",
    "WIDEST",
    "Candidate",
    "Registers",
    "Tiles",
    "best_candidate",
    "choose_lanes",
    "choose_tiles",
    "computed_share",
    "divisors",
    "grouped_loads",
    "loops_around",
    "packed_constants",
    "stores_in_rows",
    "tile_candidates",
]

MIN_LANES = 4
"""Fewer lanes are not worth a vector."""
VECTORS = (1, 2, 4)
"""Along the lanes of a tile. LLVM keeps values of other counts on the stack."""
MOST_VECTORS = 8
"""Where nothing is read again: a row that lies far from the next one is read in long parts."""
MOST_BLOCKS = 4
"""Vectors that lie apart in memory and are multiplied by the same element."""
SPARE, PAIRED_SPARE = 1, 4
"""Registers for what is neither an accumulator nor a vector: an element in all lanes, and for pairs
products that are not added yet."""
LATENCY = 4
"""Cycles from one sum to the next into the same register."""
LEAST, LATE, OVERHEAD = 4.5, 0.3, 0.5
"""Cycles of an iteration whose sums wait for each other, those of a load that products do not hide,
and of the loop: fitted to the times of 4,000 tiles with AVX-512 and 2,000 with AVX2
(bench/tuning/kernels.py)."""
APART, NEAR_BYTES = 0.5, 48 << 10
"""Cycles of a vector of one more block, where the vectors of a tile's sums are more bytes than the
first cache of a core holds: they come in as many streams as there are blocks."""
PER_CYCLE = 2
"""Loads, and products, of a cycle."""
STORED_ALONE = 1.5
"""Cycles of a result that is not next to those of the other lanes in memory."""
CORE_BYTES = 1 << 20
"""What the caches of a core hold; those of some hold twice as much."""
LINE_BYTES, PARTLY, STREAMS = 64, 1.2, 8
"""Where each row reads some operand anew, memory decides: lanes that are less than a line of the
cache take so many times as long, and rows are at most so many, as processors fetch in advance along
few of them. Both are measured on depthwise convolutions."""


@dataclass(frozen=True)
class Registers:
    """The vector registers of a processor: the size of each, and how many there are; and how many
    tile registers it has."""

    vector_bytes: int
    count: int
    tiles: int = 0


WIDEST = Registers(64, 32)
"""AVX-512."""
TILED = replace(WIDEST, tiles=TILE_REGISTERS)
"""AVX-512, and AMX."""
NARROW = Registers(32, 16)
"""AVX2; what others have is split or joined by LLVM."""


class Loops(NamedTuple):
    """The axes outside a tile, by their positions.

    Parameters
    ----------
    common : all operands move along these.
    held : the vectors do, but not all operands.
    free : the vectors stay in place.
    """

    common: tuple[int, ...] = ()
    held: tuple[int, ...] = ()
    free: tuple[int, ...] = ()


_NO_LOOPS = Loops()


@dataclass(frozen=True)
class Tiles:
    """A register tile: the axis of its lanes, the axes of its rows, by their positions.

    Attributes
    ----------
    lanes : extent along the axis `vector`.
    rows : position and extent of each further axis of the tile, outermost first.
    packed : the constants to lay out in blocks of the lanes, each with all that is read for them.
    outer : the order of all axes outside the tile, outermost first.
    num_held : how many of `outer`, the first ones, the vectors move along, if all such are: what a
        tile holds is then read again for all others.
    loops : the same axes by what moves along them.
    product : rows, columns and terms of a product of matrices in tile registers, if sums are
        computed by such; the first of `rows`, and the lanes, are multiples of them.
    """

    vector: int
    lanes: int
    rows: tuple[tuple[int, int], ...] = ()
    packed: tuple[Buffer, ...] = ()
    outer: tuple[int, ...] = ()
    num_held: int = 0
    loops: Loops = _NO_LOOPS
    product: tuple[int, int, int] | None = None

    @property
    def orders(self) -> tuple["Tiles", ...]:
        """The same with the loops around it in either order: each vector goes by all that it is
        multiplied with, or results of a row follow each other."""
        common, held, free = self.loops
        moving = sorted((*common, *held))
        vectors = replace(self, outer=(*moving, *free), num_held=len(moving))
        if not held or not free:
            return (vectors,)
        return vectors, replace(self, outer=(*common, *free, *held), num_held=0)

    @property
    def axes(self) -> tuple[int, ...]:
        """The positions of all axes of the tile, the lanes' last."""
        return (*(axis for axis, _ in self.rows), self.vector)


@dataclass(frozen=True)
class Candidate:
    """A register tile and what an iteration of the reduction does in it.

    Attributes
    ----------
    products : vectors that are multiplied.
    loaded : operands that are loaded, once for all places of the tile at which they are the same.
    computed : results that are computed for one that is stored: tiles may overlap.
    slower : the factor of what memory costs more.
    """

    tiles: Tiles
    products: int
    loaded: int
    computed: float
    slower: float

    @property
    def cycles(self) -> float:
        """Per result of an iteration."""
        rows = math.prod(extent for _, extent in self.tiles.rows)
        return self.in_registers * self.computed / (rows * self.tiles.lanes) * self.slower

    @property
    def in_registers(self) -> float:
        """Of an iteration whose operands are in the nearest cache, for all results of the tile."""
        busy = max(self.products / PER_CYCLE, self.loaded / PER_CYCLE, LEAST)
        return busy + LATE * self.loaded + OVERHEAD


def choose_tiles(
    value: Expr,
    axes: Sequence[Axis],
    element_bytes: int,
    constants: Collection[Buffer],
    registers: Registers = WIDEST,
) -> Tiles | None:
    """The best of `tile_candidates` by their cycles, or None where no axis suits a vector."""
    best = best_candidate(tile_candidates(value, axes, element_bytes, constants, registers))
    return None if best is None else best.tiles


def best_candidate(found: Iterable[Candidate]) -> Candidate | None:
    """The first of those with the fewest cycles."""
    return min(found, key=lambda item: item.cycles, default=None)


def tile_candidates(
    value: Expr,
    axes: Sequence[Axis],
    element_bytes: int,
    constants: Collection[Buffer],
    registers: Registers = WIDEST,
    *,
    terms: int | None = None,
) -> Iterator[Candidate]:
    """The register tiles of a reduction over `value`; none where no axis suits a vector.

    Parameters
    ----------
    axes : of the result.
    element_bytes : of an accumulator.
    constants : buffers whose layout may be chosen.
    terms : of a sum; None: so many that it does not matter how results are stored.
    """
    read = loads(value)
    places = {load: _place(load) for load in read}
    grouped = grouped_loads(value)
    for number, axis in enumerate(axes):
        packed = _packed(read, places, grouped, axis, constants)
        apart = any(
            places[load].coefficient(axis) not in (0, size) for load, size in grouped.items()
        )
        if packed is None or apart:
            continue
        moving = [load for load in read if axis in _vars(places[load])]
        moved_by = [
            sum(axes[other] in _vars(places[item]) for item in moving) for other in range(len(axes))
        ]
        again = [n for n, count in enumerate(moved_by) if n != number and count < len(moving)]
        free = [other for other in again if not moved_by[other]]
        again = list(reversed(free or again))
        sharing = [n for n in _sharing(axes, places, moving) if n != number and n not in again]
        widest = max(ELEMENT_BYTES[load.dtype] for load in moving)
        used = [frozenset(_vars(places[load])) for load in _loaded_at_once(value)]
        one = registers.vector_bytes // element_bytes
        strided = any(places[load].coefficient(axis) == 2 for load in moving if load not in grouped)
        spare = PAIRED_SPARE if 2 in grouped.values() else SPARE
        loops = loops_around(axes, list(places.values()), free)
        in_rows = stores_in_rows(axes, loops, moving, element_bytes)
        counts = _lane_counts(axis.extent, one, divide=bool(free or packed))
        if not again and axis.extent >= MOST_VECTORS * one:
            counts.append(MOST_VECTORS * one)
        if not again and counts and counts[-1] < LATENCY * one:
            # Nothing is read again, but sums of several rows need not wait for each other.
            again = [n for n in reversed(range(len(axes))) if n != number]
        for lanes in counts:
            vectors = -(-lanes // one)
            partly = not free and lanes * widest < LINE_BYTES
            slower = (2 if strided else 1) * (PARTLY if partly else 1)
            most = (registers.count - spare) // vectors
            limit = most - 1 if free else min(most - 1, STREAMS)
            blocks = (
                list(_blocks(axes, sharing, again, most)) if free and lanes == counts[-1] else []
            )
            for rows in itertools.chain(_rows(axes, again, limit), blocks):
                tiles = Tiles(number, lanes, rows, packed, loops=loops).orders[-1 if in_rows else 0]
                found = _candidate(tiles, axes, vectors, used, slower)
                streams = rows[1][1] if rows in blocks else 1
                if terms is not None and streams * lanes * widest * terms > NEAR_BYTES:
                    far = APART * (streams - 1) / found.in_registers
                    found = replace(found, slower=found.slower * (1 + far))
                if terms is not None and number != len(axes) - 1:
                    alone = STORED_ALONE / terms / found.cycles
                    found = replace(found, slower=found.slower * (1 + alone))
                yield found


def loops_around(axes: Sequence[Axis], places: Sequence[Linear], free: Sequence[int]) -> Loops:
    moving = [number for number in range(len(axes)) if number not in free]
    common = [number for number in moving if all(axes[number] in _vars(form) for form in places)]
    held = [number for number in moving if number not in common]
    return Loops(tuple(common), tuple(held), tuple(free))


def stores_in_rows(
    axes: Sequence[Axis], loops: Loops, moving: Sequence[Load], element_bytes: int
) -> bool:
    """Whether results of a row follow each other: a result that no cache of a core holds is stored
    in whole lines and pages then, if all vectors of a row stay in that cache.

    `moving` are the loads of vectors.
    """
    size = math.prod(axis.extent for axis in axes) * element_bytes
    apart = math.prod(axes[number].extent for number in loops.common)
    held = sum(
        math.prod(item.shape) * ELEMENT_BYTES[item.dtype]
        for item in {load.buffer for load in moving}
    )
    return size > CORE_BYTES and held / apart <= CORE_BYTES / 2


def _candidate(
    tiles: Tiles,
    axes: Sequence[Axis],
    vectors: int,
    used: Sequence[Collection[object]],
    slower: float,
) -> Candidate:
    """`used` has the axes along which each operand moves."""
    rows = math.prod(extent for _, extent in tiles.rows)
    sizes = [(axes[axis], extent) for axis, extent in tiles.rows] + [(axes[tiles.vector], vectors)]
    loaded = sum(math.prod(n for axis, n in sizes if axis in moves) for moves in used)
    return Candidate(tiles, rows * vectors, loaded, computed_share(tiles, axes), slower)


def computed_share(tiles: Tiles, axes: Sequence[Axis]) -> float:
    """Results that are computed for one that is stored: tiles may overlap."""
    computed = 1.0
    for axis, extent in (*tiles.rows, (tiles.vector, tiles.lanes)):
        whole = axes[axis].extent
        computed *= -(-whole // extent) * extent / whole
    return computed


def choose_lanes(value: Expr, reduced: Sequence[Axis], element_bytes: int) -> int:
    """How many lanes may each sum a part along the last axis of a reduction; 1 where none.

    Every operand must stay in place or move by one element along it. The number divides the extent,
    or it is a power of two and there is no other axis.
    """
    axis = reduced[-1]
    moves = False
    for load in loads(value):
        form = _place(load)
        mixed = any(term is not axis and axis in free_vars(term) for term, _ in form.terms)
        if mixed or form.coefficient(axis) not in (0, 1):
            return 1
        moves = moves or form.coefficient(axis) == 1
    one = WIDEST.vector_bytes // element_bytes
    # Sums of several vectors do not wait for each other.
    several = [count * one for count in VECTORS if count * one <= axis.extent]
    whole = [lanes for lanes in several if axis.extent % lanes == 0]
    if whole:
        lanes = whole[-1]
    elif len(reduced) > 1:
        lanes = divisors(axis.extent, one)[-1]
    else:  # what is left is added to the lanes' sums
        lanes = several[-1] if several else 1 << axis.extent.bit_length() - 1
    return lanes if moves and lanes >= MIN_LANES else 1


def _lane_counts(extent: int, one: int, *, divide: bool) -> list[int]:
    """Lanes of one to four vectors; part of one where the extent is smaller: as many as `divide`
    it, or as LLVM loads at once."""
    if extent < one and not divide:
        lanes = 1 << extent.bit_length() - 1
        return [lanes] if lanes >= MIN_LANES else []
    if extent < one:
        return [number for number in divisors(extent, one) if number >= MIN_LANES][-1:]
    return [count * one for count in VECTORS if count * one <= extent]


def divisors(extent: int, limit: int) -> list[int]:
    """The divisors of `extent` up to `limit`, ascending."""
    return [number for number in range(1, min(extent, limit) + 1) if extent % number == 0]


def _rows(
    axes: Sequence[Axis], free: Sequence[int], limit: int
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Rows of tiles: none, of one axis of `free`, or of two, which divide theirs."""
    yield ()
    for axis in free:
        for size in range(2, min(axes[axis].extent, limit) + 1):
            yield ((axis, size),)
    sizes = {axis: divisors(axes[axis].extent, limit)[1:] for axis in free}
    for pair in itertools.combinations(free, 2):
        for first, second in itertools.product(*(sizes[axis] for axis in pair)):
            if first * second <= limit:
                yield ((pair[0], first), (pair[1], second))


def _blocks(
    axes: Sequence[Axis], sharing: Sequence[int], free: Sequence[int], most: int
) -> Iterator[tuple[tuple[int, int], ...]]:
    """Rows along an axis of `free`, each with vectors of several places of an axis of `sharing`;
    `most` is the number of sums and vectors together."""
    for axis, other in itertools.product(free, sharing):
        for count in divisors(axes[other].extent, MOST_BLOCKS)[1:]:
            for size in range(2, min(axes[axis].extent, most // count - 1) + 1):
                yield ((axis, size), (other, count))


def _sharing(axes: Sequence[Axis], places: dict[Load, Linear], moving: Sequence[Load]) -> list[int]:
    """Axes along which an operand that is the same in all lanes stays in place."""
    others = [_vars(form) for load, form in places.items() if load not in moving]
    return [number for number, axis in enumerate(axes) if any(axis not in used for used in others)]


def _place(load: Load) -> Linear:
    """The number of the element that `load` reads, as an affine form."""
    return accessed_element(load)


def grouped_loads(value: Expr) -> dict[Load, int]:
    """What is read in groups of elements that lie side by side, and of how many."""
    return {
        load: DOT_PRODUCTS[node.name]
        for node in walk(value)
        if isinstance(node, Call) and node.name in DOT_PRODUCTS
        for load in loads(node)
    }


def _loaded_at_once(value: Expr) -> list[Load]:
    """One load for each element that is read, or group of elements."""
    grouped = grouped_loads(value)
    first = [
        load
        for node in walk(value)
        if isinstance(node, Call) and node.name in DOT_PRODUCTS
        for place in (0, DOT_PRODUCTS[node.name])
        for load in loads(node.args[place])[:1]
    ]
    return [load for load in loads(value) if load not in grouped or load in first]


def _vars(form: Linear) -> set[object]:
    return {var for term, _ in form.terms for var in free_vars(term)}


def packed_constants(
    value: Expr, axis: Axis, constants: Collection[Buffer]
) -> tuple[Buffer, ...] | None:
    """The constants of a formula to lay out anew for vectors along `axis`; None where it suits
    none."""
    read = loads(value)
    places = {load: _place(load) for load in read}
    return _packed(read, places, grouped_loads(value), axis, constants)


def _packed(
    read: Sequence[Load],
    places: dict[Load, Linear],
    grouped: dict[Load, int],
    axis: Axis,
    constants: Collection[Buffer],
) -> tuple[Buffer, ...] | None:
    """The constants to lay out anew for vectors along `axis`; None where it suits none."""
    moves, packed = False, []
    for load in read:
        form = places[load]
        if any(term is not axis and axis in free_vars(term) for term, _ in form.terms):
            return None
        step = form.coefficient(axis)
        if load.buffer in constants and _is_index(load, axis) and len(load.buffer.shape) > 1:
            packed.append(load.buffer)
        elif step not in (0, 1, 2, grouped.get(load, 0)):
            return None
        moves = moves or step != 0
    return tuple(packed) if moves else None


def _is_index(load: Load, axis: Axis) -> bool:
    """Whether one index of `load` is `axis`, over its whole dimension, and no other has it."""
    used = [number for number, index in enumerate(load.indices) if axis in free_vars(index)]
    return (
        len(used) == 1
        and load.indices[used[0]] is axis
        and load.buffer.shape[used[0]] == axis.extent
    )
