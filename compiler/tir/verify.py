"""The rules of the loop IR, checked after every primitive.

1. Names: blocks have distinct names; every variable and buffer is in scope; a block's body speaks
   of the block's own variables only (`daedal.compiler.tir.outline`).
2. Forms: loop kinds, scopes and annotations are known; stores stand in blocks.
3. Bindings are affine, independent and covering, and predicates clip them at their domains
   (`daedal.compiler.tir.binding`).
4. Regions: a block's reads and writes are what its body touches; indices stay inside buffers unless
   padded; a window holds everything accessed while its allocation lives.
5. Flow: whatever is read was written before, completely reduced; outputs are written completely
   (`daedal.compiler.tir.flow`).
6. Loops that run at once have independent iterations; axes of a GPU fit together
   (`daedal.compiler.tir.parallel`).
"""

from collections.abc import Mapping

from daedal.compiler.tir.binding import check_bindings
from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.expr import Buffer, Load, Var
from daedal.compiler.tir.flow import check_flow, covers
from daedal.compiler.tir.linear import bounds
from daedal.compiler.tir.memo import Memo
from daedal.compiler.tir.outline import outline
from daedal.compiler.tir.parallel import check_parallel
from daedal.compiler.tir.printer import region_text
from daedal.compiler.tir.region import accesses, block_regions
from daedal.compiler.tir.sites import Scope, Site, collect
from daedal.compiler.tir.stmt import (
    SCOPES,
    Allocate,
    Block,
    BufferStore,
    For,
    PrimFunc,
    Region,
    Seq,
    Stmt,
)
from daedal.compiler.tir.visit import loads

__all__ = ["verify"]


def verify(func: PrimFunc, scopes: frozenset[str] = SCOPES) -> None:
    """Raise InvalidIRError with the rule that `func` breaks, if it breaks one.

    `scopes` are the memory scopes of the target. Statements, blocks and bindings that passed before
    are not checked again, so a primitive pays only for what it changed.
    """
    for buffer in outline(func.body).allocated:
        if buffer.scope not in scopes:
            raise InvalidIRError(
                f"a scope must be one of {', '.join(sorted(scopes))}, not {buffer.scope!r} "
                f"(buffer {buffer.name!r})"
            )
    _check(func)


@Memo
def _check(func: PrimFunc) -> None:
    """All rules but that of scopes."""
    _check_outline(func)
    sites, allocated = collect(func.body)
    for site in sites:
        _check_site(site, allocated)
    _check_windows(func.body, {})
    check_flow(func, sites)
    check_parallel(sites, allocated)


def _check_outline(func: PrimFunc) -> None:
    """Names and forms."""
    found = outline(func.body)
    names: set[str] = set()
    for name in found.blocks:
        if name in names:
            raise InvalidIRError(f"blocks need distinct names, not two {name!r}")
        names.add(name)
    for var, user in found.variables.items():
        raise InvalidIRError(
            f"variable {var.name!r} is not bound where {user or func.name} uses it"
        )
    for buffer, user in found.buffers.items():
        if buffer not in func.params:
            raise InvalidIRError(
                f"buffer {buffer.name!r} does not live where {user or func.name} uses it"
            )
    for buffer in found.stores:
        raise InvalidIRError(f"a store must stand in a block ({buffer.name!r})")


def _check_site(site: Site, allocated: Mapping[Buffer, Scope]) -> None:
    """Bindings, and regions down through nested blocks."""
    block = site.block
    depth = min(
        (len(allocated[r.buffer].loops) if r.buffer in allocated else 0) for r in block.writes
    )
    check_bindings(site.realize, [(loop.var, loop.extent) for loop in site.loops], depth)
    _check_block(block)


@Memo
def _check_block(block: Block) -> None:
    """Regions and indices of a block, and all of the blocks in it."""
    _check_regions(block)
    own = [(axis, axis.extent) for axis in block.iter_vars]
    for part in (block.init, block.body):
        for site in collect(part)[0] if part is not None else ():
            loops = [(loop.var, loop.extent) for loop in site.loops]
            check_bindings(site.realize, [*own, *loops], len(own))
            _check_block(site.block)


def _check_regions(block: Block) -> None:
    reads, writes = block_regions(block.iter_vars, block.body, block.init)
    if (reads, writes) != (block.reads, block.writes):
        raise InvalidIRError(f"block {block.name!r} must declare the regions that its body touches")
    if not writes:
        raise InvalidIRError(f"a block must write something ({block.name!r})")
    if not isinstance(block.body, BufferStore):
        return
    target = Load(block.body.buffer, block.body.indices)
    if block.reduce_vars and target not in loads(block.body.value):
        raise InvalidIRError(
            f"a block that reduces must accumulate into what it writes ({block.name!r})"
        )
    extents: dict[Var, int] = {axis: axis.extent for axis in block.iter_vars}
    for region in (*reads, *writes):
        if region.pad_value is not None:
            continue
        for dim, (part, size) in enumerate(zip(region.ranges, region.buffer.shape, strict=True)):
            limits = bounds(part.min, extents)
            if limits is not None and (limits[0] < 0 or limits[1] + part.extent > size):
                raise InvalidIRError(
                    f"block {block.name!r} touches {region.buffer.name!r} at "
                    f"{limits[0]}..{limits[1] + part.extent - 1} in dimension {dim} of size {size}"
                )


def _check_windows(stmt: Stmt, extents: Mapping[Var, int]) -> None:
    match stmt:
        case Seq(body):
            for part in body:
                _check_windows(part, extents)
        case For(var, extent, body):
            _check_windows(body, {**extents, var: extent})
        case Allocate(allocations, body):
            windows = {item.buffer: Region(item.buffer, item.window) for item in allocations}
            for access in accesses(body, extents, frozenset(windows)):
                region, window = access.region, windows[access.region.buffer]
                if not covers(window, region, extents):
                    raise InvalidIRError(
                        f"the window of {region.buffer.name!r} must hold {region_text(region)}, "
                        f"not just {region_text(window)}"
                    )
            _check_windows(body, extents)
