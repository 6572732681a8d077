"""`Copies`: caches the instructions of a copy, to reuse them when the copy is executed again.

The outer loops of a schedule execute a copy thousands of times. Most executions move a box of the
same shape between other places: they differ in instances, in the first row there, and in the offset
in memory. Only those that reach beyond the border of the tensor have other pads.

Input and output: those of `daedal.compiler.codegen.transfers.TransferBuilder.build`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from daedal.compiler.codegen.concrete import Env
from daedal.compiler.codegen.edges import Edge, conditions
from daedal.compiler.codegen.forms import BlockForm, Form
from daedal.compiler.codegen.instances import Live
from daedal.compiler.codegen.segment import (
    Instance,
    RowAccess,
    SegmentInstruction,
    shared,
    shifted,
)
from daedal.compiler.codegen.transfers import TransferBuilder
from daedal.compiler.tir.expr import Buffer

__all__ = ["Copies"]


_Reach = tuple[tuple[int, int], ...]
"""Per dimension of the tensor: the first and the last index, relative to the part from outside."""


@dataclass
class _Plan:
    """What the instructions of a form depend on.

    Parameters
    ----------
    form : kept alive, so that its `id` stays unique.
    tensor, chip : parts from outside of the first index in each dimension of the tensor and of the
        buffer on chip.
    strides_beats : of the tensor in memory.
    reaches : by where `clips` are, what the copy touches.
    """

    form: BlockForm
    buffer: Buffer
    clips: tuple[Edge, ...]
    tensor: tuple[Form, ...]
    chip: tuple[Form, ...]
    sizes: tuple[int, ...]
    strides_beats: tuple[int, ...]
    reaches: dict[tuple[int | None, ...], _Reach] = field(default_factory=dict)


@dataclass(frozen=True)
class _Known:
    """The instructions of an execution, its first indices in the tensor, and its first row on
    chip."""

    at: tuple[int, ...]
    row: int
    instructions: list[SegmentInstruction]


class Copies:
    """Builds instructions with `builder`, and caches them."""

    def __init__(self, builder: TransferBuilder) -> None:
        self._builder = builder
        self._plans: dict[int, _Plan | None] = {}
        self._forms: list[BlockForm] = []
        self._known: dict[object, _Known] = {}

    def build(self, form: BlockForm, env: Env, live: Live) -> Iterable[SegmentInstruction]:
        """Instructions for one execution of a copy (`form` is its leaf's) in its nest."""
        if id(form) not in self._plans:
            self._forms.append(form)
            self._plans[id(form)] = self._plan(form, live)
        plan = self._plans[id(form)]
        if plan is None:
            return self._builder.build(form, env, live)
        held = live[plan.buffer]
        clips = tuple([edge.key(env) for edge in plan.clips])
        at = tuple([part.value(env) for part in plan.tensor])
        if clips not in plan.reaches:
            plan.reaches[clips] = self._reach(plan, env, at)
        exact = tuple(
            [
                None if first + low >= 0 and first + high < size else first
                for first, (low, high), size in zip(
                    at, plan.reaches[clips], plan.sizes, strict=True
                )
            ]
        )
        places = zip(plan.chip, held.origin, held.strides, strict=False)
        row = sum([(part.value(env) - origin) * stride for part, origin, stride in places])
        key = (id(form), clips, exact)
        known = self._known.get(key)
        if known is None:
            built = list(self._builder.build(form, env, live))
            self._known[key] = _Known(at, row, built)
            return built
        moves = zip(at, known.at, plan.strides_beats, strict=False)
        beats = sum([(now - then) * stride for now, then, stride in moves])
        return [_moved(item, held.instance, beats, row - known.row) for item in known.instructions]

    def _plan(self, form: BlockForm, live: Live) -> _Plan | None:
        """None where the instructions depend on more than a `_Plan` says."""
        if form.source is not None:
            return None
        read, write = form.reads[0], form.writes[0]
        stores = write.region.buffer.scope == "global"
        tensor, chip = (write, read) if stores else (read, write)
        inside = {loop.var for loop in form.loops}
        every = (*[clip.form for clip in form.clips], *tensor.minima, *chip.minima)
        if any(item.expr is not None for item in every) or live[chip.region.buffer].vectors:
            return None
        return _Plan(
            form,
            chip.region.buffer,
            tuple(conditions(form)),
            tuple(item.without(inside) for item in tensor.minima),
            tuple(item.without(inside) for item in chip.minima),
            tensor.region.buffer.shape,
            self._builder.strides_beats(form),
        )

    def _reach(self, plan: _Plan, env: Env, at: tuple[int, ...]) -> _Reach:
        boxes = list(self._builder.tensor_boxes(plan.form, env))
        if not boxes:
            return ((0, -1),) * len(at)
        return tuple(
            (
                min(box[dim].start for box in boxes) - first,
                max(box[dim][-1] for box in boxes) - first,
            )
            for dim, first in enumerate(at)
        )


def _moved(
    item: SegmentInstruction, instance: Instance, beats: int, rows: int
) -> SegmentInstruction:
    """The same transfer, `beats` further in memory and `rows` further on chip; one of nothing but
    pads reads no memory."""
    template, (access,) = item.template, item.rows
    _, name, runs, reads, writes, scale = access
    moves = {"offset_beats": beats if "rows" in template.values else 0, name: rows}
    if any(moves.values()):
        template = template.shifted(moves)
    if rows:
        runs = shared(shifted(runs, rows))
    access = RowAccess(instance, name, runs, reads, writes, scale)
    return SegmentInstruction(template, (access,), item.tensor, None)
