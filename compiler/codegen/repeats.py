"""`Repeats`: caches the instructions of a nest, to reuse them when the nest is executed again.

The outer loops of a schedule execute a nest thousands of times. Its rows, relative to their
instances, depend on only some of these loops. While those have the same values, only the instances
differ.

Input and output: those of `daedal.compiler.codegen.operations.OperationBuilder.build`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from daedal.compiler.codegen.concrete import Env
from daedal.compiler.codegen.forms import BlockForm, Form, form_of
from daedal.compiler.codegen.instances import ROW_DIMS, Live
from daedal.compiler.codegen.operations import OperationBuilder
from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.tir.expr import Buffer, Var
from daedal.compiler.tir.stmt import For

__all__ = ["Repeats"]


@dataclass(frozen=True)
class _Needs:
    """What the instructions of a form depend on, apart from the instances they touch.

    `form` is kept alive so that its `id` stays unique.
    """

    form: BlockForm
    buffers: tuple[Buffer, ...]
    variables: tuple[Var, ...]
    edges: tuple["_Edge", ...]


@dataclass(frozen=True)
class _Edge:
    """An index that must lie in `inside` where a product reads no padding.

    It is ``sum(factor * variable)`` over loops outside the nest, plus `low` to `high`.
    """

    terms: tuple[tuple[Var, int], ...]
    low: int
    high: int
    inside: range

    @classmethod
    def of(cls, at: Form, inside: range, loops: Iterable[For]) -> "_Edge":
        extents = {loop.var: loop.extent for loop in loops}
        reach = [factor * (extents[var] - 1) for var, factor in at.terms if var in extents]
        return cls(
            tuple((var, factor) for var, factor in at.terms if var not in extents),
            at.constant + sum(min(0, item) for item in reach),
            at.constant + sum(max(0, item) for item in reach),
            inside,
        )

    def key(self, env: Env) -> int | None:
        """None where no padding is read, wherever that is; else the exact position."""
        position = 0
        for var, factor in self.terms:
            position += factor * env[var]
        low, high = position + self.low, position + self.high
        return None if self.inside.start <= low and high < self.inside.stop else position


class Repeats:
    """Builds instructions with `builder`, and caches them."""

    def __init__(self, builder: OperationBuilder) -> None:
        self._builder = builder
        self._needs: dict[int, _Needs] = {}
        self._known: dict[object, tuple[tuple[Instance, ...], list[SegmentInstruction]]] = {}

    def build(self, form: BlockForm, env: Env, live: Live) -> Iterable[SegmentInstruction]:
        """Instructions for one execution of a tensorized block and the loops directly around it."""
        needs = self._needs.get(id(form))
        if needs is None:
            needs = self._needs[id(form)] = _needs(form, live, self._builder)
        held = [live[buffer] for buffer in needs.buffers]
        key = (
            id(form),
            *[env[var] for var in needs.variables],
            *[edge.key(env) for edge in needs.edges],
            *[item.start for item in held],
        )
        instances = tuple(item.instance for item in held)
        if key not in self._known:
            self._known[key] = instances, list(self._builder.build(form, env, live))
            return self._known[key][1]
        before, instructions = self._known[key]
        return _moved(instructions, dict(zip(before, instances, strict=True)))


def _moved(
    instructions: Iterable[SegmentInstruction], instances: dict[Instance, Instance]
) -> Iterator[SegmentInstruction]:
    for item in instructions:
        rows = tuple(
            RowAccess(
                instances[access.instance],
                access.field,
                access.runs,
                access.reads,
                access.writes,
                access.scale,
            )
            for access in item.rows
        )
        yield SegmentInstruction(item.template, rows, item.tensor, item.uops)


def _needs(form: BlockForm, live: Live, builder: OperationBuilder) -> _Needs:
    """Loops that rows depend on; those that cancel between index and window origin are left out.

    For an operand whose products with padding are left out, its position in the map matters, too,
    but only at the borders.
    """
    padded, edges = builder.keeps_off(form), builder.edges(form)
    found: dict[Var, None] = {}
    for operand in (*form.reads, *form.writes):
        window = live[operand.region.buffer].window
        for minimum, part in zip(operand.minima[:-ROW_DIMS], window, strict=False):
            found |= dict.fromkeys(_difference(minimum, form_of(part.min)))
    others = [*(clip.form for clip in form.clips), *form.reduces]
    others += padded.minima if padded is not None and edges is None else ()
    for other in others:
        found |= dict.fromkeys(other.variables)
    inside = {loop.var for loop in form.loops}
    buffers = dict.fromkeys(operand.region.buffer for operand in (*form.reads, *form.writes))
    return _Needs(
        form,
        tuple(buffers),
        tuple(var for var in found if var not in inside),
        tuple(_Edge.of(at, within, form.loops) for at, within in edges or ()),
    )


def _difference(a: Form, b: Form) -> tuple[Var, ...]:
    """The variables that ``a - b`` depends on."""
    if a.expr is not None or b.expr is not None:
        return (*a.variables, *b.variables)
    factors = dict(a.terms)
    for var, factor in b.terms:
        factors[var] = factors.get(var, 0) - factor
    return tuple(var for var, factor in factors.items() if factor)
