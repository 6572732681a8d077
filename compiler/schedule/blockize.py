"""Turning the loops from one loop inwards into a block of their own."""

from dataclasses import dataclass, replace
from math import gcd

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.edit import loop_chain, renamed_stmt
from daedal.compiler.schedule.loops import replace_loop
from daedal.compiler.tir.binding import clip_conditions
from daedal.compiler.tir.condition import all_of, conjuncts, normal_condition
from daedal.compiler.tir.expr import Axis, Compare, Expr, Var
from daedal.compiler.tir.linear import Linear, bounds, linear, simplify
from daedal.compiler.tir.region import make_block
from daedal.compiler.tir.sites import nested_realizes
from daedal.compiler.tir.stmt import BlockRealize, For, Stmt
from daedal.compiler.tir.visit import free_vars, substitute

__all__ = ["Nest", "blockize", "nest_at", "nest_in"]


@dataclass(frozen=True)
class Nest:
    """Loops directly inside one another around one block."""

    loops: tuple[For, ...]
    realize: BlockRealize

    @property
    def extents(self) -> dict[Var, int]:
        """The extents of the loops."""
        return {loop.var: loop.extent for loop in self.loops}


def nest_at(loop: For, what: str) -> Nest:
    """The nest from `loop` down; refuses where it holds more than one block."""
    loops, inside = loop_chain(loop)
    if not isinstance(inside, BlockRealize):
        raise ScheduleError(
            f"{what} needs loops directly around one block; more lies under {loop.var.name!r}"
        )
    return Nest(tuple(loops), inside)


def nest_in(realize: BlockRealize) -> Nest:
    """The nest within a block that `blockize` made."""
    block = realize.block
    if not isinstance(block.body, For):
        raise ScheduleError(
            f"tensorize needs loops, or a block made by blockize, not {block.name!r}"
        )
    nest = nest_at(block.body, "tensorize")
    inner = nest.realize
    if isinstance(block.init, For):
        own = nest_at(block.init, "tensorize").realize.block
        inner = replace(inner, block=replace(inner.block, init=own.body))
    return Nest(nest.loops, inner)


def blockize(body: Stmt, loop: For, outer_extents: dict[Var, int]) -> tuple[Stmt, str]:
    """One block in place of a nest; see `Schedule.blockize`. Returns its name."""
    nest = nest_at(loop, "blockize")
    block = nest.realize.block
    taken = {realize.block.name for realize in nested_realizes(body)}
    axes: list[Axis] = []
    outer_values: list[Expr] = []
    inner_values: list[Expr] = []
    for axis, value in zip(block.iter_vars, nest.realize.values, strict=True):
        own, outside, inside = _separate(axis, value, nest, outer_extents)
        if own is not None:
            axes.append(own)
            outer_values.append(outside)
        inner_values.append(inside)
    outer_clips, inner_clips = _separate_clips(nest, inner_values)
    known = {normal_condition(clip, outer_extents) for clip in outer_clips}
    for clip in clip_conditions(axes, outer_values, outer_extents):
        if normal_condition(clip, outer_extents) not in known:
            outer_clips.append(clip)
    inner_name = _fresh(f"{block.name}_body", taken)
    inner = make_block(inner_name, block.iter_vars, block.body, None)
    inner_realize = BlockRealize(tuple(inner_values), inner, all_of(inner_clips))
    init: Stmt | None = None
    if block.init is not None:
        init = _init_nest(nest, inner_values, inner_clips, _fresh(f"{block.name}_init", taken))
    stmt: Stmt = inner_realize
    for item in reversed(nest.loops):
        stmt = replace(item, body=stmt)
    outer = make_block(block.name, tuple(axes), stmt, init, block.annotations)
    realize = BlockRealize(tuple(outer_values), outer, all_of(outer_clips))
    return replace_loop(body, loop.var, realize), block.name


def _fresh(name: str, taken: set[str]) -> str:
    result, count = name, 1
    while result in taken:
        result, count = f"{name}_{count}", count + 1
    taken.add(result)
    return result


def _separate(
    axis: Axis, value: Expr, nest: Nest, outer_extents: dict[Var, int]
) -> tuple[Axis | None, Expr, Expr]:
    """A variable for the outer block, its value there, and the value of `axis` within."""
    form = linear(simplify(value, {**outer_extents, **nest.extents}))
    parts = form.split(nest.extents)
    if parts is None:
        raise ScheduleError(
            f"blockize needs bindings that separate into outer and inner loops; {axis.name!r} of "
            f"{nest.realize.block.name!r} does not"
        )
    inside, outside = parts
    if not inside.terms:
        own = Axis(axis.name, extent=axis.extent, kind=axis.kind)
        return own, value, own
    if not outside.terms:
        return None, value, value
    stride = gcd(*(factor for _, factor in outside.terms))
    quotient = Linear(tuple((term, f // stride) for term, f in outside.terms), 0).expr()
    limits = bounds(quotient, outer_extents)
    if limits is None or limits[0] < 0:
        raise ScheduleError(f"blockize needs bindings that count up; {axis.name!r} does not")
    # Beyond the domain a predicate leaves out every iteration of the nest: so does the outer one.
    least = inside.bounds(nest.extents)
    assert least is not None, "the inner part speaks of loops of the nest alone"
    room = -(-(axis.extent - outside.constant - least[0]) // stride)
    own = Axis(axis.name, extent=min(limits[1] + 1, room), kind=axis.kind)
    return own, quotient, own * stride + inside.expr() + outside.constant


def _separate_clips(nest: Nest, inner_values: list[Expr]) -> tuple[list[Expr], list[Expr]]:
    """Conditions on outer loops alone, and the others in terms of the outer block's variables."""
    outer: list[Expr] = []
    inner: list[Expr] = []
    for condition in conjuncts(nest.realize.predicate):
        used = set(free_vars(condition))
        if not used & set(nest.extents):
            outer.append(condition)
        elif used <= set(nest.extents):
            inner.append(condition)
        else:
            inner.append(_rewritten(condition, nest, inner_values))
    return outer, inner


def _rewritten(condition: Expr, nest: Nest, inner_values: list[Expr]) -> Expr:
    assert isinstance(condition, Compare)
    for value, inside in zip(nest.realize.values, inner_values, strict=True):
        difference = linear(condition.a - value)
        if not difference.terms:
            return Compare(condition.op, inside + difference.constant, condition.b)
    raise ScheduleError(
        "blockize needs predicates that separate into outer and inner loops, as those that clip "
        "one "
        f"binding do; one of {nest.realize.block.name!r} does not"
    )


def _init_nest(nest: Nest, inner_values: list[Expr], inner_clips: list[Expr], name: str) -> Stmt:
    """The init over the inner loops that are not part of the reduction."""
    block = nest.realize.block
    assert block.init is not None
    reduced = {
        var
        for axis, value in zip(block.iter_vars, inner_values, strict=True)
        if axis.kind == "reduce"
        for var in free_vars(value)
    }
    for axis, value in zip(block.iter_vars, inner_values, strict=True):
        both = reduced & set(free_vars(value))
        if axis.kind == "spatial" and both:
            raise ScheduleError(
                f"blockize needs loops that run over the reduction or over the result, not both as "
                f"{min(var.name for var in both)!r} of {block.name!r}; use decompose_reduction "
                "first"
            )
    fresh: dict[Var, Expr] = {}
    loops = []
    for item in nest.loops:
        if item.var not in reduced:
            own = Var(item.var.name)
            fresh[item.var] = own
            loops.append((own, item.extent))
    renamed: dict[Var, Expr] = {}
    axes, values = [], []
    for axis, value in zip(block.iter_vars, inner_values, strict=True):
        if axis.kind == "spatial":
            new = Axis(axis.name, extent=axis.extent)
            renamed[axis] = new
            axes.append(new)
            values.append(substitute(value, fresh))
    kept = [substitute(c, fresh) for c in inner_clips if not set(free_vars(c)) & reduced]
    init = make_block(name, tuple(axes), renamed_stmt(block.init, renamed))
    stmt: Stmt = BlockRealize(tuple(values), init, all_of(kept))
    for var, extent in reversed(loops):
        stmt = For(var, extent, stmt)
    return stmt
