"""Reductions whose only reader has the same axes in another order are computed in that order.

So what the heads of an attention give, which a Transpose brings side by side, is stored there at
once. The last axis stays where it is, as vectors lie along it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler import te
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Reduce, Var
from daedal.compiler.tir.visit import loads, rewrite, substitute

__all__ = ["Turned", "turned_reductions"]


@dataclass(frozen=True)
class Turned:
    """A reduction in another order of its axes, and its reader with the formula that reads it."""

    tensor: te.Tensor
    reader: te.Tensor
    formula: Expr


def turned_reductions(
    needed: Collection[Buffer],
    roots: Sequence[te.Tensor],
    formulas: Mapping[Buffer, Expr],
) -> dict[te.Tensor, Turned]:
    """What replaces such reductions.

    Parameters
    ----------
    needed : tensors that stay as they are.
    roots : tensors that are in memory.
    formulas : theirs, over each other and inputs.
    """
    readers: dict[Buffer, list[te.Tensor]] = {root: [] for root in roots}
    for root in roots:
        for buffer in {load.buffer for load in loads(formulas[root])} & readers.keys():
            readers[buffer].append(root)
    found: dict[te.Tensor, Turned] = {}
    for source in roots:
        if len(readers[source]) == 1 and source not in needed:
            (reader,) = readers[source]
            item = _turned(source, formulas[source], reader, formulas[reader])
            if item is not None and all(reader is not other.reader for other in found.values()):
                found[source] = item
    return found


def _turned(source: te.Tensor, formula: Expr, reader: te.Tensor, reads: Expr) -> Turned | None:
    """What replaces `source`, whose formula is a reduction that `reader` reads at one place."""
    found = {load for load in loads(reads) if load.buffer is source}
    if not isinstance(formula, Reduce) or isinstance(reads, Reduce) or len(found) != 1:
        return None
    (load,) = found
    order = _order(source, reader, load)
    if order is None or load.pad_value is not None:
        return None
    axes = tuple(
        Axis(f"one{number}" if place is None else source.axes[place].name, extent=axis.extent)
        for number, (axis, place) in enumerate(zip(reader.axes, order, strict=True))
    )
    places: dict[Var, Expr] = dict.fromkeys(source.axes, IntImm(0))
    for axis, place in zip(axes, order, strict=True):
        if place is not None:
            places[source.axes[place]] = axis
    value = substitute(formula, places)
    tensor = te.Tensor(source.name, reader.shape, source.dtype, source.scope, axes, value)

    def visit(node: Expr) -> Expr | None:
        return Load(tensor, reader.axes) if node == load else None

    return Turned(tensor, reader, rewrite(reads, visit))


def _order(source: te.Tensor, reader: te.Tensor, load: Load) -> list[int | None] | None:
    """The axis of `source` that each axis of `reader` is, None for those of one element; None where
    they are in the same order, or no others."""
    indices = {
        index: place
        for place, (index, axis) in enumerate(zip(load.indices, source.axes, strict=True))
        if axis.extent > 1
    }
    order = [indices.pop(axis, None) if axis.extent > 1 else None for axis in reader.axes]
    known = [place for place in order if place is not None]
    if indices or len(known) != sum(axis.extent > 1 for axis in reader.axes):
        return None
    if known == sorted(known) or known[-1] != max(known):
        return None
    return order
