"""Rebuilds the loops of a block, over a part of its domain."""

from collections.abc import Mapping, Sequence

from daedal.common.errors import ScheduleError
from daedal.compiler.tir.binding import clip_conditions
from daedal.compiler.tir.condition import all_of, entry_condition, normal_condition
from daedal.compiler.tir.expr import Axis, Expr, IntImm, Var
from daedal.compiler.tir.linear import linear, simplify
from daedal.compiler.tir.region import clipped
from daedal.compiler.tir.stmt import Block, BlockRealize, For, Range, Region, Stmt
from daedal.compiler.tir.visit import free_vars

__all__ = ["build_nest", "solve_ranges"]


def build_nest(
    block: Block,
    ranges: Mapping[Axis, Range],
    extents: Mapping[Var, int],
    guards: Sequence[Expr] = (),
) -> Stmt:
    """One loop per variable of `block`, over its range (its whole domain where it has none).

    `extents` are those of the loops that the ranges speak of. Where a range may leave the domain, a
    predicate clips it; it holds `guards` too, conditions on the loops around, unless they follow.
    """
    loops: list[tuple[Var, int]] = []
    values: list[Expr] = []
    for axis in block.iter_vars:
        part = ranges.get(axis, Range(IntImm(0), axis.extent))
        part = clipped(part, axis.extent, extents)
        loop = Var(axis.name.removeprefix("v") or axis.name)
        loops.append((loop, part.extent))
        values.append(simplify(part.min + loop))
    every = {**extents, **dict(loops)}
    clips = clip_conditions(block.iter_vars, values, every)
    known = {entry_condition(clip, dict(loops), every) for clip in clips}
    needed = [guard for guard in guards if normal_condition(guard, every) not in known]
    predicate = all_of([*clips, *needed])
    stmt: Stmt = BlockRealize(tuple(values), block, predicate)
    for loop, extent in reversed(loops):
        stmt = For(loop, extent, stmt)
    return stmt


def solve_ranges(block: Block, touched: Region, needed: Region) -> dict[Axis, Range]:
    """The part of its domain that `block` has to run for `touched` to hold `needed`.

    Each dimension of `touched` speaks of at most one variable, as ``c*v + d : +c``; dimensions
    that do not are left out of the answer.
    """
    found: dict[Axis, Range] = {}
    for part, wanted in zip(touched.ranges, needed.ranges, strict=True):
        form = linear(part.min)
        if len(form.terms) != 1:
            continue
        term, factor = form.terms[0]
        if not isinstance(term, Axis) or factor != part.extent:
            continue
        target = linear(wanted.min - form.constant)
        if any(coefficient % factor for _, coefficient in target.terms):
            continue
        first = simplify(target.expr() // factor) if factor > 1 else target.expr()
        if factor > 1:
            scaled = target.constant % factor
            extent = -(-(wanted.extent + scaled) // factor)
        else:
            extent = wanted.extent
        found[term] = Range(first, extent)
    return found


def require_separate(block: Block, region: Region, what: str) -> None:
    """Refuse a block that does not write one variable of its own per dimension."""
    seen: set[Var] = set()
    for part in region.ranges:
        used = free_vars(part.min)
        if len(used) > 1 or seen & set(used):
            raise ScheduleError(
                f"{what} needs a block that writes one variable of its own per dimension; "
                f"{block.name!r} does not"
            )
        seen |= set(used)
