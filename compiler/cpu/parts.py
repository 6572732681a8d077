"""`in_parts`: a kernel that chooses by an index what an element is becomes one for each choice.

A Concat is such a choice. In one kernel each element would be compared, and where the index lies
along its vectors, they would be gathered element by element::

    y[c, t] = select(t < 255, x0[min(max(t, 0), 254), c], x1[min(max(t - 255, 0), 0), c])

    y[c, t] = x0[t, c] for t < 255;    y[c, t + 255] = x1[t, c] for t < 1
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from daedal.compiler import te
from daedal.compiler.cpu.frame import Frame
from daedal.compiler.cpu.kernel import Kernel
from daedal.compiler.tir.expr import Axis, Compare, Expr, IntImm, Select, Var
from daedal.compiler.tir.linear import bounds, simplify
from daedal.compiler.tir.visit import loads, rewrite, substitute, walk

__all__ = ["in_parts"]

LEAST_ELEMENTS, MOST_PARTS = 1 << 10, 4
"""Of a result: a call takes as long as some hundred elements."""


def in_parts(kernel: Kernel) -> tuple[Kernel, ...]:
    """Kernels that store a part of the result each; `kernel` alone where nothing is chosen, or it
    has no formula of its own for each element."""
    result = kernel.result
    if kernel.reduction is not None or kernel.stages or kernel.frame is not None:
        return (kernel,)
    if math.prod(result.shape) < LEAST_ELEMENTS:
        return (kernel,)
    for place, axis in enumerate(result.axes):
        cuts = _cuts(result, axis)
        if cuts:
            ends = (0, *sorted(cuts), axis.extent)
            parts = tuple(_part(kernel, place, *part) for part in pairwise(ends))
            return parts if len(parts) <= MOST_PARTS else (kernel,)
    return (kernel,)


def _cuts(result: te.Tensor, axis: Axis) -> set[int]:
    """Where along an axis another element is chosen."""
    assert result.value is not None
    found = set[int]()
    for node in walk(result.value):
        match node:
            case Select(Compare("<" | ">=", index, IntImm(number))) if index is axis:
                found.add(number)
    return {number for number in found if 0 < number < axis.extent}


def _part(kernel: Kernel, place: int, first: int, end: int) -> Kernel:
    """The kernel of the elements from `first` to `end`, which it excludes, along an axis."""
    result = kernel.result
    assert result.value is not None
    axes = list(result.axes)
    axes[place] = Axis(axes[place].name, extent=end - first)
    extents: dict[Var, int] = {axis: axis.extent for axis in axes}
    moved = substitute(result.value, {result.axes[place]: axes[place] + first})
    value = simplify(rewrite(moved, lambda node: _chosen(node, extents)), extents)
    shape = tuple(axis.extent for axis in axes)
    before = tuple(first if axis == place else 0 for axis in range(len(shape)))
    read = {load.buffer for load in loads(value)}
    pairs = zip(kernel.inputs, kernel.sources, strict=True)
    kept = [(tensor, source) for tensor, source in pairs if tensor in read]
    return replace(
        kernel,
        inputs=tuple(tensor for tensor, _ in kept),
        sources=tuple(source for _, source in kept),
        result=replace(result, shape=shape, axes=tuple(axes), value=value),
        frame=Frame(shape, result.shape, before, IntImm(0)),
    )


def _chosen(node: Expr, extents: Mapping[Var, int]) -> Expr | None:
    """The side of a choice that the extents decide."""
    match node:
        case Select(Compare("<" | ">=" as op, index, IntImm(number)), true, false):
            limits = bounds(index, extents)
            if limits is not None and (limits[1] < number or limits[0] >= number):
                return true if (limits[1] < number) == (op == "<") else false
    return None
