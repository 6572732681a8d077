"""Primitives on loops: split, fuse, reorder, and the loop's kind."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.edit import loop_chain, loop_of, map_stmt, substitute_loops
from daedal.compiler.tir.dtype import INDEX_DTYPE, limits
from daedal.compiler.tir.expr import Expr, IntImm, Var
from daedal.compiler.tir.linear import simplify
from daedal.compiler.tir.stmt import BlockRealize, For, Stmt, Value

__all__ = ["annotate_loop", "annotated_block", "fuse", "reorder", "set_kind", "split", "tile"]


def loop_extents(stmt: Stmt) -> dict[Var, int]:
    """The extents of every loop in `stmt`."""
    found: dict[Var, int] = {}

    def visit(node: Stmt) -> Stmt | None:
        if isinstance(node, For):
            found[node.var] = node.extent
        return None

    map_stmt(stmt, visit)
    return found


def replace_loop(body: Stmt, var: Var, new: Stmt) -> Stmt:
    """Replace the loop of `var` by `new`."""

    def visit(node: Stmt) -> Stmt | None:
        return new if isinstance(node, For) and node.var is var else None

    return map_stmt(body, visit)


def split(body: Stmt, loop: For, factors: Sequence[int | None]) -> tuple[Stmt, list[Var]]:
    """Loops with the given extents, outermost first, in place of one; see `Schedule.split`."""
    if len(factors) < 2 or sum(factor is None for factor in factors) > 1:
        raise ScheduleError(
            f"split needs two or more factors, at most one of them None, not {list(factors)} "
            f"(loop {loop.var.name!r})"
        )
    if loop.kind != "serial":
        raise ScheduleError(
            f"split needs a serial loop, not {loop.kind} ({loop.var.name!r}); split first"
        )
    known = 1
    for factor in factors:
        if factor is not None:
            if factor < 1:
                raise ScheduleError(
                    f"a factor must be positive, not {factor} (loop {loop.var.name!r})"
                )
            known *= factor
    sizes = [-(-loop.extent // known) if factor is None else int(factor) for factor in factors]
    covered = known if None not in factors else known * -(-loop.extent // known)
    if covered < loop.extent:
        raise ScheduleError(
            f"factors must cover the extent {loop.extent}, not just {covered} (loop "
            f"{loop.var.name!r}); "
            "leave one None"
        )
    _require_countable(covered, loop.var.name)
    variables = [Var(f"{loop.var.name}_{position}") for position in range(len(sizes))]
    index: Expr = IntImm(0)
    for var, size in zip(variables, sizes, strict=True):
        index = index * size + var
    extents = {**loop_extents(body), **dict(zip(variables, sizes, strict=True))}
    index = simplify(index)
    condition = index < loop.extent if covered > loop.extent else None
    inner = substitute_loops(loop.body, {loop.var: index}, extents, condition)
    for position in reversed(range(len(sizes))):
        notes = loop.annotations if position == 0 else {}
        inner = For(variables[position], sizes[position], inner, "serial", notes)
    return replace_loop(body, loop.var, inner), variables


def _require_countable(iterations: int, name: str) -> None:
    """Refuse loops whose variables an index cannot hold."""
    if iterations > limits(INDEX_DTYPE)[1]:
        raise ScheduleError(
            f"loops must have at most {limits(INDEX_DTYPE)[1]} iterations together, not "
            f"{iterations} (loop {name!r})"
        )


def tile(
    body: Stmt, loops: Sequence[For], factors: Sequence[int]
) -> tuple[Stmt, list[Var], list[Var]]:
    """Split each of `loops` and bring the inner parts inside; see the primitive."""
    if not loops or len(loops) != len(factors):
        raise ScheduleError(
            f"tile needs one factor per loop, at least one, not {len(factors)} for {len(loops)}"
        )
    if len({loop.var for loop in loops}) < len(loops):
        raise ScheduleError("tile needs distinct loops")
    pairs = []
    for loop, factor in zip(loops, factors, strict=True):
        current = loop_of(body, loop.var)
        assert current is not None, "splitting one loop leaves the others"
        body, pair = split(body, current, [None, factor])
        pairs.append(pair)
    outer, inner = ([pair[position] for pair in pairs] for position in (0, 1))
    order = [loop_of(body, var) for var in (*outer, *inner)]
    return reorder(body, [loop for loop in order if loop is not None]), outer, inner


def fuse(body: Stmt, loops: Sequence[For]) -> tuple[Stmt, Var]:
    """One loop in place of several directly inside one another; see `Schedule.fuse`."""
    if len(loops) < 2:
        raise ScheduleError("fuse needs two or more loops")
    for outer, inner in pairwise(loops):
        if outer.body is not inner:
            raise ScheduleError(
                f"fused loops must be directly inside one another, outermost first; "
                f"{inner.var.name!r} is not directly inside {outer.var.name!r}"
            )
    for loop in loops:
        if loop.kind != "serial" or loop.annotations:
            raise ScheduleError(
                f"fuse needs serial loops without annotations, not {loop.var.name!r}; fuse first"
            )
    total = 1
    for loop in loops:
        total *= loop.extent
    _require_countable(total, loops[0].var.name)
    fused = Var("_".join(loop.var.name for loop in loops))
    values: dict[Var, Expr] = {}
    stride = total
    for loop in loops:
        outermost = stride == total
        stride //= loop.extent
        part = fused // stride
        values[loop.var] = part if outermost else part % loop.extent
    extents = {**loop_extents(body), fused: total}
    inner_body = substitute_loops(loops[-1].body, values, extents)
    return replace_loop(body, loops[0].var, For(fused, total, inner_body)), fused


def reorder(body: Stmt, order: Sequence[For]) -> Stmt:
    """Permute loops of one nest; see `Schedule.reorder`."""
    wanted = [loop.var for loop in order]
    if len(set(wanted)) != len(wanted) or not wanted:
        raise ScheduleError("reorder needs distinct loops")
    outermost = max(order, key=lambda loop: len(loop_chain(loop)[0]))
    chain, inside = loop_chain(outermost)
    place = {loop.var: position for position, loop in enumerate(chain)}
    for loop in order:
        if loop.var not in place:
            raise ScheduleError(
                f"reordered loops must be directly inside one another; between "
                f"{outermost.var.name!r} and {loop.var.name!r} lie other statements"
            )
    slots = sorted(place[var] for var in wanted)
    arranged = list(chain)
    for slot, loop in zip(slots, order, strict=True):
        arranged[slot] = loop
    result = inside
    for loop in reversed(arranged):
        result = replace(loop, body=result)
    return replace_loop(body, outermost.var, result)


def set_kind(body: Stmt, loop: For, kind: str) -> Stmt:
    """Execute a loop as `kind`."""
    return replace_loop(body, loop.var, replace(loop, kind=kind))


def annotated_block(realize: BlockRealize, key: str, value: Value) -> BlockRealize:
    """Add an annotation to a block."""
    block = realize.block
    return replace(realize, block=replace(block, annotations={**block.annotations, key: value}))


def annotate_loop(body: Stmt, loop: For, key: str, value: Value) -> Stmt:
    """Add an annotation to a loop."""
    return replace_loop(body, loop.var, replace(loop, annotations={**loop.annotations, key: value}))
