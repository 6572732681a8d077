"""`Repeats`: caches the instructions of a nest, to reuse them when the nest is executed again.

The outer loops of a schedule execute a nest thousands of times. While its conditions and its
padding are the same, only the instances differ, and the first row of each operand.

Input and output: those of `daedal.compiler.codegen.operations.OperationBuilder.build`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from daedal.compiler.codegen.concrete import Env
from daedal.compiler.codegen.edges import Edge, conditions
from daedal.compiler.codegen.forms import BlockForm, Form, form_of
from daedal.compiler.codegen.instances import ROW_DIMS, Live
from daedal.compiler.codegen.intrinsics import SLIDING
from daedal.compiler.codegen.operations import OperationBuilder
from daedal.compiler.codegen.segment import (
    Instance,
    RowAccess,
    SegmentInstruction,
    shared,
    shifted,
)
from daedal.compiler.tir.expr import Buffer, Var

__all__ = ["Repeats"]


@dataclass(frozen=True)
class _Needs:
    """What the instructions of a form depend on, apart from the instances they touch.

    Parameters
    ----------
    form : kept alive so that its `id` stays unique.
    begins : the parts from outside of accumulating indices: a sum begins where they are 0.
    moving : by field, the operands whose first rows may differ.
    """

    form: BlockForm
    buffers: tuple[Buffer, ...]
    variables: tuple[Var, ...]
    edges: tuple[Edge, ...]
    begins: tuple[Form, ...]
    moving: Mapping[str, "_Rows"]


@dataclass(frozen=True)
class _Rows:
    """The rows of an operand: indices in its leading dimensions, without loops of the nest."""

    buffer: Buffer
    minima: tuple[Form, ...]

    def first(self, env: Env, live: Live) -> int:
        """The row in its instance."""
        held = live[self.buffer]
        return sum(
            [
                (minimum.value(env) - origin) * stride
                for minimum, origin, stride in zip(
                    self.minima, held.origin, held.strides, strict=False
                )
            ]
        )


class _Known(NamedTuple):
    """The instructions of an execution, its instances, and the first rows by field."""

    instances: tuple[Instance, ...]
    firsts: Mapping[str, int]
    instructions: list[SegmentInstruction]


class Repeats:
    """Builds instructions with `builder`, and caches them."""

    def __init__(self, builder: OperationBuilder) -> None:
        self._builder = builder
        self._needs: dict[int, _Needs] = {}
        self._known: dict[object, _Known] = {}

    def build(self, form: BlockForm, env: Env, live: Live) -> Iterable[SegmentInstruction]:
        """Instructions for one execution of a tensorized block and the loops directly around it."""
        needs = self._needs.get(id(form))
        if needs is None:
            needs = self._needs[id(form)] = _needs(form, live, self._builder)
        held = [live[buffer] for buffer in needs.buffers]
        firsts = {field: rows.first(env, live) for field, rows in needs.moving.items()}
        key = (
            id(form),
            *[env[var] for var in needs.variables],
            *[edge.key(env) for edge in needs.edges],
            *[item.start for item in held],
            *[begin.value(env) == 0 for begin in needs.begins],
            firsts["x"] - firsts["dst"] if "x" in firsts else None,
        )
        instances = tuple([item.instance for item in held])
        known = self._known.get(key)
        if known is None:
            built = list(self._builder.build(form, env, live))
            self._known[key] = _Known(instances, firsts, built)
            return built
        distances = {field: row - known.firsts[field] for field, row in firsts.items()}
        return _moved(
            known.instructions, dict(zip(known.instances, instances, strict=True)), distances
        )


def _moved(
    instructions: Iterable[SegmentInstruction],
    instances: Mapping[Instance, Instance],
    distances: Mapping[str, int],
) -> Iterator[SegmentInstruction]:
    moves = {f"{field}_base": distance for field, distance in distances.items() if distance}
    for item in instructions:
        rows = tuple(
            [
                RowAccess(
                    instances[instance],
                    field,
                    shared(shifted(runs, moves[field])) if field in moves else runs,
                    reads,
                    writes,
                    scale,
                )
                for instance, field, runs, reads, writes, scale in item.rows
            ]
        )
        template = item.template
        if moves:
            fields = {access.field for access in rows} & moves.keys()
            template = template.shifted({field: moves[field] for field in fields})
        yield SegmentInstruction(template, rows, item.tensor, item.uops)


def _needs(form: BlockForm, live: Live, builder: OperationBuilder) -> _Needs:
    """What the instructions of a form depend on.

    Where first rows cannot differ, these are the loops that rows depend on; those that cancel
    between index and window origin are left out. For an operand whose products with padding are
    left out, its position in the map matters, too, but only at the borders.
    """
    padded, edges = builder.keeps_off(form), builder.edges(form)
    inside = {loop.var for loop in form.loops}
    moving = _moving(form, live, builder, inside)
    found: dict[Var, None] = {}
    for operand in (*form.reads, *form.writes) if moving is None else ():
        window = live[operand.region.buffer].window
        for minimum, part in zip(operand.minima[:-ROW_DIMS], window, strict=False):
            found |= dict.fromkeys(_difference(minimum, form_of(part.min)))
    others = [clip.form for clip in form.clips if clip.form.expr is not None]
    others += builder.places(form)
    others += form.reduces if moving is None else ()
    others += padded.minima if padded is not None and edges is None else ()
    for other in others:
        found |= dict.fromkeys(other.variables)
    buffers = dict.fromkeys(operand.region.buffer for operand in (*form.reads, *form.writes))
    return _Needs(
        form,
        tuple(buffers),
        tuple(var for var in found if var not in inside),
        (*conditions(form), *(Edge.of(at, within, form.loops) for at, within in edges or ())),
        tuple(reduce.without(inside) for reduce in form.reduces) if moving is not None else (),
        moving or {},
    )


def _moving(
    form: BlockForm, live: Live, builder: OperationBuilder, inside: Collection[Var]
) -> dict[str, _Rows] | None:
    """The operands of a form with first rows that are affine in all loops; None where instructions
    depend on more of these."""
    operands = builder.operands(form, live)
    minima = [item for operand in operands.values() for item in operand.minima[:-ROW_DIMS]]
    if any(item.expr is not None for item in (*minima, *form.reduces)):
        return None
    # A sum begins where its indices are 0, if these count up from 0.
    if any(min(reduce.constant, *[n for _, n in reduce.terms], 0) < 0 for reduce in form.reduces):
        return None
    if any(live[operand.region.buffer].vectors for operand in operands.values()):
        return None
    if str(form.annotations["intrin"]) in SLIDING:
        return None
    return {
        field: _Rows(
            operand.region.buffer,
            tuple(item.without(inside) for item in operand.minima[:-ROW_DIMS]),
        )
        for field, operand in operands.items()
    }


def _difference(a: Form, b: Form) -> tuple[Var, ...]:
    """The variables that ``a - b`` depends on."""
    if a.expr is not None or b.expr is not None:
        return (*a.variables, *b.variables)
    factors = dict(a.terms)
    for var, factor in b.terms:
        factors[var] = factors.get(var, 0) - factor
    return tuple(var for var, factor in factors.items() if factor)
