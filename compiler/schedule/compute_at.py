"""Moving a block under a loop of its consumer or producer, for the region needed there."""

from collections.abc import Mapping

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.edit import find_site, insert_at, remove_block
from daedal.compiler.schedule.nest import build_nest, require_separate, solve_ranges
from daedal.compiler.tir.condition import conjuncts
from daedal.compiler.tir.expr import Buffer, Expr, Var
from daedal.compiler.tir.region import region_under, union
from daedal.compiler.tir.sites import Site, collect
from daedal.compiler.tir.stmt import For, PrimFunc, Region, Stmt
from daedal.compiler.tir.visit import free_vars

__all__ = ["compute_at", "guards_of", "region_read", "region_written", "reverse_compute_at"]


def below(site: Site, loop: Var | None) -> tuple[dict[Var, int], dict[Var, int]]:
    """Extents of the loops of `site` around (and including) `loop`, and of those inside it."""
    outer: dict[Var, int] = {}
    inner: dict[Var, int] = {}
    inside = loop is None
    for item in site.loops:
        (inner if inside else outer)[item.var] = item.extent
        inside = inside or item.var is loop
    return outer, inner


def guards_of(site: Site, outer: Mapping[Var, int]) -> list[Expr]:
    """The conditions of `site` on the loops `outer` alone: where it does not run at all."""
    return [
        condition
        for condition in conjuncts(site.realize.predicate)
        if all(var in outer for var in free_vars(condition))
    ]


def is_under(site: Site, loop: Var | None) -> bool:
    """Whether `loop` is around `site`; None stands for the whole function."""
    return loop is None or any(item.var is loop for item in site.loops)


def region_read(sites: list[Site], buffer: Buffer, loop: Var | None) -> Region:
    """The hull of what `sites` read of `buffer` in one iteration of `loop`."""
    return _hull(sites, buffer, loop, written=False)


def region_written(sites: list[Site], buffer: Buffer, loop: Var | None) -> Region:
    """The hull of what `sites` write of `buffer` in one iteration of `loop`."""
    return _hull(sites, buffer, loop, written=True)


def _hull(sites: list[Site], buffer: Buffer, loop: Var | None, written: bool) -> Region:
    outer: Mapping[Var, int] = {}
    found = []
    for site in sites:
        outer, inner = below(site, loop)
        for region in site.block.writes if written else site.block.reads:
            if region.buffer is buffer:
                whole = region_under(site.realize, region, inner, outer)
                found.append(Region(buffer, whole.ranges))
    assert found, "somebody touches the buffer"
    return union(found, outer)[0]


def readers(sites: list[Site], buffer: Buffer) -> list[Site]:
    """The sites that read `buffer`."""
    return [s for s in sites if any(region.buffer is buffer for region in s.block.reads)]


def writers(sites: list[Site], buffer: Buffer) -> list[Site]:
    """The sites that write `buffer`."""
    return [s for s in sites if any(region.buffer is buffer for region in s.block.writes)]


def compute_at(func: PrimFunc, body: Stmt, name: str, loop: For) -> Stmt:
    """Move a producer under `loop`; see `Schedule.compute_at`."""
    site = find_site(func, name)
    sites, _ = collect(body)
    if is_under(site, loop.var):
        raise ScheduleError(
            f"compute_at moves a block under another's loop; {loop.var.name!r} is around {name!r}"
        )
    target = site.block.writes[0]
    if target.buffer in func.outputs:
        raise ScheduleError(
            f"compute_at needs a block whose result others read; {name!r} writes output "
            f"{target.buffer.name!r}; use reverse_compute_at"
        )
    require_separate(site.block, target, "compute_at")
    consumers = [s for s in readers(sites, target.buffer) if s.block.name != name]
    for consumer in consumers:
        if not is_under(consumer, loop.var):
            raise ScheduleError(
                f"compute_at needs every consumer under the loop; block {consumer.block.name!r} "
                "reads "
                f"{target.buffer.name!r} outside {loop.var.name!r}"
            )
    others = [s for s in writers(sites, target.buffer) if s.block.name != name]
    if others:
        raise ScheduleError(
            f"compute_at needs the only writer of a buffer; {target.buffer.name!r} is written by "
            f"{others[0].block.name!r} too; move it before decompose_reduction"
        )
    needed = region_read(consumers, target.buffer, loop.var)
    outer, _inner = below(consumers[0], loop.var)
    nest = build_nest(site.block, solve_ranges(site.block, target, needed), outer)
    rest = remove_block(body, name)
    assert rest is not None
    return insert_at(rest, loop.var, nest, frozenset(c.block.name for c in consumers))


def reverse_compute_at(func: PrimFunc, body: Stmt, name: str, loop: For) -> Stmt:
    """Move a consumer under `loop`; see `Schedule.reverse_compute_at`."""
    site = find_site(func, name)
    sites, _ = collect(body)
    if is_under(site, loop.var):
        raise ScheduleError(
            f"reverse_compute_at moves a block under another's loop; {loop.var.name!r} is around "
            f"{name!r}"
        )
    if site.block.reduce_vars:
        raise ScheduleError(
            f"reverse_compute_at needs a block without reduction; {name!r} reduces over "
            f"{site.block.reduce_vars[0].name!r}"
        )
    ranges = {}
    guards: list[Expr] = []
    producers: set[str] = set()
    outer: dict[Var, int] = {}
    for region in site.block.reads:
        under = [s for s in writers(sites, region.buffer) if is_under(s, loop.var)]
        if not under:
            continue
        for writer in under:
            _require_complete(writer, loop, name)
            guards += guards_of(writer, below(writer, loop.var)[0])
        producers |= {s.block.name for s in under}
        outer, _inner = below(under[0], loop.var)
        written = region_written(under, region.buffer, loop.var)
        ranges.update(solve_ranges(site.block, region, written))
    if not producers:
        raise ScheduleError(
            f"reverse_compute_at needs a producer of {name!r} under the loop; there is none under "
            f"{loop.var.name!r}"
        )
    nest = build_nest(site.block, ranges, outer, list(dict.fromkeys(guards)))
    rest = remove_block(body, name)
    assert rest is not None
    return insert_at(rest, loop.var, nest, frozenset(producers), after=True)


def _require_complete(writer: Site, loop: For, name: str) -> None:
    """Refuse to read what is still being reduced at the end of an iteration of `loop`."""
    outer, _ = below(writer, loop.var)
    for axis, value in writer.realize.binding.items():
        for var in free_vars(value):
            if axis in writer.block.reduce_vars and var in outer:
                raise ScheduleError(
                    f"reverse_compute_at needs a loop outside the reduction of the producer; "
                    f"{writer.block.name!r} reduces over {var.name!r}, which is around {name!r} "
                    "then"
                )
