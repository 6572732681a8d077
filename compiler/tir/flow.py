"""Def-use order and completeness: every read element is written before, and all of every output.

Rule 5 of `daedal.compiler.tir.verify`.
"""

from collections.abc import Mapping

from daedal.compiler.tir.binding import check_bindings, value_ranges
from daedal.compiler.tir.condition import (
    Condition,
    conjuncts,
    entry_condition,
    normal_condition,
)
from daedal.compiler.tir.errors import InvalidIRError
from daedal.compiler.tir.expr import Axis, Expr, Var
from daedal.compiler.tir.linear import bounds, linear
from daedal.compiler.tir.memo import Memo
from daedal.compiler.tir.printer import region_text
from daedal.compiler.tir.region import region_under, whole_window
from daedal.compiler.tir.sites import Site
from daedal.compiler.tir.stmt import BlockRealize, PrimFunc, Range, Region
from daedal.compiler.tir.visit import free_vars

__all__ = ["check_flow", "covers"]


def covers(outer: Region, inner: Region, extents: Mapping[Var, int]) -> bool:
    """Whether `inner`, clipped at the buffer, lies within `outer`."""
    for whole, part, size in zip(outer.ranges, inner.ranges, outer.buffer.shape, strict=True):
        start = (linear(part.min) - linear(whole.min)).bounds(extents)
        here, there = bounds(whole.min, extents), bounds(part.min, extents)
        if start is None or here is None or there is None:
            return False
        # What lies outside the buffer needs no backing: else the clipped ends decide.
        begins = start[0] >= 0 or here[1] <= max(there[0], 0)
        ends = start[1] + part.extent <= whole.extent
        if not begins or not (ends or here[0] + whole.extent >= min(there[1] + part.extent, size)):
            return False
    return True


def check_flow(func: PrimFunc, sites: list[Site]) -> None:
    """Raise InvalidIRError unless `func`, whose outermost blocks are `sites`, keeps to the rule."""
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
    known = _known_supplies(reader.realize)
    key = (id(region), id(writer.realize), _loops(writer), _loops(reader))
    found = known.get(key)
    if found is None or found[0] is not region or found[1] is not writer.realize:
        # The statements are kept with the answer, so that no others get their identities.
        found = region, writer.realize, _finds_written(writer, reader, region)
        known[key] = found
    return found[2]


def _loops(site: Site) -> tuple[tuple[Var, int], ...]:
    return tuple((loop.var, loop.extent) for loop in site.loops)


@Memo
def _known_supplies(
    _reader: BlockRealize,
) -> dict[tuple[object, ...], tuple[Region, BlockRealize, bool]]:
    """What `_supplies` found of a reader, by region, writer, and the loops around both."""
    return {}


def _finds_written(writer: Site, reader: Site, region: Region) -> bool:
    shared = writer.shared(reader)
    inner = {loop.var: loop.extent for loop in reader.loops[shared:]}
    fixed = {loop.var: loop.extent for loop in reader.loops[:shared]}
    needed = region_under(reader.realize, region, inner, fixed)
    return _is_entered(writer, reader, shared) and _produces(writer, shared, needed, fixed)


def _produces(writer: Site, shared: int, needed: Region, fixed: Mapping[Var, int]) -> bool:
    """Whether `writer`, below its `shared` outermost loops, completely writes `needed`."""
    block = writer.block
    loops = [(loop.var, loop.extent) for loop in writer.loops]
    running = dict(loops[shared:])
    try:
        check_bindings(writer.realize, loops, shared)
    except InvalidIRError:
        return False  # What it writes in one iteration of the shared loops is no box.
    ranges = dict(zip(block.iter_vars, value_ranges(writer.realize, running, fixed), strict=True))
    for axis in block.reduce_vars:
        form = linear(ranges[axis].min)
        if form.terms or form.constant > 0 or ranges[axis].extent < axis.extent:
            return False
    for written in block.writes:
        if written.buffer is not needed.buffer or not _is_dense_write(written, ranges):
            continue
        if not _reaches_ends(written, ranges, fixed):
            continue
        box = region_under(writer.realize, written, running, fixed)
        if covers(box, needed, fixed):
            return True
    return False


def _reaches_ends(written: Region, ranges: Mapping[Axis, Range], fixed: Mapping[Var, int]) -> bool:
    """Whether variables are clipped at their domain only where the buffer ends too."""
    for part, size in zip(written.ranges, written.buffer.shape, strict=True):
        for axis in free_vars(part.min):
            assert isinstance(axis, Axis), "regions of a block speak of its variables"
            limits = bounds(ranges[axis].min, fixed)
            if limits is None or limits[0] < 0 or limits[1] + ranges[axis].extent > axis.extent:
                ends = bounds(part.min, {axis: axis.extent})
                if ends is None or ends[0] > 0 or ends[1] + part.extent < size:
                    return False
    return True


def _is_entered(writer: Site, reader: Site, shared: int) -> bool:
    """Whether `writer` runs in every iteration of the shared loops in which `reader` does.

    Not running where it would be clipped anyway does no harm.
    """
    fixed = {loop.var: loop.extent for loop in writer.loops[:shared]}
    guards = [
        condition
        for condition in conjuncts(writer.realize.predicate)
        if all(var in fixed for var in free_vars(condition))
    ]
    if not guards:
        return True
    known = set()
    for axis, value in writer.realize.binding.items():
        assert isinstance(axis, Axis)
        known |= {_entry(c, writer, shared) for c in (value >= 0, value < axis.extent)}
    known |= {_entry(c, reader, shared) for c in conjuncts(reader.realize.predicate)}
    return all(normal_condition(condition, writer.extents) in known for condition in guards)


def _entry(condition: Expr, site: Site, shared: int) -> Condition | None:
    inner = {loop.var: loop.extent for loop in site.loops[shared:]}
    return entry_condition(condition, inner, site.extents)


def _is_dense_write(written: Region, ranges: Mapping[Axis, Range]) -> bool:
    """Whether each dimension follows one variable of its own, without gaps."""
    seen: set[Var] = set()
    for part, size in zip(written.ranges, written.buffer.shape, strict=True):
        used = free_vars(part.min)
        form = linear(part.min)
        if len(used) > 1 or seen & set(used):
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
