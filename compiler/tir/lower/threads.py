"""The threads of a GPU's block in a lowered function: which exist, and which elements each touches.

A *nest* is a statement that threads execute without waiting for each other: one under the outermost
loop along a thread axis, or one without such a loop, which the first thread executes. What lies
around nests is executed by all threads alike. Along an axis that no loop around a statement is
bound to, the first thread alone executes it.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.compiler.tir.evaluate import evaluate
from daedal.compiler.tir.expr import Buffer, Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import Linear, linear
from daedal.compiler.tir.lower.chunks import ASYNCHRONOUS
from daedal.compiler.tir.stmt import (
    Allocate,
    BeginArrivals,
    BufferStore,
    CommitCopies,
    For,
    If,
    PrimFunc,
    Region,
    Seq,
    Stmt,
    WaitForBoxes,
    WaitForCopies,
)
from daedal.compiler.tir.visit import free_vars, loads, walk

__all__ = [
    "MAX_POINTS",
    "THREAD_AXES",
    "Access",
    "Places",
    "Threads",
    "accesses",
    "has_threads",
    "is_thread",
    "no_load",
]

THREAD_AXES = ("thread.x", "thread.y", "thread.z")
"""Neighbours along the first one are neighbours in a warp."""
MAX_POINTS = 1 << 22
"""Threads times iterations that are looked at one by one."""

Places = npt.NDArray[np.int64]


def is_thread(stmt: Stmt) -> bool:
    """Whether it is a loop along a thread axis."""
    return isinstance(stmt, For) and stmt.kind in THREAD_AXES


def has_threads(stmt: Stmt) -> bool:
    """Whether a loop along a thread axis is in it."""
    match stmt:
        case Seq(body):
            return any(map(has_threads, body))
        case For(_, _, body):
            return is_thread(stmt) or has_threads(body)
        case Allocate(_, body) | If(_, body):
            return has_threads(body)
    return False


@dataclass(frozen=True)
class Threads:
    """The extents of a block along its thread axes."""

    extents: Mapping[str, int]

    @classmethod
    def of(cls, func: PrimFunc) -> "Threads":
        """Those of a function with one kernel."""
        found = dict.fromkeys(THREAD_AXES, 1)

        def visit(stmt: Stmt) -> None:
            match stmt:
                case Seq(body):
                    for part in body:
                        visit(part)
                case For(_, extent, body):
                    if stmt.kind in THREAD_AXES:
                        found[stmt.kind] = extent
                    visit(body)
                case Allocate(_, body) | If(_, body):
                    visit(body)

        visit(func.body)
        return cls(found)

    @property
    def count(self) -> int:
        """Of a block."""
        return math.prod(self.extents.values())

    @cached_property
    def numbers(self) -> Places:
        """0, 1, 2, ..."""
        return np.arange(self.count, dtype=np.int64)

    def coordinate(self, axis: str) -> Places:
        """Of every thread, along one axis."""
        before = math.prod(self.extents[x] for x in THREAD_AXES[: THREAD_AXES.index(axis)])
        return self.numbers // before % self.extents[axis]


@dataclass(frozen=True)
class Access:
    """What a nest does with one element of a buffer in each of its iterations.

    Attributes
    ----------
    indices : of the element. A condition keeps those out that lie outside the buffer.
    loops : those around it whose iterations are looked at together, thread loops among them.
    carried : loops whose earlier iteration it is of; True: of any, False: of the one before.
    is_copy : whether it writes by an asynchronous copy, which lands at a wait.
    is_landing : whether it is of such a wait: any thread may have copied the element.
    """

    buffer: Buffer
    indices: tuple[Linear, ...]
    is_write: bool
    loops: tuple[For, ...]
    carried: tuple[tuple[Var, bool], ...] = ()
    is_copy: bool = False
    is_landing: bool = False

    @property
    def variables(self) -> frozenset[Var]:
        """Those of the indices."""
        return frozenset(var for index in self.indices for var in free_vars(index.expr()))

    @property
    def outer(self) -> frozenset[Var]:
        """Variables of the indices that are no loop's of `loops`."""
        return self.variables - {loop.var for loop in self.loops}

    def inside(self, loop: For) -> "Access":
        """The same for all iterations of a loop around it, after which it is seen."""
        carried = tuple(item for item in self.carried if item[0] is not loop.var)
        return replace(self, loops=(loop, *self.loops), carried=carried)

    def touched(
        self, threads: Threads, values: Mapping[Var, int], alike: Collection[Var] = ()
    ) -> tuple[Places, Places] | None:
        """The indices of elements, a row for each dimension, and the thread that touches each, with
        `values` of the outer variables; those of variables in `alike` stand for all others.

        None where these are too many to be looked at, or not known before the run. Of threads that
        touch the same elements, those with the lowest and with the highest number stand for all.
        """
        if any(isinstance(node, Load) for item in self.indices for node in walk(item.expr())):
            return None
        bound = {loop.kind: loop for loop in self.loops if loop.kind in THREAD_AXES}
        used = self.variables
        others = [x for x in self.loops if x.kind not in THREAD_AXES and x.var in used]
        runs = np.ones(threads.count, bool)
        for axis in THREAD_AXES:
            if axis not in bound:
                runs &= threads.coordinate(axis) == 0
        runs &= self._first_and_last(threads, runs, bound)
        count = 1 if self.is_landing else int(runs.sum())
        if count * math.prod(loop.extent for loop in others) > MAX_POINTS:
            return None
        # What has landed is of other threads than any that reads it.
        numbers = np.array([threads.count]) if self.is_landing else threads.numbers[runs]
        env: dict[Var, Any] = dict(values)
        rank = len(others) + 1
        for axis, loop in bound.items():
            env[loop.var] = threads.coordinate(axis)[runs].reshape(-1, *[1] * (rank - 1))
        for number, loop in enumerate(others):
            shape = [1] * rank
            shape[number + 1] = loop.extent
            env[loop.var] = np.arange(loop.extent, dtype=np.int64).reshape(shape)
        full = (len(numbers), *(loop.extent for loop in others))
        rows = [
            np.broadcast_to(np.asarray(evaluate(item.expr(), env, no_load), np.int64), full)
            for item in self.indices
        ]
        who = np.broadcast_to(numbers.reshape(-1, *[1] * (rank - 1)), full).reshape(-1)
        indices = np.stack([row.reshape(-1) for row in rows])
        exist = np.ones(indices.shape[1], bool)
        for row, size, item in zip(indices, self.buffer.shape, self.indices, strict=True):
            if not any(var in alike for var in free_vars(item.expr())):
                exist &= (row >= 0) & (row < size)
        return indices[:, exist], who[exist]

    def _first_and_last(
        self, threads: Threads, runs: npt.NDArray[np.bool_], bound: Mapping[str, For]
    ) -> npt.NDArray[np.bool_]:
        """Whether a thread is the first or the last one of those that touch the same elements."""
        own = {loop.var: threads.coordinate(axis)[runs] for axis, loop in bound.items()}
        parts = [index.split(own) for index in self.indices]
        if any(part is None for part in parts):
            return runs
        values = [
            np.broadcast_to(evaluate(part[0].expr(), own, no_load), runs.sum())
            for part in parts
            if part is not None
        ]
        _, first, alike = np.unique(
            np.stack(values), axis=1, return_index=True, return_inverse=True
        )
        last = np.zeros_like(first)
        np.maximum.at(last, alike.reshape(-1), np.arange(alike.size))
        found = np.zeros(threads.count, bool)
        found[np.flatnonzero(runs)[np.concatenate([first, last])]] = True
        return found


def no_load(load: Load, _indices: Any) -> Any:
    """For `evaluate`, where no element is read."""
    raise AssertionError(f"{load} is known only when it runs")


def accesses(stmt: Stmt) -> Iterator[Access]:
    """What a nest reads and writes."""
    yield from _accesses(stmt, ())


def _accesses(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[Access]:
    match stmt:
        case Seq(body):
            for part in body:
                yield from _accesses(part, loops)
        case For(_, _, body):
            yield from _accesses(body, (*loops, stmt))
        case Allocate(_, body):
            yield from _accesses(body, loops)
        case If(condition, body):
            yield from _reads(condition, loops)
            yield from _accesses(body, loops)
        case WaitForCopies(_, landed):
            for region in landed:
                yield _landing(region, loops)
        case WaitForBoxes(arrivals, stage, _, landed):
            for region in landed:
                yield _landing(region, loops)
            yield Access(arrivals, (linear(stage),), False, loops, is_landing=True)
        case BeginArrivals(arrivals):
            for number in range(arrivals.shape[0]):
                yield Access(arrivals, (linear(IntImm(number)),), True, loops)
        case BufferStore(buffer, indices, value):
            for expr in (*indices, value):
                yield from _reads(expr, loops)
            is_copy = any(ASYNCHRONOUS in loop.annotations for loop in loops)
            yield Access(buffer, tuple(map(linear, indices)), True, loops, is_copy=is_copy)


def _landing(region: Region, loops: tuple[For, ...]) -> Access:
    """All elements of a region, by loops of their own."""
    inner = [For(Var("i"), part.extent, CommitCopies()) for part in region.ranges]
    indices = (linear(part.min + loop.var) for part, loop in zip(region.ranges, inner, strict=True))
    return Access(region.buffer, tuple(indices), True, (*loops, *inner), is_landing=True)


def _reads(expr: Expr, loops: tuple[For, ...]) -> Iterator[Access]:
    for load in dict.fromkeys(loads(expr)):
        yield Access(load.buffer, tuple(map(linear, load.indices)), False, loops)
