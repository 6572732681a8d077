"""`box_of`: what nested loops copy, if copies of boxes can do it, which one thread begins.

    for i in 64, j in 64 {asynchronous: True, box: True}:
        s[1, i, j] = select(k * 64 + j < 200, x[i, min(k * 64 + j, 199)], 0)

Elements follow each other in the one buffer as the loops do, and are a box in the other, with zeros
where it reaches beyond the end. The condition may say nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler.tir.condition import conjuncts
from daedal.compiler.tir.expr import Buffer, Compare, Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import element_number, linear
from daedal.compiler.tir.lower.chunks import read_of
from daedal.compiler.tir.stmt import BufferStore, For, Stmt
from daedal.compiler.tir.visit import free_vars, substitute

__all__ = ["BOX", "Box", "box_of"]

BOX = "box"
"""The annotation of the outermost loop of a copy of boxes."""


@dataclass(frozen=True)
class Box:
    """A copy of elements that are a box of an input.

    Attributes
    ----------
    buffer, indices : the first element that is written; the others follow it.
    source : the first one that is read, which may lie outside.
    extents : of the box along each dimension of the source.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    source: Load
    extents: tuple[int, ...]


def box_of(nest: For) -> Box | None:
    """The box that the loops of a lowered function copy; None where it is none."""
    loops: dict[Var, int] = {}
    inner: Stmt = nest
    while isinstance(inner, For):
        loops[inner.var] = inner.extent
        inner = inner.body
    if not isinstance(inner, BufferStore):
        return None
    read = read_of(inner.value)
    if read is None or read[0].dtype != inner.buffer.dtype:
        return None
    source, condition = read
    known = [] if condition is None else conjuncts(condition)
    shape = source.buffer.shape
    if not all(_is_inside(item, source.indices, shape) for item in known):
        return None
    extents = _extents(source.indices, loops)
    if extents is None or not _follow(inner, source.indices, loops):
        return None
    first: Mapping[Var, Expr] = {var: IntImm(0) for var in loops}
    return Box(
        inner.buffer,
        tuple(substitute(index, first) for index in inner.indices),
        Load(source.buffer, tuple(substitute(index, first) for index in source.indices)),
        extents,
    )


def _is_inside(condition: Expr, indices: Sequence[Expr], shape: Sequence[int]) -> bool:
    """Whether a condition only says that an index is inside of its dimension."""
    match condition:
        case Compare("<", a, IntImm(limit)):
            return any(
                a == index and limit == extent for index, extent in zip(indices, shape, strict=True)
            )
        case Compare(">=", a, IntImm(0)):
            return a in indices
    return False


def _extents(indices: Sequence[Expr], loops: Mapping[Var, int]) -> tuple[int, ...] | None:
    """Along each dimension of the source: of the one loop that moves there one by one, or 1."""
    found, used = [], set[Var]()
    for index in indices:
        own = [var for var in free_vars(index) if var in loops and loops[var] > 1]
        if not own:
            found.append(1)
            continue
        if len(own) > 1 or own[0] in used or linear(index).coefficient(own[0]) != 1:
            return None
        if any(own[0] in free_vars(term) for term, _ in linear(index).terms if term is not own[0]):
            return None
        used.add(own[0])
        found.append(loops[own[0]])
    return tuple(found) if used == {var for var, extent in loops.items() if extent > 1} else None


def _follow(store: BufferStore, source: Sequence[Expr], loops: Mapping[Var, int]) -> bool:
    """Whether elements are written one after the other, in the order of the source's dimensions."""
    form = element_number(store.indices, store.buffer.shape)
    apart = 1
    for index in reversed(source):
        for var in free_vars(index):
            if loops.get(var, 1) > 1:
                if form.coefficient(var) != apart:
                    return False
                apart *= loops[var]
    return not any(
        set(free_vars(term)).intersection(loops)
        for term, _ in form.terms
        if not isinstance(term, Var)
    )
