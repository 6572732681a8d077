"""Computing a block's formula where its result is read, or where its operand is made."""

from collections.abc import Callable
from dataclasses import replace

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.compute_at import readers, writers
from daedal.compiler.schedule.edit import edit_block, find_site, guarded, remove_block, replace_site
from daedal.compiler.tir.binding import clip_conditions
from daedal.compiler.tir.condition import all_of
from daedal.compiler.tir.expr import Axis, Expr, Load, Var, as_expr
from daedal.compiler.tir.region import make_block
from daedal.compiler.tir.sites import Site, collect
from daedal.compiler.tir.stmt import Block, BlockRealize, BufferStore, PrimFunc, Stmt
from daedal.compiler.tir.visit import loads, rewrite, substitute

__all__ = ["compute_inline", "reverse_compute_inline"]


def compute_inline(func: PrimFunc, body: Stmt, name: str) -> Stmt:
    """Replace reads by the formula; see `Schedule.compute_inline`."""
    block = find_site(func, name).block
    store = block.body
    plain = isinstance(store, BufferStore) and all(isinstance(i, Axis) for i in store.indices)
    if not plain or block.reduce_vars or block.init is not None:
        raise ScheduleError(
            f"compute_inline needs a block without reduction that stores at its own variables; "
            f"{name!r} is none"
        )
    assert isinstance(store, BufferStore)
    if store.buffer in func.outputs:
        raise ScheduleError(
            f"compute_inline cannot remove an output; {name!r} writes {store.buffer.name!r}"
        )
    sites, _ = collect(body)
    if len(writers(sites, store.buffer)) > 1:
        raise ScheduleError(f"compute_inline needs the only writer of {store.buffer.name!r}")

    for reader in readers(sites, store.buffer):
        changed = edit_block(reader.block, _formula(store, reader.block))
        realize = BlockRealize(reader.realize.values, changed, reader.realize.predicate)
        body = replace_site(body, reader.block.name, realize)
    rest = remove_block(body, name)
    assert rest is not None
    return rest


def _formula(store: BufferStore, reader: Block) -> Callable[[Load], Expr | None]:
    """What is stored where a load of `reader` reads, and its pad value outside."""
    axes = [index for index in store.indices if isinstance(index, Axis)]
    extents: dict[Var, int] = {axis: axis.extent for axis in reader.iter_vars}

    def formula(load: Load) -> Expr | None:
        if load.buffer is not store.buffer:
            return None
        value = substitute(store.value, dict(zip(axes, load.indices, strict=True)))
        if load.pad_value is None:
            return value
        inside = all_of(clip_conditions(axes, load.indices, extents))
        outside = as_expr(load.pad_value, load.dtype)
        return value if inside is None else guarded(value, inside, outside)

    return formula


def reverse_compute_inline(func: PrimFunc, body: Stmt, name: str) -> Stmt:
    """Let the producer store what its consumer makes of it; see the primitive."""
    site = find_site(func, name)
    producer = _only_producer(func, site, collect(body)[0])
    block, inner = site.block, producer.block
    store, made = block.body, inner.body
    if not isinstance(store, BufferStore) or block.init is not None or block.reduce_vars:
        raise ScheduleError(
            f"reverse_compute_inline needs a block without reduction that stores one element; "
            f"{name!r} is none"
        )
    if not isinstance(made, BufferStore) or inner.init is not None or inner.reduce_vars:
        raise ScheduleError(
            f"reverse_compute_inline needs a producer without reduction that stores one element; "
            f"{inner.name!r} is none"
        )
    found = [load for load in loads(store.value) if load.buffer is made.buffer]
    domain = {axis: axis.extent for axis in block.iter_vars}
    seen = dict(zip(found[0].indices, made.buffer.shape, strict=True))
    if len(found) > 1 or found[0].pad_value is not None or seen != domain:
        raise ScheduleError(
            f"reverse_compute_inline needs a block that reads each element of "
            f"{made.buffer.name!r} once, at its own variables; {name!r} does not"
        )
    values: dict[Var, Expr] = {
        axis: index
        for axis, index in zip(found[0].indices, made.indices, strict=True)
        if isinstance(axis, Axis)
    }

    def stored(node: Expr) -> Expr | None:
        return made.value if isinstance(node, Load) and node.buffer is made.buffer else None

    value = rewrite(substitute(store.value, values), stored)
    indices = tuple(substitute(index, values) for index in store.indices)
    new = BufferStore(store.buffer, indices, value)
    merged = make_block(inner.name, inner.iter_vars, new, None, inner.annotations)
    rest = remove_block(body, name)
    assert rest is not None
    return replace_site(rest, inner.name, replace(producer.realize, block=merged))


def _only_producer(func: PrimFunc, site: Site, sites: list[Site]) -> Site:
    """The one block whose result `site` alone reads."""
    name = site.block.name
    sources = {r.buffer: None for r in site.block.reads if r.buffer not in func.params}
    if len(sources) != 1:
        raise ScheduleError(
            f"reverse_compute_inline needs a block that reads one buffer of another block; "
            f"{name!r} reads {len(sources)}"
        )
    (source,) = sources
    made, used = writers(sites, source), readers(sites, source)
    if len(made) > 1 or len(used) > 1:
        raise ScheduleError(
            f"reverse_compute_inline needs the only writer and the only reader of a buffer; "
            f"{source.name!r} has {len(made)} and {len(used)}"
        )
    return made[0]
