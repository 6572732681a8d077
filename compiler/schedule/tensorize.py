"""Replacing a nest by a block that stands for one instruction."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from daedal.common.errors import ScheduleError
from daedal.compiler.schedule.blockize import Nest, blockize
from daedal.compiler.schedule.edit import replace_site
from daedal.compiler.tir.expr import Var
from daedal.compiler.tir.intrin import CopyIntrin, Match, Mismatch, TensorIntrin
from daedal.compiler.tir.printer import stmt_text
from daedal.compiler.tir.sites import collect
from daedal.compiler.tir.stmt import BlockRealize, Stmt, Value
from daedal.compiler.tir.tile_products import TileOperation
from daedal.compiler.tir.warp_products import WarpProduct

__all__ = ["tensorize"]

Intrin = TensorIntrin | CopyIntrin | TileOperation | WarpProduct

_NONE: Mapping[Var, int] = MappingProxyType({})


def tensorize(
    body: Stmt, nest: Nest, outer_extents: dict[Var, int], intrin: Intrin
) -> tuple[Stmt, str]:
    """Match, blockize and annotate; see `Schedule.tensorize`."""
    match = matched(nest, intrin, outer_extents)
    body, name = blockize(body, nest.loops[0], outer_extents)
    return annotated(body, name, intrin, match), name


def matched(nest: Nest, intrin: Intrin, outer_extents: Mapping[Var, int] = _NONE) -> Match:
    """The match, or a ScheduleError that shows both sides."""
    block = nest.realize.block
    try:
        if isinstance(intrin, TileOperation):
            return intrin.match(nest.extents, nest.realize, outer_extents)
        return intrin.match(nest.extents, nest.realize)
    except Mismatch as reason:
        if isinstance(intrin, CopyIntrin):
            pattern = intrin.formula
        elif isinstance(intrin, WarpProduct):
            pattern = f"c[m, n] = c[m, n] + {intrin.sums}(a[m, k]) * {intrin.sums}(b[k, n])"
        elif isinstance(intrin, TileOperation):
            pattern = intrin.pattern
        else:
            axes = ", ".join(f"{axis.name}:{axis.extent}" for axis in intrin.pattern.iter_vars)
            pattern = f"{intrin.formula} over {axes}"
        loops = ", ".join(f"{loop.var.name}:{loop.extent}" for loop in nest.loops)
        raise ScheduleError(
            f"tensorize needs block {block.name!r} to compute {intrin.name!r}: {reason}\n"
            f"  intrinsic: {pattern}\n"
            f"  block:     {stmt_text(block.body).strip()} over {loops}"
        ) from None


def annotated(body: Stmt, name: str, intrin: Intrin, match: Match) -> Stmt:
    """Write the intrinsic, its operands (in the order of reads) and immediates on the block."""
    sites, _ = collect(body)
    site = next(site for site in sites if site.block.name == name)
    block = site.block
    notes: dict[str, Value] = {**block.annotations, "intrin": intrin.name, **match.immediates}
    if not isinstance(intrin, CopyIntrin):
        notes["operands"] = ",".join(match.operands[region.buffer] for region in block.reads)
    new = replace(block, annotations=notes)
    return replace_site(body, name, BlockRealize(site.realize.values, new, site.realize.predicate))
