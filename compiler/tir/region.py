"""Region inference: the boxes of buffers that a statement accesses."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from daedal.compiler.tir.condition import Condition, bounds_where, conjuncts, normal_condition
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Select, Var
from daedal.compiler.tir.linear import Linear, bounds, linear, simplify
from daedal.compiler.tir.memo import Memo
from daedal.compiler.tir.outline import outline
from daedal.compiler.tir.stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    For,
    Range,
    Region,
    Seq,
    Stmt,
)
from daedal.compiler.tir.visit import loads, substitute

__all__ = [
    "Access",
    "accesses",
    "block_regions",
    "clipped",
    "conditions_of",
    "join",
    "make_block",
    "region_under",
    "relax",
    "relax_region",
    "substitute_region",
    "union",
    "whole_window",
]


class Access:
    """One region of a buffer that a statement reads or writes, and whether it writes."""

    def __init__(self, region: Region, writes: bool) -> None:
        self.region = region
        self.writes = writes


def conditions_of(realize: BlockRealize, extents: Mapping[Var, int]) -> tuple[Condition, ...]:
    """The conditions of a block's predicate, under loops of the given extents."""
    return tuple(normal_condition(c, extents) for c in conjuncts(realize.predicate))


def clipped(part: Range, size: int, extents: Mapping[Var, int]) -> Range:
    """The range without the part that is provably outside [0, size)."""
    if isinstance(part.min, IntImm):
        low = max(part.min.value, 0)
        high = min(part.min.value + part.extent, size)
        return Range(IntImm(low), high - low)
    limits = bounds(part.min, extents)
    if limits is None or limits[0] < 0:
        return part
    return Range(part.min, min(part.extent, size))


def relax(
    part: Range,
    inner: Mapping[Var, int],
    extents: Mapping[Var, int],
    conditions: Sequence[Condition] = (),
) -> Range | None:
    """The hull of ``part`` while the variables of `inner` run over their extents.

    Where `conditions` are given, only the iterations count in which they hold.

    Variables outside `inner` stay symbolic in the minimum; where that is impossible (``f // 7``
    with both kinds in f) the hull over all of `extents` is taken, and None returned where that is
    unknown too.
    """
    form = linear(part.min)
    if any(not isinstance(term, Var) for term, _ in form.terms):
        # A loop of one iteration must not mix with others in f: it is always 0.
        still: dict[Var, Expr] = {var: IntImm(0) for var, extent in inner.items() if extent == 1}
        form = linear(simplify(substitute(part.min, still), {**extents, **inner}))
    # Which value a select has is not followed: all that it may have count.
    selects = any(isinstance(term, Select) for term, _ in form.terms)
    parts = None if selects else form.split(inner)
    if parts is not None:
        if not parts[0].terms:
            return Range(form.expr(), part.extent)
        inside = bounds_where(parts[0], inner, conditions)
        if inside is not None:
            low, high = inside
            rest = Linear(parts[1].terms, parts[1].constant + low)
            return Range(rest.expr(), high - low + part.extent)
    whole = form.bounds({**extents, **inner})
    if whole is None:
        return None
    return Range(IntImm(whole[0]), whole[1] - whole[0] + part.extent)


def relax_region(
    region: Region,
    inner: Mapping[Var, int],
    extents: Mapping[Var, int],
    conditions: Sequence[Condition] = (),
) -> Region:
    """`relax` in every dimension; an index nothing is known of covers its whole dimension."""
    ranges = []
    for part, size in zip(region.ranges, region.buffer.shape, strict=True):
        hull = relax(part, inner, extents, conditions)
        ranges.append(Range(IntImm(0), size) if hull is None else hull)
    return Region(region.buffer, tuple(ranges), region.pad_value)


def join(a: Range, b: Range, extents: Mapping[Var, int]) -> Range | None:
    """The hull of two ranges; over all of `extents` where their distance is not constant.

    None where nothing is known of it: indices that another buffer holds.
    """
    distance = linear(b.min) - linear(a.min)
    if not distance.terms:
        low = min(0, distance.constant)
        high = max(a.extent, distance.constant + b.extent)
        return Range(a.min if low == 0 else b.min, high - low)
    first, second = bounds(a.min, extents), bounds(b.min, extents)
    if first is None or second is None:
        return None
    low = min(first[0], second[0])
    high = max(first[1] + a.extent, second[1] + b.extent)
    return Range(IntImm(low), high - low)


def substitute_region(region: Region, values: Mapping[Var, Expr]) -> Region:
    """`region` with variables replaced."""
    ranges = tuple(Range(substitute(part.min, values), part.extent) for part in region.ranges)
    return Region(region.buffer, ranges, region.pad_value)


def union(regions: Iterable[Region], extents: Mapping[Var, int]) -> list[Region]:
    """One hull per buffer and pad value, in order of first appearance.

    It covers a whole dimension where nothing is known of an index.
    """
    found: dict[tuple[Buffer, int | float | None], Region] = {}
    for region in regions:
        key = (region.buffer, region.pad_value)
        if key in found:
            whole = whole_window(region.buffer)
            triples = zip(found[key].ranges, region.ranges, whole, strict=True)
            ranges = tuple(join(a, b, extents) or every for a, b, every in triples)
            found[key] = Region(region.buffer, ranges, region.pad_value)
        else:
            found[key] = region
    return list(found.values())


def region_under(
    realize: BlockRealize, region: Region, inner: Mapping[Var, int], outer: Mapping[Var, int]
) -> Region:
    """What a block touches of one of its regions while the loops `inner` run, in terms of `outer`.

    Iterations that the predicate leaves out do not count, as far as it is understood.
    """
    conditions = conditions_of(realize, {**outer, **inner})
    return relax_region(substitute_region(region, realize.binding), inner, outer, conditions)


def accesses(
    stmt: Stmt, extents: Mapping[Var, int], buffers: frozenset[Buffer] | None = None
) -> tuple[Access, ...]:
    """Every access of `stmt` (to `buffers`, where given), relaxed over the loops inside it.

    In execution order. `extents` are the domains of the variables that are free in `stmt`. Stores
    within a block's ``init`` count as writes. The boxes may be too large, never too small.
    """
    known = _known_accesses(stmt)
    key = (buffers, tuple(extents.get(var) for var in outline(stmt).variables))
    if key not in known:
        known[key] = tuple(_accesses(stmt, {}, extents, buffers))
    return known[key]


@Memo
def _known_accesses(
    _stmt: Stmt,
) -> dict[tuple[frozenset[Buffer] | None, tuple[int | None, ...]], tuple[Access, ...]]:
    """What `accesses` found of a statement, by buffers and the extents of its free variables."""
    return {}


def _accesses(
    stmt: Stmt,
    inner: Mapping[Var, int],
    outer: Mapping[Var, int],
    buffers: frozenset[Buffer] | None,
) -> Iterator[Access]:
    found: Iterable[Access] = ()
    conditions: tuple[Condition, ...] = ()
    match stmt:
        case Seq(body):
            for part in body:
                yield from _accesses(part, inner, outer, buffers)
        case Allocate(_, body):
            yield from _accesses(body, inner, outer, buffers)
        case For(var, extent, body):
            yield from _accesses(body, {**inner, var: extent}, outer, buffers)
        case BufferStore():
            found = _stored(stmt)
        case BlockRealize():
            found = _touched(stmt)
            conditions = conditions_of(stmt, {**outer, **inner})
    for access in found:
        if buffers is None or access.region.buffer in buffers:
            region = relax_region(access.region, inner, outer, conditions)
            yield Access(region, access.writes)


@Memo
def _stored(store: BufferStore) -> tuple[Access, ...]:
    """The elements that a store reads and writes."""
    reads = [
        Access(_point(load.buffer, load.indices, load.pad_value), False)
        for expr in (store.value, *store.indices)
        for load in loads(expr)
    ]
    return (*reads, Access(_point(store.buffer, store.indices, None), True))


@Memo
def _touched(realize: BlockRealize) -> tuple[Access, ...]:
    """The accesses of one instance of a block, in terms of the loops around it."""
    block, binding = realize.block, realize.binding
    reads = (Access(substitute_region(region, binding), False) for region in block.reads)
    writes = (Access(substitute_region(region, binding), True) for region in block.writes)
    return (*reads, *writes)


def block_regions(
    iter_vars: tuple[Axis, ...], body: Stmt, init: Stmt | None
) -> tuple[tuple[Region, ...], tuple[Region, ...]]:
    """The `reads` and `writes` of a block with this body, over its iteration variables.

    What a reduction reads of the buffer it accumulates into is not listed among the reads.
    """
    extents: dict[Var, int] = {axis: axis.extent for axis in iter_vars}
    found = [*accesses(body, extents), *(accesses(init, extents) if init is not None else ())]
    writes = union((access.region for access in found if access.writes), extents)
    updated = {region.buffer for region in writes} if init is not None else set()
    reads = union(
        (
            access.region
            for access in found
            if not access.writes and access.region.buffer not in updated
        ),
        extents,
    )
    return tuple(reads), tuple(writes)


def make_block(
    name: str,
    iter_vars: tuple[Axis, ...],
    body: Stmt,
    init: Stmt | None = None,
    annotations: Mapping[str, str | int | bool] | None = None,
) -> Block:
    """A block whose regions are derived from its body."""
    reads, writes = block_regions(iter_vars, body, init)
    return Block(name, iter_vars, reads, writes, body, init, dict(annotations or {}))


def whole_window(buffer: Buffer) -> tuple[Range, ...]:
    """The window that backs every element."""
    return tuple(Range(IntImm(0), extent) for extent in buffer.shape)


def _point(buffer: Buffer, indices: tuple[Expr, ...], pad: int | float | None) -> Region:
    return Region(buffer, tuple(Range(index, 1) for index in indices), pad)
