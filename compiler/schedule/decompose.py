"""Splitting a reduction into a block that initializes and one that only updates."""

from dataclasses import replace

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.edit import find_loop, find_site, renamed_stmt, replace_site, seq
from daedal.compiler.schedule.loops import replace_loop
from daedal.compiler.tir.condition import all_of, conjuncts
from daedal.compiler.tir.expr import Axis, Expr, Var
from daedal.compiler.tir.region import make_block
from daedal.compiler.tir.sites import Site
from daedal.compiler.tir.stmt import BlockRealize, For, PrimFunc, Stmt
from daedal.compiler.tir.visit import free_vars, substitute

__all__ = ["decompose_reduction", "reduction_loops"]


def reduction_loops(site: Site, what: str) -> set[Var]:
    """The loops that a block reduces over; refuses where one of them also moves its result."""
    bound = [
        (axis, free_vars(value))
        for axis, value in zip(site.block.iter_vars, site.realize.values, strict=True)
    ]
    reduced = {var for axis, used in bound if axis.kind == "reduce" for var in used}
    for axis, used in bound:
        for var in used:
            if axis.kind == "spatial" and var in reduced:
                raise ScheduleError(
                    f"{what} needs loops that run over the reduction or over the result, not both "
                    f"as {var.name!r} of {site.block.name!r}"
                )
    return reduced


def decompose_reduction(func: PrimFunc, body: Stmt, name: str, loop: For, init_name: str) -> Stmt:
    """Initialize before `loop` in a block called `init_name`; see the primitive."""
    site = find_site(func, name)
    block, realize = site.block, site.realize
    if block.init is None:
        raise ScheduleError(f"decompose_reduction needs a block with an init; {name!r} has none")
    around = [item.var for item in site.loops]
    if loop.var not in around:
        raise ScheduleError(
            f"decompose_reduction needs a loop around {name!r}, not {loop.var.name!r}"
        )
    inner = site.loops[around.index(loop.var) :]
    outside = site.loops[: around.index(loop.var)]
    reduced = reduction_loops(site, "decompose_reduction")
    for item in outside:
        if item.var in reduced:
            raise ScheduleError(
                f"the loop must be outside every loop of the reduction; {item.var.name!r} is one "
                "and lies "
                f"outside {loop.var.name!r} (block {name!r})"
            )
    init = _init_realize(realize, reduced, init_name)
    fresh: dict[Var, Expr] = {}
    loops: list[tuple[Var, int]] = []
    used = {var for value in init.values for var in free_vars(value)}
    for item in inner:
        if item.var in used:
            own = Var(item.var.name)
            fresh[item.var] = own
            loops.append((own, item.extent))
    predicate = None if init.predicate is None else substitute(init.predicate, fresh)
    values = tuple(substitute(value, fresh) for value in init.values)
    nest: Stmt = BlockRealize(values, init.block, predicate)
    for var, extent in reversed(loops):
        nest = For(var, extent, nest)
    update = make_block(name, block.iter_vars, block.body, None, block.annotations)
    body = replace_site(body, name, replace(realize, block=update))
    current = find_loop(replace(func, body=body), loop.var)
    return replace_loop(body, loop.var, seq([nest, current]))


def _init_realize(realize: BlockRealize, reduced: set[Var], name: str) -> BlockRealize:
    """The init as a block of its own, over the spatial variables."""
    block = realize.block
    assert block.init is not None
    renamed: dict[Var, Expr] = {}
    axes, values = [], []
    for axis, value in realize.binding.items():
        if axis in block.spatial_vars:
            new = Axis(axis.name, extent=axis.extent)
            renamed[axis] = new
            axes.append(new)
            values.append(value)
    kept = [c for c in conjuncts(realize.predicate) if not set(free_vars(c)) & reduced]
    init = make_block(name, tuple(axes), renamed_stmt(block.init, renamed))
    return BlockRealize(tuple(values), init, all_of(kept))
