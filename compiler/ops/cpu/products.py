"""Which tiles suit sums of products of 8-bit integers that tile registers (AMX) compute.

A product of matrices adds 16 rows of 64 bytes of a map, times 16 rows of weights with four factors
of each of 16 columns side by side, to 16 by 16 sums. Weights lie so for VNNI, too. A tile is
several such products, which share operands and do not wait for each other's sums. Where few rows,
columns or terms leave them short, the estimate chooses vectors.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from daedal.compiler.ops.cpu.reuse import (
    Candidate,
    Registers,
    Tiles,
    computed_share,
    divisors,
    loops_around,
    packed_constants,
    stores_in_rows,
)
from daedal.compiler.tir.expr import Axis, Buffer, Expr, Load, Reduce, Var
from daedal.compiler.tir.linear import Linear, accessed_element
from daedal.compiler.tir.tile_products import (
    MOST_COLUMNS,
    MOST_DEPTH,
    MOST_ROWS,
    QUAD,
    quads_of,
)
from daedal.compiler.tir.visit import free_vars, loads, substitute
from daedal.native.bodies.tile_products import TILE_REGISTERS

__all__ = ["ProductCandidate", "joined_terms", "product_candidates"]

LATENCY, NEAR, STORED = 52, 0.5, 1.0
"""Cycles from one product to the next into the same sums; of a row that is loaded from the first
cache of a core, and of one that is stored. A product takes a cycle for each row of its first
operand. Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, "Intel AMX", of
full tiles; not measured."""
FAR, NEAR_BYTES = 2.0, 1 << 15
"""Cycles of a row that the first cache does not hold, and what it holds of one operand. A guess."""
SHARE_OF_LOADS = 0.125
"""Of the time of loads that products do not hide. A guess."""
OVERHEAD = 4
"""Cycles of a step: its loop, and addresses. A guess."""
SLOWER = 2.0
"""Times as long as all this. In a trial, 3x3 convolutions of 56x56 and 64 channels, 14x14 and 256,
7x7 and 512 were 4.9, 4.1 and 3.1 times as fast as with VNNI; this estimate says 4.9, 4.3 and 2.7.
"""
MOST_PRODUCTS = TILE_REGISTERS - 2
"""Of a tile: two registers are for operands."""


@dataclass(frozen=True)
class ProductCandidate(Candidate):
    """A tile of products of matrices.

    Attributes
    ----------
    term_cycles : of a term of all sums of the tile.
    """

    term_cycles: float

    @property
    def cycles(self) -> float:
        """Per result of an iteration."""
        rows = math.prod(extent for _, extent in self.tiles.rows)
        return self.term_cycles * self.computed / (rows * self.tiles.lanes) * self.slower


def joined_terms(formula: Reduce) -> Reduce:
    """The formula with its last axes as one, where operands lie along them as along one."""
    while len(formula.axes) > 1:
        *others, outer, inner = formula.axes
        forms = [accessed_element(load) for load in loads(formula.value)]
        if not all(
            form.coefficient(outer) == inner.extent * form.coefficient(inner)
            and not _mixes(form, outer)
            and not _mixes(form, inner)
            for form in forms
        ):
            break
        axis = Axis(inner.name, extent=outer.extent * inner.extent, kind="reduce")
        places: dict[Var, Expr] = {outer: axis // inner.extent, inner: axis % inner.extent}
        formula = Reduce(formula.op, substitute(formula.value, places), (*others, axis))
    return formula


def product_candidates(
    formula: Reduce,
    axes: Sequence[Axis],
    element_bytes: int,
    constants: Collection[Buffer],
    registers: Registers,
) -> Iterator[ProductCandidate]:
    """The tiles of a reduction, whose terms are joined; none where these are no products for tile
    registers, or the processor has none.

    Parameters are those of `tile_candidates`.
    """
    found = quads_of(formula.value) if registers.tiles and formula.op == "sum" else None
    if found is None:
        return
    a, b = (_Operand(load) for load in found)
    terms = formula.axes[-1]
    if not a.moves(terms, QUAD) or not b.moves(terms):
        return
    depth = divisors(terms.extent, MOST_DEPTH)[-1]
    rows_along = [n for n, axis in enumerate(axes) if a.moves(axis) and not b.depends_on(axis)]
    # Rows that lie close to each other come first: of tiles that are as good, the first is chosen.
    rows_along.sort(key=lambda number: a.form.coefficient(axes[number]))
    columns_along = [n for n, axis in enumerate(axes) if b.moves(axis) and not a.depends_on(axis)]
    for lane in columns_along:
        packed = packed_constants(formula.value, axes[lane], constants)
        if packed is None or (b.load.buffer not in packed and not b.moves(axes[lane], QUAD)):
            continue
        loops = loops_around(axes, [a.form, b.form], rows_along)
        in_rows = stores_in_rows(axes, loops, [b.load], element_bytes)
        columns = min(axes[lane].extent, MOST_COLUMNS)
        for wide, others in _columns(axes, lane, columns, columns_along):
            for rows, counts in _rows(axes, rows_along, MOST_PRODUCTS // wide):
                lanes = columns if others else columns * wide
                tiles = Tiles(
                    lane,
                    lanes,
                    (*counts, *others),
                    packed,
                    loops=loops,
                    product=(rows, columns, depth),
                ).orders[-1 if in_rows else 0]
                high = math.prod(extent for _, extent in counts) // rows
                yield _candidate(tiles, axes, formula.axes, (a, b), (high, wide))


class _Operand:
    """A factor, by the first element of a group, and the place of that."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.form = accessed_element(load)

    @property
    def num_bytes(self) -> int:
        """Of the whole operand."""
        return math.prod(self.load.buffer.shape)

    def depends_on(self, axis: Axis) -> bool:
        """Whether the place changes along an axis."""
        return any(axis in free_vars(term) for term, _ in self.form.terms)

    def moves(self, axis: Axis, step: int | None = None) -> bool:
        """Whether the place moves by equal steps along an axis, and these are `step` elements."""
        found = self.form.coefficient(axis)
        return not _mixes(self.form, axis) and (found != 0 if step is None else found == step)


def _mixes(form: Linear, axis: Axis) -> bool:
    return any(term is not axis and axis in free_vars(term) for term, _ in form.terms)


def _columns(
    axes: Sequence[Axis], lane: int, columns: int, along: Sequence[int]
) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
    """How many products side by side, and along which axis other than that of the lanes."""
    for wide in (1, 2, 4):
        if wide * columns <= axes[lane].extent:
            yield wide, ()
    if axes[lane].extent == columns:
        for other in along:
            if other != lane:
                for wide in range(2, min(axes[other].extent, MOST_PRODUCTS) + 1):
                    yield wide, ((other, wide),)


def _rows(
    axes: Sequence[Axis], along: Sequence[int], most: int
) -> Iterator[tuple[int, tuple[tuple[int, int], ...]]]:
    """The rows of a product, and the extents of a tile of up to `most` products along the axis of
    the rows, and along another one."""
    for row in along:
        extent = axes[row].extent
        largest = min(extent, MOST_ROWS)
        for rows in range(largest, (largest - 1) // 2, -1):
            for high in range(1, min(most, extent // rows) + 1):
                yield rows, ((row, rows * high),)
            for other in along:
                if other != row:
                    for high in range(2, min(most, axes[other].extent) + 1):
                        yield rows, ((row, rows), (other, high))


def _candidate(
    tiles: Tiles,
    axes: Sequence[Axis],
    reduced: Sequence[Axis],
    operands: tuple[_Operand, _Operand],
    shape: tuple[int, int],
) -> ProductCandidate:
    """Of products below and next to each other, so many by `shape`."""
    assert tiles.product is not None
    rows, columns, depth = tiles.product
    high, wide = shape
    products = high * wide
    # Operands of one row of products stay in registers for the next one, if there are enough.
    again = 1 if wide < TILE_REGISTERS - products else high
    loaded = high * rows + wide * again * depth
    terms = math.prod(axis.extent for axis in reduced)
    # Elements of windows are read from far once; weights stay near while rows go by.
    a, b = operands
    number = terms * QUAD * math.prod(axis.extent for axis in axes if a.depends_on(axis))
    far = 0.0 if a.num_bytes <= NEAR_BYTES else min(1.0, a.num_bytes / number)
    held = terms * QUAD * columns * wide if tiles.num_held else b.num_bytes
    b_row = NEAR if held <= NEAR_BYTES else FAR
    loads_cycles = high * rows * (far * FAR + (1 - far) * NEAR) + wide * again * depth * b_row
    step = max(products * rows, loads_cycles, LATENCY) + SHARE_OF_LOADS * loads_cycles + OVERHEAD
    ends = products * rows * (STORED + NEAR)
    each = step / depth + ends / terms
    return ProductCandidate(tiles, products, loaded, computed_share(tiles, axes), SLOWER, each)
