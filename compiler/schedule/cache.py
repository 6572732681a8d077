"""Reading or writing a buffer through a copy in another memory scope."""

from collections.abc import Mapping, Sequence

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
    func: PrimFunc,
    body: Stmt,
    name: str,
    index: int | str,
    scope: str,
    consumers: Sequence[str] = (),
) -> tuple[Stmt, str]:
    """Read through a copy; see `Schedule.cache_read`."""
    names = (name, *consumers)
    if len(set(names)) < len(names):
        raise ScheduleError(
            f"cache_read takes each consumer once, not {', '.join(map(repr, names))}"
        )
    sites = [find_site(func, each) for each in names]
    source = pick(sites[0], sites[0].block.reads, index, "reads")
    regions = [source, *(_read_alike(site, source) for site in sites[1:])]
    lows, sizes = _hull_of(sites, regions)
    title = unique_name(func, f"{source.buffer.name}_{scope}")
    cached = Buffer(title, tuple(sizes), source.buffer.dtype, scope)
    for site in sites:
        body = _read_copy(body, site, source, cached, lows)
    every, _ = collect(body)
    reading = [site for site in every if site.block.name in names]
    loop = _loop_of_copy(every, reading, source.buffer)
    copy = copy_body(title, cached, source, lows).block
    needed = region_read(reading, cached, loop)
    outer, _inner = below(reading[0], loop)
    nest = build_nest(copy, solve_ranges(copy, copy.writes[0], needed), outer)
    return insert_at(body, loop, nest, frozenset(names)), title


def _read_alike(site: Site, source: Region) -> Region:
    """What a further consumer reads of the buffer of `source`, with the same padding."""
    name, buffer = site.block.name, source.buffer
    found = [region for region in site.block.reads if region.buffer is buffer]
    alike = [region for region in found if region.pad_value == source.pad_value]
    if not alike:
        why = "reads it with another padding" if found else "does not read it"
        raise ScheduleError(f"cache_read needs consumers of {buffer.name!r}; {name!r} {why}")
    return alike[0]


def _hull_of(sites: Sequence[Site], regions: Sequence[Region]) -> tuple[list[int], list[int]]:
    """Lowest index and size of all that the blocks read; refuses those that also write it."""
    lows, ends = [], []
    for site, region in zip(sites, regions, strict=True):
        if any(written.buffer is region.buffer for written in site.block.writes):
            raise ScheduleError(
                f"cache_read needs a buffer that the block only reads; {site.block.name!r} "
                f"accumulates into {region.buffer.name!r}; use cache_write before "
                "decompose_reduction"
            )
        low, size = _whole(region, {axis: axis.extent for axis in site.block.iter_vars})
        lows.append(low)
        ends.append([start + count for start, count in zip(low, size, strict=True)])
    least = [min(dim) for dim in zip(*lows, strict=True)]
    most = [max(dim) for dim in zip(*ends, strict=True)]
    return least, [end - low for low, end in zip(least, most, strict=True)]


def _read_copy(body: Stmt, site: Site, source: Region, cached: Buffer, lows: Sequence[int]) -> Stmt:
    """`body` in which a block reads `cached` instead of `source`."""
    domain: dict[Var, int] = {axis: axis.extent for axis in site.block.iter_vars}

    def through(load: Load) -> Expr | None:
        if load.buffer is not source.buffer or load.pad_value != source.pad_value:
            return None
        pairs = zip(load.indices, lows, strict=True)
        return Load(cached, tuple(simplify(i - low, domain) for i, low in pairs))

    block = edit_block(site.block, through)
    realize = BlockRealize(site.realize.values, block, site.realize.predicate)
    return replace_site(body, site.block.name, realize)


def _loop_of_copy(sites: list[Site], consumers: list[Site], buffer: Buffer) -> Var | None:
    """The innermost loop that a consumer shares with a writer of `buffer`: the copy goes there."""
    before = writers(sites, buffer)
    loops = [
        site.loops[depth - 1].var if depth else None
        for site in consumers
        for depth in [max((writer.shared(site) for writer in before), default=0)]
    ]
    first = min(sites.index(site) for site in consumers)
    if any(loop is not loops[0] for loop in loops) or (
        len(consumers) > 1 and any(sites.index(writer) > first for writer in before)
    ):
        raise ScheduleError(
            f"cache_read needs consumers that come after what writes {buffer.name!r}, in the same "
            "loops of it"
        )
    return loops[0]


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
