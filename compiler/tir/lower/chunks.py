"""`chunk_of`: what a loop copies, if one asynchronous copy of a thread can do it.

    for v in 8 {asynchronous: True}:
        s[i, j * 8 + v] = select(j * 8 + v < 40, x[i, min(j * 8 + v, 39)], 0)

These are eight elements that follow each other in both buffers, from multiples of eight on. The
condition is true of all or of none: then zeros are stored.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from daedal.compiler.tir.condition import conjuncts
from daedal.compiler.tir.dtype import numpy_dtype
from daedal.compiler.tir.expr import (
    Binary,
    Buffer,
    Compare,
    Expr,
    FloatImm,
    IntImm,
    Load,
    Select,
    Var,
)
from daedal.compiler.tir.linear import Linear, element_number, linear
from daedal.compiler.tir.stmt import BufferStore, For
from daedal.compiler.tir.visit import free_vars, substitute

__all__ = ["ASYNCHRONOUS", "CHUNK_BYTES", "Chunk", "chunk_of", "read_of"]

ASYNCHRONOUS = "asynchronous"
"""The annotation of a loop that is one asynchronous copy."""
CHUNK_BYTES = (16, 8, 4)
"""Of one copy. Source: NVIDIA, PTX ISA 8.0, "cp.async"."""


@dataclass(frozen=True)
class Chunk:
    """A copy of elements that follow each other.

    Attributes
    ----------
    buffer, indices : the first element that is written.
    source : the first one that is read.
    condition : whether they are read; zeros are stored otherwise. None: always.
    size : of all, in bytes.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    source: Load
    condition: Expr | None
    size: int


def chunk_of(loop: For) -> Chunk | None:
    """The copy that a loop of a lowered function does; None where it is no such copy."""
    store, count = loop.body, loop.extent
    if not isinstance(store, BufferStore):
        return None
    size = count * numpy_dtype(store.buffer.dtype).itemsize
    read = read_of(store.value)
    if size not in CHUNK_BYTES or read is None or read[0].dtype != store.buffer.dtype:
        return None
    source, condition = read
    places = ((store.buffer, store.indices), (source.buffer, source.indices))
    if not all(_is_aligned(buffer, indices, loop.var, count) for buffer, indices in places):
        return None
    known = [] if condition is None else conjuncts(condition)
    if not all(_is_uniform(item, loop.var, count) for item in known):
        return None
    first: Mapping[Var, Expr] = {loop.var: IntImm(0)}
    return Chunk(
        store.buffer,
        tuple(substitute(index, first) for index in store.indices),
        Load(source.buffer, tuple(substitute(index, first) for index in source.indices)),
        None if condition is None else substitute(condition, first),
        size,
    )


def read_of(value: Expr) -> tuple[Load, Expr | None] | None:
    """The element that a value is, and the condition without which it is 0; None for others."""
    match value:
        case Load():
            return value, None
        case Select(condition, Load(buffer, indices), IntImm(0) | FloatImm(0.0)):
            known = conjuncts(condition)
            return Load(buffer, tuple(_unclamped(index, known) for index in indices)), condition
    return None


def _unclamped(index: Expr, known: Collection[Expr]) -> Expr:
    """An index where the conditions hold: without the limits that they keep anyway."""

    while True:
        match index:
            case Binary("min", a, IntImm(limit)) if Compare("<", a, IntImm(limit + 1)) in known:
                index = a
            case Binary("max", a, IntImm(limit)) if Compare(">=", a, IntImm(limit)) in known:
                index = a
            case _:
                return index


def _is_aligned(buffer: Buffer, indices: tuple[Expr, ...], var: Var, count: int) -> bool:
    """Whether elements follow each other along `var`, and begin at a multiple of `count`."""
    return _moves(element_number(indices, buffer.shape), var, count) == 1


def _is_uniform(condition: Expr, var: Var, count: int) -> bool:
    """Whether a condition is the same for all values of `var`."""
    if var not in free_vars(condition):
        return True
    match condition:
        case Compare("<" | ">=", a, IntImm(limit)) if limit % count == 0:
            return _moves(linear(a), var, count) == 1
    return False


def _moves(form: Linear, var: Var, count: int) -> int | None:
    """The factor of `var` in a form whose other terms are multiples of `count`; None elsewhere."""
    others = [(term, factor) for term, factor in form.terms if term is not var]
    if form.constant % count or any(factor % count for _, factor in others):
        return None
    if any(var in free_vars(term) for term, _ in others):
        return None
    return form.coefficient(var)
