"""Skips products with padding zeros: finds the iterations of a nest that read no padding.

A convolution reads its padding from the scratchpad, where a copy has written it. If the pad value
is 0, such a product adds nothing; for a 3x3 window on a 7x7 map these are 18 % of all products.

Input: a nest's loops with constant ranges. Output: pieces of these ranges, which together contain
the iterations that matter.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from daedal.compiler.codegen.forms import Form, RegionForm, pure_nest
from daedal.compiler.tir.expr import Axis, Buffer, Cast, Load, Var
from daedal.compiler.tir.linear import linear
from daedal.compiler.tir.sites import Site, collect
from daedal.compiler.tir.stmt import BlockRealize, BufferStore, PrimFunc

__all__ = [
    "KEEP_PADDING",
    "IndexSum",
    "Interior",
    "Ranges",
    "conditions",
    "interiors",
    "without_padding",
]

KEEP_PADDING = "keep_padding"
"""Annotation of a block whose products with padding are computed, not skipped: where GEMM waits for
the bus, the instructions for the pieces would cost more than the products."""


@dataclass(frozen=True)
class IndexSum:
    """A condition on several indices: ``sum(factor * index of dimension)`` lies in `inside`.

    `terms` are pairs of dimension and factor.
    """

    terms: tuple[tuple[int, int], ...]
    inside: range


@dataclass(frozen=True)
class Interior:
    """The elements of a buffer that are not padding: per dimension the indices, and conditions on
    several of them."""

    ranges: tuple[range, ...]
    sums: tuple[IndexSum, ...] = ()


Ranges = dict[Var, range]
"""Iterations of each loop of a nest."""


def _is_zero(value: int) -> bool:
    return value == 0


def interiors(func: PrimFunc, accepts: Callable[[int], bool] = _is_zero) -> dict[Buffer, Interior]:
    """The interior of every buffer that is filled by a single copy through ``padded``, with a value
    that `accepts` is true of."""
    sites, _ = collect(func.body)
    writers: dict[Buffer, list[Site]] = {}
    for site in sites:
        for region in site.block.writes:
            writers.setdefault(region.buffer, []).append(site)
    found = {}
    for buffer, filled_by in writers.items():
        interior = _interior(buffer, filled_by[0].realize, accepts) if len(filled_by) == 1 else None
        if interior is not None:
            found[buffer] = interior
    return found


def _interior(
    buffer: Buffer, realize: BlockRealize, accepts: Callable[[int], bool]
) -> Interior | None:
    """The part of `buffer` that `realize` copies from inside its source, if `accepts` its pads."""
    inside = pure_nest(realize.block.body)
    while inside is not None:
        realize = inside[1]
        inside = pure_nest(realize.block.body)
    store = realize.block.body
    if not isinstance(store, BufferStore):
        return None
    source = store.value.value if isinstance(store.value, Cast) else store.value
    if not isinstance(source, Load) or source.pad_value is None:
        return None
    if not accepts(int(source.pad_value)) or not all(
        isinstance(index, Axis) for index in store.indices
    ):
        return None
    dims = {index: dim for dim, index in enumerate(store.indices)}
    result = [range(size) for size in buffer.shape]
    sums = []
    for index, size in zip(source.indices, source.buffer.shape, strict=True):
        form = linear(index)
        if form is None or any(axis not in dims or factor < 1 for axis, factor in form.terms):
            return None
        offset = form.constant
        if len(form.terms) != 1:
            terms = tuple((dims[axis], factor) for axis, factor in form.terms)
            sums.append(IndexSum(terms, range(-offset, size - offset)))
            continue
        ((axis, factor),) = form.terms
        first, end = -(offset // factor), -((offset - size) // factor)
        dim = dims[axis]
        result[dim] = range(max(result[dim].start, first), min(result[dim].stop, end))
    return Interior(tuple(result), tuple(sums))


@dataclass(frozen=True)
class _Edge:
    """A dimension in which a nest reads padding.

    Its index is ``reduce * reduce_factor + spatial * spatial_factor + constant``.
    """

    inside: range
    constant: int
    reduce: Var | None
    reduce_factor: int
    spatial: Var | None
    spatial_factor: int

    def pieces(self, ranges: Ranges, begins: bool) -> Iterator[Ranges]:
        """Runs of the reduction loop, each with the spatial iterations that read no padding.

        If the sum begins here, one has all of them: where no iteration of the reduction reads no
        padding at all, the one that reads the least.
        """
        values = range(1) if self.reduce is None else ranges[self.reduce]
        every = range(1) if self.spatial is None else ranges[self.spatial]
        needed = {value: self._spatial(value, ranges) for value in values}
        if begins and every not in needed.values():
            needed[max(values, key=lambda value: len(needed[value]))] = every
        for spatial, run in itertools.groupby(values, key=needed.__getitem__):
            if not spatial:
                continue
            first, *rest = run
            last = rest[-1] if rest else first
            piece = {} if self.reduce is None else {self.reduce: range(first, last + 1)}
            yield piece if self.spatial is None else {**piece, self.spatial: spatial}

    def _spatial(self, value: int, ranges: Ranges) -> range:
        base = self.constant + self.reduce_factor * value
        if self.spatial is None:
            return range(int(base in self.inside))
        old, factor = ranges[self.spatial], self.spatial_factor
        first, end = -((base - self.inside.start) // factor), -((base - self.inside.stop) // factor)
        return range(max(old.start, first), min(old.stop, end))


def without_padding(
    operand: RegionForm,
    interior: Interior,
    env: Mapping[Var, int],
    ranges: Ranges,
    accumulating: set[Var],
    begins: bool = True,
) -> list[Ranges]:
    """Pieces of `ranges` in which `operand` is read inside `interior`.

    If the sum begins here, the first piece has every iteration of the loops that do not accumulate.
    Where that is impossible without products of padding, it has the fewest of them.
    """
    edges: list[_Edge] = []
    for at, reached in conditions(operand, interior, env):
        edge = _edge(at, reached, ranges, accumulating)
        if edge is not None and not _shares_loop(edge, edges):
            edges.append(edge)
    if begins:
        edges = _with_reductions(edges, ranges, accumulating)
    if not edges:
        return [ranges]
    pieces = [
        {var: part.get(var, values) for var, values in ranges.items()}
        for choice in itertools.product(*(list(edge.pieces(ranges, begins)) for edge in edges))
        for part in [{var: values for item in choice for var, values in item.items()}]
    ]
    if not begins:
        return pieces
    whole = next(
        piece
        for piece in pieces
        if all(piece[var] == ranges[var] for var in ranges if var not in accumulating)
    )
    return [whole, *(piece for piece in pieces if piece is not whole)]


def _with_reductions(edges: list[_Edge], ranges: Ranges, accumulating: set[Var]) -> list[_Edge]:
    """`edges`, each with a reduction loop: the sums begin in one of its iterations. Edges for which
    no loop is left are dropped."""
    taken = {edge.reduce for edge in edges}
    free = [var for var in ranges if var in accumulating and len(ranges[var]) > 1]
    free = [var for var in free if var not in taken]
    found = []
    for edge in edges:
        if edge.reduce is not None:
            found.append(edge)
        elif free:
            found.append(replace(edge, reduce=free.pop()))
    return found


def conditions(
    operand: RegionForm, interior: Interior, env: Mapping[Var, int]
) -> Iterator[tuple[Form, range]]:
    """Forms, and the range in which each lies where `operand` is read inside `interior`."""
    minima = [minimum.at(env) for minimum in operand.minima]
    for minimum, part, inside in zip(minima, operand.region.ranges, interior.ranges, strict=True):
        # A product of several rows matters if at least one of them lies inside.
        yield minimum, range(inside.start - part.extent + 1, inside.stop)
    for condition in interior.sums:
        if any(minima[dim].expr is not None for dim, _ in condition.terms):
            continue
        factors: dict[Var, int] = {}
        constant = 0
        for dim, factor in condition.terms:
            constant += factor * minima[dim].constant
            for var, step in minima[dim].terms:
                factors[var] = factors.get(var, 0) + factor * step
        yield Form(tuple(factors.items()), constant), condition.inside


def _edge(at: Form, inside: range, ranges: Ranges, accumulating: set[Var]) -> _Edge | None:
    """The edge where an index leaves `inside`; None if it does not or loops cannot be split."""
    moving = [(var, factor) for var, factor in at.terms if len(ranges[var]) > 1]
    if at.expr is not None or any(factor < 1 for _, factor in moving):
        return None
    fixed = sum(factor * ranges[var].start for var, factor in at.terms if len(ranges[var]) == 1)
    constant = at.constant + fixed
    low = constant + sum(factor * ranges[var][0] for var, factor in moving)
    high = constant + sum(factor * ranges[var][-1] for var, factor in moving)
    if low in inside and high in inside:
        return None
    reduce = [term for term in moving if term[0] in accumulating]
    spatial = [term for term in moving if term[0] not in accumulating]
    if len(reduce) > 1 or len(spatial) > 1:
        return None
    var, factor = reduce[0] if reduce else (None, 0)
    other, other_factor = spatial[0] if spatial else (None, 0)
    return _Edge(inside, constant, var, factor, other, other_factor)


def _shares_loop(edge: _Edge, others: list[_Edge]) -> bool:
    mine = {edge.reduce, edge.spatial} - {None}
    return any(mine & {other.reduce, other.spatial} for other in others)
