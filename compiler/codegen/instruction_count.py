"""`count_instructions`: how many instructions a scheduled function takes, without emitting them.

The outer loops of a schedule execute a nest or a copy up to millions of times, and most executions
take as many instructions as others: they differ in rows and addresses. What counts is whether a
loop is cut, whether padding is read or loaded, and whether a sum begins. Executions are classified
by that, and one of each class is built.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.accelerator import COPIES, Emitter, Thread
from daedal.compiler.codegen.concrete import Env
from daedal.compiler.codegen.forms import BlockForm, Form, block_form, form_of, leaf_form
from daedal.compiler.codegen.memory_view import MemoryView
from daedal.compiler.codegen.operations import OperationBuilder
from daedal.compiler.codegen.transfers import TransferBuilder
from daedal.compiler.tir.expr import Var
from daedal.compiler.tir.stmt import Allocate, Allocation, BlockRealize, For, PrimFunc, Seq, Stmt
from daedal.isa.variant import Variant

__all__ = ["count_instructions"]

_EVERYWHERE = 1 << 62


def count_instructions(
    func: PrimFunc, variant: Variant, views: Mapping[str, MemoryView] | None = None
) -> int:
    """The number of instructions that `emit_segment` makes of `func`, if it had no limit.

    Parameters and errors are those of `emit_segment`.
    """
    known = views or {}
    strided = {buffer: known[buffer.name] for buffer in func.params if buffer.name in known}
    names = {buffer: buffer.name for buffer in func.params}
    transfers = TransferBuilder(variant, names, strided)
    return _Counter(func, variant, transfers).count(func.body, (), ())


@dataclass(frozen=True)
class _Mark:
    """A part of an execution's class: a sum over outer loops, where it is not within `usual`."""

    terms: tuple[tuple[Var, int], ...]
    usual: range

    @classmethod
    def of(cls, form: Form, loops: Iterable[For], inside: range, length: int = 1) -> "_Mark":
        """For an index of `length` elements, which is usual if it lies `inside` in each iteration
        of `loops`."""
        extents = {loop.var: loop.extent for loop in loops}
        reach = [factor * (extents[var] - 1) for var, factor in form.terms if var in extents]
        low = form.constant + sum(min(0, item) for item in reach)
        high = form.constant + sum(max(0, item) for item in reach) + length - 1
        return cls(
            tuple((var, factor) for var, factor in form.terms if var not in extents),
            range(inside.start - low, max(inside.stop - high, inside.start - low)),
        )


@dataclass(frozen=True)
class _Group:
    """Loops that marks combine, by class: how many of their iterations, and one of them."""

    counts: Sequence[int]
    points: Sequence[Env]


class _Counter(Emitter):
    """Counts where the emitter emits."""

    def count(self, stmt: Stmt, loops: tuple[For, ...], allocations: tuple[Allocation, ...]) -> int:
        """Instructions of a statement within `loops`, all their iterations together."""
        nest = self.nest(stmt)
        if nest is not None:
            return self.executions(*nest, loops, allocations)
        match stmt:
            case Seq(body):
                return sum(self.count(part, loops, allocations) for part in body)
            case For(_, _, body):
                return self.count(body, (*loops, stmt), allocations)
            case Allocate(items, body):
                ordered = sorted(items, key=lambda item: self.depth(item.buffer))
                return self.count(body, loops, (*allocations, *ordered))
        raise AssertionError(f"no code for {stmt!r}")

    def executions(
        self,
        inner: tuple[For, ...],
        realize: BlockRealize,
        loops: tuple[For, ...],
        allocations: tuple[Allocation, ...],
    ) -> int:
        """Instructions of all executions of a nest."""
        if realize.block.annotations.get("intrin") in COPIES:
            loops, form = (*loops, *inner), leaf_form((), realize)
            marks: Iterable[_Mark] = _marks_of_copy(form)
            builder: TransferBuilder | OperationBuilder = self.transfers
        else:
            form = block_form(inner, realize)
            marks, builder = _marks_of_operation(form, self.builder), self.builder
        groups = list(_groups(marks, loops))
        free = prod(loop.extent for loop in loops) // prod(sum(group.counts) for group in groups)
        total = 0
        for classes in itertools.product(*(range(len(group.counts)) for group in groups)):
            env = dict.fromkeys((loop.var for loop in loops), 0)
            times = free
            for group, number in zip(groups, classes, strict=True):
                env |= group.points[number]
                times *= group.counts[number]
            thread = Thread((), env, {})
            for item in allocations:
                self.allocate(item, thread)
            total += times * sum(1 for _ in builder.build(form, env, thread.live))
        return total


def _marks_of_copy(form: BlockForm) -> Iterator[_Mark]:
    """What the pieces of a copy depend on: what it leaves out, and the borders of the tensor."""
    yield from _common_marks(form)
    if form.source is not None:
        yield from _exact(form_of(form.source), form.loops)
    for region in (*form.reads, *form.writes):
        if region.region.buffer.scope == "global":
            sizes = zip(
                region.minima, region.region.ranges, region.region.buffer.shape, strict=True
            )
            for minimum, part, size in sizes:
                if minimum.expr is None:
                    yield _Mark.of(minimum, form.loops, range(size), part.extent)


def _marks_of_operation(form: BlockForm, builder: OperationBuilder) -> Iterator[_Mark]:
    """What the pieces of a nest depend on: cut loops, padding, and where sums begin."""
    yield from _common_marks(form)
    for reduce in form.reduces:
        if reduce.expr is None:
            yield _Mark.of(reduce, form.loops, range(1, _EVERYWHERE))
        else:
            yield from _exact(reduce, form.loops)
    for place in builder.places(form):
        yield from _exact(place, form.loops)
    padded, edges = builder.keeps_off(form), builder.edges(form)
    for at, inside in edges or ():
        yield _Mark.of(at, form.loops, inside)
    if padded is not None and edges is None:
        for minimum in padded.minima:
            yield from _exact(minimum, form.loops)


def _common_marks(form: BlockForm) -> Iterator[_Mark]:
    for clip in form.clips:
        holds = range(_EVERYWHERE) if clip.at_least else range(-_EVERYWHERE, 0)
        if clip.form.expr is None:
            yield _Mark.of(clip.form, form.loops, holds)
        else:
            yield from _exact(clip.form, form.loops)
    for region in (*form.reads, *form.writes):
        for minimum in region.minima:
            if minimum.expr is not None:
                yield from _exact(minimum, form.loops)


def _exact(form: Form, loops: Iterable[For]) -> Iterator[_Mark]:
    """A class for each value of every loop that a form depends on."""
    inside = {loop.var for loop in loops}
    for var in form.variables:
        if var not in inside:
            yield _Mark(((var, 1),), range(0))


def _groups(marks: Iterable[_Mark], loops: Sequence[For]) -> Iterator[_Group]:
    """The classes of iterations; loops in one mark are in one group."""
    extents = {loop.var: loop.extent for loop in loops}
    several = [
        _Mark(tuple(term for term in mark.terms if extents[term[0]] > 1), mark.usual)
        for mark in dict.fromkeys(marks)
    ]
    left = [mark for mark in several if mark.terms]
    while left:
        own = [left.pop(0)]
        variables = {var for var, _ in own[0].terms}
        while joining := [m for m in left if any(var in variables for var, _ in m.terms)]:
            own += joining
            variables |= {var for mark in joining for var, _ in mark.terms}
            left = [mark for mark in left if mark not in joining]
        yield _group(own, {var: extents[var] for var in extents if var in variables})


def _group(marks: Sequence[_Mark], extents: Mapping[Var, int]) -> _Group:
    sizes = tuple(extents.values())
    axes = dict(zip(extents, range(len(sizes)), strict=True))
    numbers = np.zeros(sizes, dtype=np.int64)
    for mark in marks:
        position = np.zeros((1,) * len(sizes), dtype=np.int64)
        for var, factor in mark.terms:
            shape = [1] * len(sizes)
            shape[axes[var]] = extents[var]
            position = position + (factor * np.arange(extents[var])).reshape(shape)
        usual = (position >= mark.usual.start) & (position < mark.usual.stop)
        _, code = np.unique(np.where(usual, -_EVERYWHERE, position), return_inverse=True)
        code = code.reshape(position.shape)
        _, numbers = np.unique(numbers * (int(code.max()) + 1) + code, return_inverse=True)
        numbers = numbers.reshape(sizes)
    _, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    points = [_point(at, extents) for at in np.transpose(np.unravel_index(first, sizes))]
    return _Group(counts.tolist(), points)


def _point(at: npt.NDArray[np.int64], extents: Mapping[Var, int]) -> Env:
    return dict(zip(extents, at.tolist(), strict=True))
