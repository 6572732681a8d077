"""Reductions along a row: lanes that reduce a part each, which are then combined.

A row of 21 elements and 8 lanes: two steps leave eight sums and five elements. Halves of the lanes
are added, and with as many lanes elements of the rest, until one is left::

    p[j]  = sum(x[8 * k + j], k < 2)                    8 lanes, 16 elements
    p4[j] = p[j] + p[j + 4] + x[16 + j]                 4 lanes, 20 elements
    p2[j] = p4[j] + p4[j + 2]
    r     = p2[0] + p2[1] + x[20]
"""

from collections.abc import Mapping
from dataclasses import replace

from daedal.compiler import te
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.ops.cpu.reuse import WIDEST, choose_lanes
from daedal.compiler.te.reduction import combine
from daedal.compiler.tir.expr import Axis, Buffer, Call, Expr, IntImm, Load, Reduce, Var
from daedal.compiler.tir.visit import rewrite, substitute

__all__ = ["reading", "row_lanes", "sums_in_lanes", "vectors_of"]


def row_lanes(reduction: te.Tensor) -> int:
    """How many lanes reduce a part each along the last axis; 1 where they do not suit."""
    formula = reduction.value
    assert isinstance(formula, Reduce)
    return choose_lanes(formula.value, formula.axes, ELEMENT_BYTES[reduction.dtype])


def vectors_of(tensor: te.Tensor) -> int:
    """Of how many vectors the last axis is, at least 1."""
    one = WIDEST.vector_bytes // ELEMENT_BYTES[tensor.dtype]
    return max(1, tensor.shape[-1] // one)


def reading(value: Expr, sources: Mapping[Buffer, Buffer]) -> Expr:
    """A formula that reads other tensors, at the same indices."""

    def visit(node: Expr) -> Expr | None:
        if isinstance(node, Load) and node.buffer in sources:
            return Load(sources[node.buffer], node.indices, node.pad_value)
        return None

    return rewrite(value, visit)


def sums_in_lanes(reduction: te.Tensor, lanes: int) -> list[te.Tensor]:
    """The tensors that compute a reduction with its last axis in lanes.

    The first one has the lanes as its last axis; the last one takes the place of `reduction`. If
    `lanes` does not divide the extent, it is a power of two, and the reduction has one axis.
    """
    formula = reduction.value
    assert isinstance(formula, Reduce)
    *others, last = formula.axes
    count, rest = divmod(last.extent, lanes)
    lane, blocks = Axis("lane", extent=lanes), Axis(last.name, extent=count, kind="reduce")
    value = Reduce(
        formula.op, substitute(formula.value, {last: blocks * lanes + lane}), (*others, blocks)
    )
    shape = (*reduction.shape, lanes)
    name = f"{reduction.name}_p"
    found = [replace(reduction, name=name, shape=shape, axes=(*reduction.axes, lane), value=value)]
    while lanes > 1:
        half = lanes // 2 if lanes % 2 == 0 else 1
        taken = min(half, rest) if rest >= half else 0
        found.append(_combined(found[-1], reduction, half, last.extent - rest if taken else None))
        lanes, rest = half, rest - taken
    return found


def _combined(partial: te.Tensor, reduction: te.Tensor, half: int, start: int | None) -> te.Tensor:
    """The lanes of `partial` as `half` lanes, or one by one into the place of `reduction`; elements
    from `start` on are added, one to a lane."""
    formula = reduction.value
    assert isinstance(formula, Reduce)
    lanes = partial.shape[-1]
    axes = tuple(Axis(axis.name, extent=axis.extent) for axis in reduction.axes)
    if lanes % 2:
        rest = Axis("lane", extent=lanes, kind="reduce")
        value: Expr = Reduce(formula.op, Load(partial, (*axes, rest)), (rest,))
        return replace(reduction, axes=axes, value=value)
    lane = Axis("lane", extent=half)
    index: Expr = lane if half > 1 else IntImm(0)
    other: Expr = Load(partial, (*axes, index + half))
    match formula.value:  # what is no number was left out, which machine code may know
        case Call("number_or", (_, least)):
            other = te.number_or(other, least)
    value = combine(formula.op, Load(partial, (*axes, index)), other)
    if start is not None:
        places: dict[Var, Expr] = dict(zip(reduction.axes, axes, strict=True))
        places[formula.axes[-1]] = index + start
        element = substitute(formula.value, places)
        value = combine(formula.op, value, element)
    if half == 1:
        return replace(reduction, axes=axes, value=value)
    name, shape = f"{reduction.name}_p{half}", (*reduction.shape, half)
    return replace(reduction, name=name, shape=shape, axes=(*axes, lane), value=value)
