"""Barriers where threads of a block would race, and nowhere else.

    for k in 4:                                   for k in 4:
        for t in 8 thread.x:                          barrier
            s[t] = x[k, t]                            for t in 8 thread.x:
        for t in 8 thread.x:                 =>           s[t] = x[k, t]
            y[k, t] = s[7 - t]                        barrier
                                                      for t in 8 thread.x:
                                                          y[k, t] = s[7 - t]

Two accesses of different threads to one element race if one of them writes it and no barrier is
between them. The elements of each thread are enumerated; where they are too many, or not known
before the run, accesses to one buffer count as a race. The last nest of a loop and the first of
its next iteration follow each other, too.
"""

import itertools
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from daedal.common.errors import UnsupportedError
from daedal.compiler.tir.expr import Binary, Buffer, Expr, IntImm, Var
from daedal.compiler.tir.linear import linear
from daedal.compiler.tir.lower.rebuild import flat_seq
from daedal.compiler.tir.lower.threads import (
    Access,
    Places,
    Threads,
    accesses,
    has_threads,
    is_thread,
)
from daedal.compiler.tir.stmt import (
    Allocate,
    Barrier,
    For,
    If,
    PrimFunc,
    Seq,
    Stmt,
    WaitForBoxes,
    WaitForCopies,
)
from daedal.compiler.tir.visit import free_vars

__all__ = ["lower_barriers"]

MAX_PAIRS = 1 << 10
"""Pairs of iterations that are looked at one by one."""

MAX_ELEMENTS = 1 << 24
"""Elements of a buffer of which the threads are noted."""

_EXCHANGED = ("shared", "global")
"""Scopes whose buffers several threads can touch."""


def lower_barriers(func: PrimFunc) -> PrimFunc:
    """A lowered function of one kernel, with the barriers that it needs.

    Raises UnsupportedError where threads would race inside one nest, where none can be.
    """
    written = frozenset(
        item.buffer
        for item in accesses(func.body)
        if item.is_write and item.buffer.scope in _EXCHANGED
    )
    placed = _Barriers(Threads.of(func), written).placed(func.body, {})
    return replace(func, body=placed.stmt)


@dataclass(frozen=True)
class _Placed:
    """A statement with its barriers, and its accesses `first`, before all of them, and `last`,
    after all of them; without a barrier these are all."""

    stmt: Stmt
    first: tuple[Access, ...]
    last: tuple[Access, ...]
    has_barrier: bool = False


class _Barriers:
    """Gives each statement its barriers, then those between it and its neighbours."""

    def __init__(self, threads: Threads, written: frozenset[Buffer]) -> None:
        self._threads = threads
        self._written = written
        self._owners: dict[Hashable, _Owners | None] = {}

    def placed(self, stmt: Stmt, extents: Mapping[Var, int]) -> _Placed:
        """`stmt` with its barriers; `extents` are those of the loops around it."""
        if is_thread(stmt) or not has_threads(stmt):
            return self._nest(stmt, extents)
        match stmt:
            case Seq(body):
                parts = [self.placed(part, extents) for part in body]
                parts = [self._landed(n, parts, extents) for n in range(len(parts))]
                return reduce(lambda a, b: self._joined(a, b, extents), parts)
            case For():
                return self._loop(stmt, extents)
            case Allocate(_, body):
                inner = self.placed(body, extents)
                return replace(inner, stmt=replace(stmt, body=inner.stmt))
            case If():
                raise UnsupportedError(
                    "code for GPUs must not have thread loops under a condition; put the condition "
                    "inside them"
                )
        raise AssertionError(f"not a lowered statement: {stmt!r}")

    def _landed(self, number: int, parts: Sequence[_Placed], extents: Mapping[Var, int]) -> _Placed:
        """A part of a sequence; a wait with the barrier behind it, if what follows reads copies.

        There it also orders these reads before the copies of the next stage, which are begun first.
        """
        part = parts[number]
        if not isinstance(part.stmt, WaitForCopies | WaitForBoxes):
            return part
        if not any(self._races(part.last, after.first, extents) for after in parts[number + 1 :]):
            return part
        return _Placed(flat_seq([part.stmt, Barrier()]), part.first, (), has_barrier=True)

    def _nest(self, stmt: Stmt, extents: Mapping[Var, int]) -> _Placed:
        own = tuple(item for item in accesses(stmt) if item.buffer in self._written)
        for a, b in itertools.combinations_with_replacement(own, 2):
            if self._race(a, b, extents):
                raise UnsupportedError(
                    "code for GPUs must not exchange elements between threads under one thread "
                    f"loop, and {a.buffer.name!r} is exchanged; give what writes it and what "
                    "reads it a thread loop each"
                )
        return _Placed(stmt, own, own)

    def _joined(self, a: _Placed, b: _Placed, extents: Mapping[Var, int]) -> _Placed:
        """One after the other."""
        race = self._races(a.last, b.first, extents)
        stmt = flat_seq([a.stmt, Barrier(), b.stmt] if race else [a.stmt, b.stmt])
        first = a.first if race or a.has_barrier else (*a.first, *b.first)
        last = b.last if race or b.has_barrier else (*a.last, *b.last)
        return _Placed(stmt, first, last, race or a.has_barrier or b.has_barrier)

    def _loop(self, loop: For, extents: Mapping[Var, int]) -> _Placed:
        """A loop that all threads execute alike; an iteration races with those before it."""
        body = self.placed(loop.body, {**extents, loop.var: loop.extent})
        if loop.kind.startswith("block."):
            return replace(body, stmt=replace(loop, body=body.stmt))
        if loop.extent > 1:
            carried = (loop.var, not body.has_barrier)
            before = [replace(item, carried=(*item.carried, carried)) for item in body.last]
            if self._races(before, body.first, {**extents, loop.var: loop.extent}):
                stmt = flat_seq([Barrier(), body.stmt])
                body = _Placed(stmt, (), body.last, has_barrier=True)
        first, last = (tuple(x.inside(loop) for x in found) for found in (body.first, body.last))
        return _Placed(replace(loop, body=body.stmt), first, last, body.has_barrier)

    def _races(
        self, before: Sequence[Access], after: Sequence[Access], extents: Mapping[Var, int]
    ) -> bool:
        return any(self._race(a, b, extents) for a in before for b in after)

    def _race(self, a: Access, b: Access, extents: Mapping[Var, int]) -> bool:
        """Whether different threads touch one element, `a` first."""
        if a.buffer is not b.buffer or not (a.is_write or b.is_write):
            return False
        if a.is_copy and b.is_landing:  # of the same copy, or of one before it
            return False
        carried, zero = dict(a.carried), dict.fromkeys(a.outer | b.outer, 0)
        extents = {
            **extents,
            **{var: min(extents[var], 2 * (_period(a, b, var) or extents[var])) for var in zero},
        }
        # What is 0 in every iteration is known, and so are the elements that exist.
        alike = frozenset(
            var
            for var in zero
            if extents[var] > 1
            and (_cancels(a, b, var) or (var not in carried and _moves_alike(a, b, var)))
        )
        varied = [var for var in zero if var in carried or var not in alike]
        pairs = [_pairs(var, carried, a, b, extents) for var in varied]
        for number, values in enumerate(itertools.product(*pairs)):
            first, then = (
                {**zero, **{var: value[n] for var, value in zip(varied, values, strict=True)}}
                for n in range(2)
            )
            if self._meet(a, b, first, then, alike):
                return True
            if varied and number == 0:  # no race here: perhaps there is none at all
                at_once = [For(var, extents[var], Barrier()) for var in varied]
                all_a, all_b = (reduce(Access.inside, at_once, item) for item in (a, b))
                if not self._meet(all_a, all_b, zero, zero, alike):
                    return False
                if math.prod(map(len, pairs)) > MAX_PAIRS:
                    return True
        return False

    def _meet(
        self,
        a: Access,
        b: Access,
        first: Mapping[Var, int],
        then: Mapping[Var, int],
        alike: frozenset[Var],
    ) -> bool:
        """Whether an element is touched by both, and not by one thread alone."""
        one, other = self._owned(a, first, alike), self._owned(b, then, alike)
        if one is None or other is None:
            return True
        low = np.maximum(one.low, other.low)
        high = np.minimum(one.low + one.first.shape, other.low + other.first.shape)
        if (high <= low).any():
            return False
        (first_a, last_a), (first_b, last_b) = (x.within(low, high) for x in (one, other))
        touched = (last_a >= 0) & (last_b >= 0)
        alone = (first_a == last_a) & (first_b == last_b) & (first_a == first_b)
        return bool((touched & ~alone).any())

    def _owned(
        self, access: Access, values: Mapping[Var, int], alike: frozenset[Var]
    ) -> "_Owners | None":
        """The elements that `access` touches; None where these are too many, or not known."""
        used = access.variables
        loops = tuple(
            (loop.var, loop.extent, loop.kind)
            for loop in access.loops
            if is_thread(loop) or loop.var in used
        )
        known = tuple((var, values[var]) for var in values if var in used)
        key = (access.buffer, access.indices, access.is_landing, loops, known, alike & used)
        if key not in self._owners:
            found = access.touched(self._threads, values, alike)
            owners = None if found is None else _Owners.of(*found)
            kept = sum(item.first.size for item in self._owners.values() if item is not None)
            if kept > MAX_ELEMENTS:
                self._owners.clear()
            self._owners[key] = owners
        return self._owners[key]


@dataclass(frozen=True)
class _Owners:
    """The first and the last thread that touches each element of a box, -1 where none does.

    Attributes
    ----------
    low : the indices of the box's first element.
    """

    low: Places
    first: Places
    last: Places

    @classmethod
    def of(cls, indices: Places, who: Places) -> "_Owners | None":
        """Those of elements, a row of `indices` for each dimension; None for a box that is too
        large."""
        if not who.size:
            nothing = np.zeros([0] * len(indices), np.int64)
            return cls(np.zeros(len(indices), np.int64), nothing, nothing)
        low = indices.min(axis=1)
        shape = tuple((indices.max(axis=1) - low + 1).tolist())
        size = math.prod(shape)
        if size > MAX_ELEMENTS:
            return None
        elements = np.ravel_multi_index(tuple(indices - low[:, None]), shape)
        first, last = np.full(size, np.iinfo(np.int64).max), np.full(size, -1)
        np.minimum.at(first, elements, who)
        np.maximum.at(last, elements, who)
        return cls(low, first.reshape(shape), last.reshape(shape))

    def within(self, low: Places, high: Places) -> tuple[Places, Places]:
        """First and last threads of the elements from `low` to below `high`, which are in the
        box."""
        ends = zip((low - self.low).tolist(), (high - self.low).tolist(), strict=True)
        part = tuple(slice(begin, end) for begin, end in ends)
        return self.first[part], self.last[part]


def _pairs(
    var: Var, carried: Mapping[Var, bool], a: Access, b: Access, extents: Mapping[Var, int]
) -> Sequence[tuple[int, int]]:
    """Iterations of a loop around both, of `a` and of `b`."""
    count = extents[var]
    if var not in carried:
        return [(number, number) for number in range(count)]
    if _cancels(a, b, var):  # what lies between them is the same from each iteration on
        return [(0, later) for later in range(1, count if carried[var] else 2)]
    later = itertools.combinations if carried[var] else lambda x, _: itertools.pairwise(x)
    return list(itertools.islice(later(range(count), 2), MAX_PAIRS + 1))


def _period(a: Access, b: Access, var: Var) -> int | None:
    """After how many iterations of a loop all elements are those of the first one again: where its
    variable is only in terms such as ``(k + 2) % 3``; None elsewhere."""
    period = 1
    for index in (*a.indices, *b.indices):
        for term, _ in index.terms:
            if var in free_vars(term):
                match term:
                    case Binary("%", inner, IntImm(count)) if _is_affine_in(inner, var):
                        period = math.lcm(period, count)
                    case _:
                        return None
    return period


def _is_affine_in(expr: Expr, var: Var) -> bool:
    return all(term is var or var not in free_vars(term) for term, _ in linear(expr).terms)


def _moves_alike(a: Access, b: Access, var: Var) -> bool:
    """Whether a variable moves both elements by the same, as long as it has one value for both."""
    for indices in zip(a.indices, b.indices, strict=True):
        one, other = ({item for item in x.terms if var in free_vars(item[0])} for x in indices)
        if one != other or any(free_vars(term) != (var,) for term, _ in one):
            return False
    return True


def _cancels(a: Access, b: Access, var: Var) -> bool:
    """Whether both elements move alike with `var`, so that its value does not tell."""
    return all(
        one.coefficient(var) == other.coefficient(var)
        and not any(
            term is not var and var in free_vars(term) for term, _ in (*one.terms, *other.terms)
        )
        for one, other in zip(a.indices, b.indices, strict=True)
    )
