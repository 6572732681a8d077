"""The rules of the loop IR, checked after every primitive.

1. Names: blocks have distinct names; every variable and buffer is in scope; a block's body speaks
   of the block's own variables only.
2. Forms: loop kinds, scopes and annotations are known; stores stand in blocks.
3. Bindings are affine, independent and covering, and predicates clip them at their domains
   (`daedal.compiler.tir.binding`).
4. Regions: a block's reads and writes are what its body touches; indices stay inside buffers unless
   padded; a window holds everything accessed while its allocation lives.
5. Flow: whatever is read was written before, completely reduced; outputs are written completely.
"""

from collections.abc import Mapping

from daedal.compiler.tir.binding import check_bindings, value_ranges
from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.expr import Axis, Buffer, Expr, Load, Var
from daedal.compiler.tir.linear import bounds, linear
from daedal.compiler.tir.printer import region_text
from daedal.compiler.tir.region import (
    accesses,
    block_regions,
    relax_region,
    substitute_region,
    whole_window,
)
from daedal.compiler.tir.sites import Scope, Site, collect, nested_realizes
from daedal.compiler.tir.stmt import (
    SCOPES,
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    For,
    PrimFunc,
    Range,
    Region,
    Seq,
    Stmt,
)
from daedal.compiler.tir.visit import free_vars, loads, walk

__all__ = ["LOOP_KINDS", "verify"]

GPU_AXES = frozenset(f"{level}.{dim}" for level in ("block", "thread") for dim in "xyz")

LOOP_KINDS = frozenset({"serial", "unroll", "parallel", "vectorize", "virtual_thread"}) | GPU_AXES
"""What `For.kind` may be."""


def verify(func: PrimFunc, scopes: frozenset[str] = SCOPES) -> None:
    """Raise InvalidIRError with the rule that `func` breaks, if it breaks one.

    `scopes` are the memory scopes of the target.
    """
    _check_names(func)
    _check_forms(func.body, scopes)
    sites, allocated = collect(func.body)
    for site in sites:
        _check_site(site, site.block, _running(site, site.block, allocated))
    _check_windows(func, allocated)
    _check_flow(func, sites)


def _running(site: Site, block: Block, allocated: Mapping[Buffer, Scope]) -> dict[Var, int]:
    """The loops of `site` inside the allocation of what its block writes."""
    depth = min(
        (len(allocated[r.buffer].loops) if r.buffer in allocated else 0) for r in block.writes
    )
    return {loop.var: loop.extent for loop in site.loops[depth:]}


def _check_names(func: PrimFunc) -> None:
    names: set[str] = set()
    for realize in nested_realizes(func.body):
        if realize.block.name in names:
            raise InvalidIRError(f"blocks need distinct names, not two {realize.block.name!r}")
        names.add(realize.block.name)
    _check_scope(func.body, frozenset(), frozenset(func.params), func.name)


def _check_scope(
    stmt: Stmt, variables: frozenset[Var], buffers: frozenset[Buffer], where: str
) -> None:
    def known(exprs: tuple[Expr, ...]) -> None:
        for expr in exprs:
            for node in walk(expr):
                if isinstance(node, Var) and node not in variables:
                    raise InvalidIRError(
                        f"variable {node.name!r} is not bound where {where} uses it"
                    )
                if isinstance(node, Load) and node.buffer not in buffers:
                    raise InvalidIRError(
                        f"buffer {node.buffer.name!r} does not live where {where} uses it"
                    )

    match stmt:
        case Seq(body):
            for part in body:
                _check_scope(part, variables, buffers, where)
        case For(var, _, body):
            if var in variables:
                raise InvalidIRError(f"loop variable {var.name!r} is bound twice ({where})")
            _check_scope(body, variables | {var}, buffers, where)
        case Allocate(allocations, body):
            for item in allocations:
                known(tuple(part.min for part in item.window))
            _check_scope(body, variables, buffers | {a.buffer for a in allocations}, where)
        case BlockRealize(values, block, predicate):
            known(values if predicate is None else (*values, predicate))
            name = f"block {block.name!r}"
            own: frozenset[Var] = frozenset(block.iter_vars)
            for inner in (block.init, block.body):
                if inner is not None:
                    _check_scope(inner, own, buffers, name)
        case BufferStore(buffer, indices, value):
            if buffer not in buffers:
                raise InvalidIRError(f"buffer {buffer.name!r} does not live where {where} uses it")
            known((*indices, value))


def _check_forms(stmt: Stmt, scopes: frozenset[str], inside: bool = False) -> None:
    match stmt:
        case Seq(body):
            for part in body:
                _check_forms(part, scopes, inside)
        case For(var, extent, body, kind):
            if kind not in LOOP_KINDS or extent < 1:
                raise InvalidIRError(f"a loop is not {kind!r} with extent {extent} ({var.name!r})")
            _check_forms(body, scopes, inside)
        case Allocate(allocations, body):
            for item in allocations:
                if item.buffer.scope not in scopes:
                    raise InvalidIRError(
                        f"a scope must be one of {', '.join(sorted(scopes))}, not "
                        f"{item.buffer.scope!r} "
                        f"(buffer {item.buffer.name!r})"
                    )
            _check_forms(body, scopes, inside)
        case BlockRealize(values, block):
            assert len(values) == len(block.iter_vars), "one value per variable"
            for inner in (block.init, block.body):
                if inner is not None:
                    _check_forms(inner, scopes, True)
        case BufferStore() if not inside:
            raise InvalidIRError(f"a store must stand in a block ({stmt.buffer.name!r})")


def _check_site(site: Site, block: Block, running: Mapping[Var, int]) -> None:
    """Bindings, and regions down through nested blocks."""
    check_bindings(site.realize, running, site.extents)
    _check_block(block)
    own: dict[Var, int] = {axis: axis.extent for axis in block.iter_vars}
    for nested in _nested(block.body, {}):
        realize, loops = nested
        check_bindings(realize, loops, {**own, **loops})
        _check_block(realize.block)


def _nested(stmt: Stmt, loops: dict[Var, int]) -> list[tuple[BlockRealize, dict[Var, int]]]:
    match stmt:
        case Seq(body):
            return [item for part in body for item in _nested(part, loops)]
        case For(var, extent, body):
            return _nested(body, {**loops, var: extent})
        case BlockRealize():
            return [(stmt, loops)]
    return []


def _check_block(block: Block) -> None:
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


def _check_windows(func: PrimFunc, allocated: Mapping[Buffer, Scope]) -> None:
    def visit(stmt: Stmt, extents: dict[Var, int]) -> None:
        match stmt:
            case Seq(body):
                for part in body:
                    visit(part, extents)
            case For(var, extent, body):
                visit(body, {**extents, var: extent})
            case Allocate(allocations, body):
                found = accesses(body, extents)
                for item in allocations:
                    window = Region(item.buffer, item.window)
                    for access in found:
                        region = access.region
                        if region.buffer is item.buffer and not _covers(window, region, extents):
                            raise InvalidIRError(
                                f"the window of {item.buffer.name!r} must hold "
                                f"{region_text(region)}, "
                                f"not just {region_text(window)}"
                            )
                visit(body, extents)

    visit(func.body, {})


def _covers(outer: Region, inner: Region, extents: Mapping[Var, int]) -> bool:
    """Whether `inner`, clipped at the buffer, lies within `outer`."""
    for whole, part, size in zip(outer.ranges, inner.ranges, outer.buffer.shape, strict=True):
        distance = linear(part.min - whole.min)
        assert distance is not None
        start = bounds(distance.expr(), extents)
        here, there = bounds(whole.min, extents), bounds(part.min, extents)
        if start is None or here is None or there is None:
            return False
        # What lies outside the buffer needs no backing: else the clipped ends decide.
        begins = start[0] >= 0 or here[1] <= max(there[0], 0)
        ends = start[1] + part.extent <= whole.extent
        if not begins or not (ends or here[0] + whole.extent >= min(there[1] + part.extent, size)):
            return False
    return True


def _check_flow(func: PrimFunc, sites: list[Site]) -> None:
    inputs = set(func.inputs)
    for order, site in enumerate(sites):
        for region in site.block.reads:
            if region.buffer in inputs:
                continue
            if not _is_supplied(sites, order, region):
                raise InvalidIRError(
                    f"block {site.block.name!r} reads {region_text(region)} before it is "
                    "completely written"
                )
    for buffer in func.outputs:
        whole = Region(buffer, whole_window(buffer))
        writers = [s for s in sites if any(w.buffer is buffer for w in s.block.writes)]
        if not writers or not all(_produces(site, 0, whole, {}) for site in writers):
            raise InvalidIRError(
                f"output {buffer.name!r} must be written completely by every block that writes it"
            )


def _is_supplied(sites: list[Site], order: int, region: Region) -> bool:
    """Whether all that ``sites[order]`` reads there has its final value by then.

    A block that only reads waits for every writer; one that accumulates, for one earlier writer.
    """
    reader = sites[order]
    done = [
        position < order and _supplies(site, reader, region)
        for position, site in enumerate(sites)
        if position != order and any(w.buffer is region.buffer for w in site.block.writes)
    ]
    if any(written.buffer is region.buffer for written in reader.block.writes):
        return any(done)
    return bool(done) and all(done)


def _supplies(writer: Site, reader: Site, region: Region) -> bool:
    """Whether `writer` has completely written what `reader` reads there."""
    shared = writer.shared(reader)
    inner = {loop.var: loop.extent for loop in reader.loops[shared:]}
    fixed = {loop.var: loop.extent for loop in reader.loops[:shared]}
    needed = relax_region(substitute_region(region, reader.realize.binding), inner, fixed)
    return _produces(writer, shared, needed, fixed)


def _produces(writer: Site, shared: int, needed: Region, fixed: Mapping[Var, int]) -> bool:
    """Whether `writer`, below its `shared` outermost loops, completely writes `needed`."""
    block = writer.block
    running = {loop.var: loop.extent for loop in writer.loops[shared:]}
    ranges = dict(zip(block.iter_vars, value_ranges(writer.realize, running, fixed), strict=True))
    for axis in block.reduce_vars:
        form = linear(ranges[axis].min)
        if form is None or form.terms or form.constant > 0 or ranges[axis].extent < axis.extent:
            return False
    for written in block.writes:
        if written.buffer is not needed.buffer or not _is_dense_write(written, ranges):
            continue
        box = relax_region(substitute_region(written, writer.realize.binding), running, fixed)
        if _covers(box, needed, fixed):
            return True
    return False


def _is_dense_write(written: Region, ranges: Mapping[Axis, Range]) -> bool:
    """Whether each dimension follows one variable of its own, without gaps."""
    seen: set[Var] = set()
    for part, size in zip(written.ranges, written.buffer.shape, strict=True):
        used = free_vars(part.min)
        form = linear(part.min)
        if len(used) > 1 or form is None or seen & set(used):
            return False
        seen |= set(used)
        for term, factor in form.terms:
            if not isinstance(term, Axis):
                return False
            # Steps wider than the box leave gaps, unless the first box fills the dimension.
            gaps = not 0 < factor <= part.extent and part.extent < size
            if ranges[term].extent > 1 and (factor < 0 or gaps):
                return False
    return True
