"""Factoring a reduction: partial results along one of its loops, then their reduction."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.decompose import reduction_loops
from daedal.compiler.schedule.edit import find_loop, find_site, guarded, replace_site, seq
from daedal.compiler.schedule.loops import replace_loop
from daedal.compiler.te.reduction import identity
from daedal.compiler.tir.condition import all_of, conjuncts
from daedal.compiler.tir.expr import Axis, Binary, Buffer, Expr, Load, Or, Var
from daedal.compiler.tir.region import make_block
from daedal.compiler.tir.sites import Site
from daedal.compiler.tir.stmt import BlockRealize, BufferStore, For, PrimFunc, Stmt
from daedal.compiler.tir.visit import free_vars, loads, substitute

__all__ = ["rfactor"]

_REDUCTIONS = {"+": "sum", "*": "prod", "min": "min", "max": "max"}


def rfactor(func: PrimFunc, body: Stmt, name: str, loop: For, dim: int, partial_name: str) -> Stmt:
    """Partial results per iteration of `loop`, called `partial_name`; see the primitive."""
    site = find_site(func, name)
    _update_of(site)
    reduced = reduction_loops(site, "rfactor")
    if loop.var not in reduced:
        raise ScheduleError(
            f"rfactor needs a loop of the reduction of {name!r}, not {loop.var.name!r}"
        )
    target = site.block.writes[0].buffer
    if not 0 <= dim <= len(target.shape):
        raise ScheduleError(
            f"rfactor adds a dimension at 0 to {len(target.shape)} of {target.name!r}, not at {dim}"
        )
    shape = (*target.shape[:dim], loop.extent, *target.shape[dim:])
    partial = Buffer(partial_name, shape, target.dtype, target.scope)
    first = next(item for item in site.loops if item.var in reduced)
    body = replace_site(body, name, _partial(site, partial, loop, dim, partial_name))
    current = find_loop(replace(func, body=body), first.var)
    total = _total(site, partial, loop, dim, site.loops[site.loops.index(first) :])
    return replace_loop(body, first.var, seq([current, total]))


def _update_of(site: Site) -> tuple[BufferStore, Expr, Callable[[Expr, Expr], Expr]]:
    """The store of a reduction, what it adds each time, and how it combines two values."""
    block = site.block
    store = block.body
    if isinstance(store, BufferStore) and block.init is not None:
        target = Load(store.buffer, store.indices)
        start = block.init.value if isinstance(block.init, BufferStore) else None
        once = sum(load.buffer is store.buffer for load in loads(store.value)) == 1
        match store.value:
            case Binary(op, a, b) if once and a == target and op in _REDUCTIONS:
                if start == identity(_REDUCTIONS[op], store.buffer.dtype):
                    return store, b, lambda x, y: Binary(op, x, y)
            case Or(a, b) if once and a == target and start == identity("any", "bool"):
                return store, b, Or
    raise ScheduleError(
        f"rfactor needs a block that reduces by sum, product, minimum, maximum or any from their "
        f"neutral element; {block.name!r} does not; use it before decompose_reduction and blockize"
    )


def _partial(site: Site, partial: Buffer, loop: For, dim: int, name: str) -> BlockRealize:
    """The reduction over all loops but one, for each iteration of that."""
    block, realize = site.block, site.realize
    store, value, combine = _update_of(site)
    renamed: dict[Var, Expr] = {}
    factor = Axis(f"v{loop.var.name}", extent=loop.extent)
    axes: list[Axis] = [factor]
    values: list[Expr] = [loop.var]
    extents = site.extents
    steps: dict[Var, Expr] = {loop.var: factor}
    mixed = _mixed(site, loop.var)
    for axis, bound in zip(block.iter_vars, realize.values, strict=True):
        if axis not in mixed:
            axes.append(Axis(axis.name, extent=axis.extent, kind=axis.kind))
            values.append(bound)
            renamed[axis] = axes[-1]
            continue
        for var in free_vars(bound):
            if var not in steps:
                axes.append(Axis(f"v{var.name}", extent=extents[var], kind="reduce"))
                values.append(var)
                steps[var] = axes[-1]
        renamed[axis] = substitute(bound, steps)
    own = [substitute(index, renamed) for index in store.indices]
    indices = (*own[:dim], factor, *own[dim:])
    added = substitute(value, renamed)
    assert isinstance(block.init, BufferStore)
    inside, outside = _separate(site, steps)
    if inside is not None:
        added = guarded(added, substitute(inside, steps), block.init.value)
    init: Stmt | None = None
    if any(axis.kind == "reduce" for axis in axes):
        init = BufferStore(partial, indices, block.init.value)
        added = combine(Load(partial, indices), added)
    result = make_block(name, tuple(axes), BufferStore(partial, indices, added), init)
    return BlockRealize(tuple(values), result, outside)


def _separate(site: Site, steps: Mapping[Var, Expr]) -> tuple[Expr | None, Expr | None]:
    """The conditions on the loops that become variables, and the others."""
    inside: list[Expr] = []
    outside: list[Expr] = []
    for condition in conjuncts(site.realize.predicate):
        used = {var in steps for var in free_vars(condition)}
        if len(used) > 1:
            raise ScheduleError(
                f"rfactor needs predicates on loops of the reduction or on others, not on both as "
                f"in {site.block.name!r}"
            )
        (inside if used == {True} else outside).append(condition)
    return all_of(inside), all_of(outside)


def _mixed(site: Site, var: Var) -> set[Axis]:
    """The variables of the reduction that depend on a loop, directly or through other loops."""
    bound = [
        (axis, set(free_vars(value)))
        for axis, value in zip(site.block.iter_vars, site.realize.values, strict=True)
        if axis.kind == "reduce"
    ]
    reached, found = {var}, set[Axis]()
    for _ in bound:
        for axis, used in bound:
            if used & reached:
                reached |= used
                found.add(axis)
    return found


def _total(site: Site, partial: Buffer, loop: For, dim: int, inside: Sequence[For]) -> Stmt:
    """The partial results combined, under new loops in place of those `inside` the reduction."""
    block, realize = site.block, site.realize
    store, _, combine = _update_of(site)
    spatial = [(axis, v) for axis, v in realize.binding.items() if axis in block.spatial_vars]
    used = {var for _, value in spatial for var in free_vars(value)}
    kept = [item for item in inside if item.var in used]
    fresh: dict[Var, Expr] = {item.var: Var(item.var.name) for item in kept}
    last = Var(loop.var.name)
    renamed: dict[Var, Expr] = {}
    axes, values = [], []
    for axis, value in spatial:
        assert isinstance(axis, Axis)
        axes.append(Axis(axis.name, extent=axis.extent))
        values.append(substitute(value, fresh))
        renamed[axis] = axes[-1]
    factor = Axis(f"v{loop.var.name}", extent=loop.extent, kind="reduce")
    indices = tuple(substitute(index, renamed) for index in store.indices)
    source = Load(partial, (*indices[:dim], factor, *indices[dim:]))
    total = BufferStore(store.buffer, indices, combine(Load(store.buffer, indices), source))
    assert isinstance(block.init, BufferStore)
    init = BufferStore(store.buffer, indices, block.init.value)
    result = make_block(block.name, (*axes, factor), total, init, block.annotations)
    reduced = reduction_loops(site, "rfactor")
    kept_conditions = [
        substitute(condition, fresh)
        for condition in conjuncts(realize.predicate)
        if not reduced & set(free_vars(condition))
    ]
    where = all_of(kept_conditions)
    stmt: Stmt = For(last, loop.extent, BlockRealize((*values, last), result, where))
    for item in reversed(kept):
        var = fresh[item.var]
        assert isinstance(var, Var)
        stmt = For(var, item.extent, stmt)
    return stmt
