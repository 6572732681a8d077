"""Reading or writing a buffer through a copy in another memory scope."""

from collections.abc import Mapping

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.compute_at import (
    below,
    guards_of,
    readers,
    region_read,
    region_written,
    writers,
)
from daedal.compiler.schedule.edit import edit_block, find_site, insert_at, map_stmt, replace_site
from daedal.compiler.schedule.nest import build_nest, require_separate, solve_ranges
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Var
from daedal.compiler.tir.linear import simplify
from daedal.compiler.tir.region import clipped, make_block, relax_region
from daedal.compiler.tir.sites import Site, collect, nested_realizes
from daedal.compiler.tir.stmt import BlockRealize, BufferStore, PrimFunc, Region, Stmt

__all__ = ["cache_read", "cache_write", "set_scope"]


def pick(site: Site, regions: tuple[Region, ...], index: int | str, what: str) -> Region:
    """A region by position or by the name of its buffer."""
    names = [region.buffer.name for region in regions]
    if isinstance(index, str) and index in names:
        return regions[names.index(index)]
    if isinstance(index, int) and 0 <= index < len(regions):
        return regions[index]
    raise ScheduleError(
        f"block {site.block.name!r} {what} "
        f"{', '.join(f'{i}: {n!r}' for i, n in enumerate(names))}; "
        f"{index!r} is none of them"
    )


def unique_name(func: PrimFunc, name: str) -> str:
    """`name`, or with a number where a buffer or a block has it."""
    taken = {buffer.name for buffer in func.params}
    for realize in nested_realizes(func.body):
        block = realize.block
        taken |= {block.name, *(r.buffer.name for r in (*block.reads, *block.writes))}
    result, count = name, 1
    while result in taken:
        result, count = f"{name}_{count}", count + 1
    return result


def copy_body(block_name: str, target: Buffer, source: Region, lows: list[int]) -> BlockRealize:
    """A block ``target[i...] = source[i + low...]`` over all of `target`, not yet in loops."""
    axes = tuple(Axis(f"vax{dim}", extent=size) for dim, size in enumerate(target.shape))
    indices: tuple[Expr, ...] = tuple(axis + low for axis, low in zip(axes, lows, strict=True))
    value = Load(source.buffer, indices, source.pad_value)
    block = make_block(block_name, axes, BufferStore(target, axes, value), None, {"copy": True})
    return BlockRealize(axes, block)


def cache_read(
    func: PrimFunc, body: Stmt, name: str, index: int | str, scope: str
) -> tuple[Stmt, str]:
    """Read through a copy; see `Schedule.cache_read`."""
    site = find_site(func, name)
    source = pick(site, site.block.reads, index, "reads")
    if any(written.buffer is source.buffer for written in site.block.writes):
        raise ScheduleError(
            f"cache_read needs a buffer that the block only reads; {name!r} accumulates into "
            f"{source.buffer.name!r}; use cache_write before decompose_reduction"
        )
    domain: dict[Var, int] = {axis: axis.extent for axis in site.block.iter_vars}
    lows, sizes = _whole(source, domain)
    title = unique_name(func, f"{source.buffer.name}_{scope}")
    cached = Buffer(title, tuple(sizes), source.buffer.dtype, scope)

    def through(load: Load) -> Expr | None:
        if load.buffer is not source.buffer or load.pad_value != source.pad_value:
            return None
        pairs = zip(load.indices, lows, strict=True)
        return Load(cached, tuple(simplify(i - low, domain) for i, low in pairs))

    block = edit_block(site.block, through)
    realize = BlockRealize(site.realize.values, block, site.realize.predicate)
    body = replace_site(body, name, realize)
    sites, _ = collect(body)
    consumer = next(s for s in sites if s.block.name == name)
    before = writers(sites, source.buffer)
    depth = max((writer.shared(consumer) for writer in before), default=0)
    loop = consumer.loops[depth - 1].var if depth else None
    copy = copy_body(title, cached, source, lows).block
    needed = region_read([consumer], cached, loop)
    outer, _inner = below(consumer, loop)
    nest = build_nest(copy, solve_ranges(copy, copy.writes[0], needed), outer)
    return insert_at(body, loop, nest, frozenset({name})), title


def _whole(source: Region, domain: Mapping[Var, int]) -> tuple[list[int], list[int]]:
    """Lowest index and size of all that a block could ever read, whatever loops are around it."""
    lows, sizes = [], []
    for part, size in zip(
        relax_region(source, domain, {}).ranges, source.buffer.shape, strict=True
    ):
        # Partial tiles are cut short inside the block: what is not padded ends with the buffer.
        kept = part if source.pad_value is not None else clipped(part, size, {})
        assert isinstance(kept.min, IntImm), "relaxed over every variable"
        lows.append(kept.min.value)
        sizes.append(kept.extent)
    return lows, sizes


def cache_write(
    func: PrimFunc, body: Stmt, name: str, index: int | str, scope: str
) -> tuple[Stmt, str]:
    """Write through a copy; see `Schedule.cache_write`."""
    site = find_site(func, name)
    target = pick(site, site.block.writes, index, "writes")
    buffer = target.buffer
    sites, _ = collect(body)
    if len(writers(sites, buffer)) > 1:
        raise ScheduleError(
            f"cache_write needs the only writer of a buffer; {buffer.name!r} has more"
        )
    require_separate(site.block, target, "cache_write")
    cached = Buffer(unique_name(func, f"{buffer.name}_{scope}"), buffer.shape, buffer.dtype, scope)

    def through(load: Load) -> Expr | None:
        return Load(cached, load.indices) if load.buffer is buffer else None

    block = edit_block(site.block, through, {buffer: cached})
    body = replace_site(
        body, name, BlockRealize(site.realize.values, block, site.realize.predicate)
    )
    sites, _ = collect(body)
    producer = next(s for s in sites if s.block.name == name)
    depth = max((producer.shared(reader) for reader in readers(sites, buffer)), default=0)
    loop = producer.loops[depth - 1].var if depth else None
    title = unique_name(func, f"{buffer.name}_store")
    source = Region(cached, target.ranges)
    copy = copy_body(title, buffer, source, [0] * len(buffer.shape)).block
    written = region_written([producer], cached, loop)
    outer, _inner = below(producer, loop)
    ranges = solve_ranges(copy, copy.reads[0], written)
    nest = build_nest(copy, ranges, outer, guards_of(producer, outer))
    return insert_at(body, loop, nest, frozenset({name}), after=True), title


def set_scope(
    func: PrimFunc, body: Stmt, name: str, index: int | str, scope: str
) -> tuple[Stmt, Buffer, Buffer]:
    """Move a buffer to another scope; returns the body, the old and the new buffer."""
    site = find_site(func, name)
    old = pick(site, site.block.writes, index, "writes").buffer
    if old in func.params:
        raise ScheduleError(
            f"set_scope needs a buffer that the function allocates; {old.name!r} is a parameter; "
            "use cache_write"
        )
    new = Buffer(old.name, old.shape, old.dtype, scope)
    return replace_buffer(body, old, new), old, new


def replace_buffer(body: Stmt, old: Buffer, new: Buffer) -> Stmt:
    """Every access to `old` becomes one to `new`, with the same indices."""

    def load(node: Load) -> Expr | None:
        return Load(new, node.indices, node.pad_value) if node.buffer is old else None

    def visit(node: Stmt) -> Stmt | None:
        if isinstance(node, BlockRealize):
            block = edit_block(node.block, load, {old: new})
            return BlockRealize(node.values, block, node.predicate)
        return None

    return map_stmt(body, visit)
