"""`row_groups`: tensors of rows that one kernel computes, row by row; `rows_together`: how many
side by side.

A softmax is a maximum, exponents, their sum and a product. Each row of these is short enough for
the cache, so it is computed from begin to end before the next one, and the exponents are never
stored::

    for i in 1024:
        m = max(x[i, k], k); e[j] = exp(x[i, j] - m); s = sum(e[k], k); y[i, j] = e[j] / s
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heappop, heappush

from daedal.compiler import te
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.cpu.lanes import row_lanes
from daedal.compiler.tir.expr import Axis, Buffer, Expr, IntImm, Load, Reduce
from daedal.compiler.tir.visit import free_vars, loads

__all__ = ["row_groups", "rows_together"]

MOST_BYTES = 1 << 16
"""Of the rows that are kept: what the first two levels of any cache hold."""
MOST_STAGES = 8
"""Of a kernel: a norm has five, and the time to compile a kernel grows faster than its stages."""

SHORTEST, SHORT = 1 << 6, 1 << 10
"""Bytes of a row: one vector, or few. Longer rows are fetched ahead instead (`next_row`)."""


def row_groups(
    formulas: Mapping[te.Tensor, Expr],
    readers: Mapping[Buffer, Sequence[te.Tensor]],
    apart: Collection[Buffer],
    *,
    lanes: bool = True,
) -> dict[te.Tensor, tuple[te.Tensor, ...]]:
    """Stages by the tensor that they are computed for, in the order of `formulas`.

    Parameters
    ----------
    formulas : of all tensors that would be in memory, each behind those that it reads.
    readers : among these.
    apart : those that must be in memory, or are computed with a reduction of another kind.
    lanes : whether vectors must suit a reduction.
    """
    found: dict[te.Tensor, tuple[te.Tensor, ...]] = {}
    taken = set[te.Tensor]()
    order = list(formulas)
    places = {tensor: place for place, tensor in enumerate(order)}
    for result in reversed(order):
        if result in taken or not _is_row(result, formulas[result], result):
            continue

        def joins(
            tensor: te.Tensor, group: Collection[te.Tensor], result: te.Tensor = result
        ) -> bool:
            return (
                tensor not in taken
                and tensor not in apart
                and all(reader in group for reader in readers[tensor])
                and _is_stage(tensor, formulas[tensor], result, lanes)
                and all(_reads_own_row(formulas[reader], reader, tensor) for reader in group)
            )

        stages = _stages(result, formulas, order, places, joins)
        kept = sum(math.prod(item.shape[-1:]) * ELEMENT_BYTES[item.dtype] for item in stages)
        if len(stages) > 1 and kept <= MOST_BYTES and _reduces(stages, formulas):
            found[result] = stages
            taken.update((result, *stages))
    return found


def _stages(
    result: te.Tensor,
    formulas: Mapping[te.Tensor, Expr],
    order: Sequence[te.Tensor],
    places: Mapping[te.Tensor, int],
    joins: Callable[[te.Tensor, Collection[te.Tensor]], bool],
) -> tuple[te.Tensor, ...]:
    """What joins the kernel of `result`, in order; the last tensors are asked first."""
    group, reached, waiting = {result}, {result}, list[int]()
    last = result
    while len(group) <= MOST_STAGES:
        if last in group:
            for source in {load.buffer for load in loads(_value(formulas[last]))}:
                if isinstance(source, te.Tensor) and source in places and source not in reached:
                    reached.add(source)
                    heappush(waiting, -places[source])
        if not waiting:
            break
        last = order[-heappop(waiting)]
        if joins(last, group):
            group.add(last)
    return tuple(sorted(group - {result}, key=places.__getitem__))


def _value(formula: Expr) -> Expr:
    return formula.value if isinstance(formula, Reduce) else formula


def _reduces(stages: Sequence[te.Tensor], formulas: Mapping[te.Tensor, Expr]) -> bool:
    return any(isinstance(formulas[item], Reduce) for item in stages)


def _is_row(tensor: te.Tensor, formula: Expr, result: te.Tensor) -> bool:
    """Whether a tensor has rows of elements that are computed one by one, as many as `result`."""
    return (
        not isinstance(formula, Reduce)
        and len(tensor.shape) == len(result.shape) > 1
        and tensor.shape[:-1] == result.shape[:-1]
    )


def _is_stage(tensor: te.Tensor, formula: Expr, result: te.Tensor, lanes: bool) -> bool:
    """Whether a tensor is computed row by row: elements of a row, or a reduction of one."""
    if not isinstance(formula, Reduce):
        return _is_row(tensor, formula, result)
    return (
        tensor.shape == (*result.shape[:-1], 1)
        and len(formula.axes) == 1
        and all(_along(load, formula.axes[0]) for load in loads(formula.value))
        and not (lanes and row_lanes(_with(tensor, formula)) == 1)
    )


def _with(tensor: te.Tensor, formula: Reduce) -> te.Tensor:
    return te.Tensor(tensor.name, tensor.shape, tensor.dtype, "global", tensor.axes, formula)


def _along(load: Load, axis: Axis) -> bool:
    """Whether only the last index moves along `axis`."""
    return load.pad_value is None and all(axis not in free_vars(i) for i in load.indices[:-1])


def _reads_own_row(formula: Expr, reader: te.Tensor, source: te.Tensor) -> bool:
    """Whether all that `reader` reads of `source` is in the row that has its own number."""
    read = [load for load in loads(_value(formula)) if load.buffer is source]
    return all(
        load.pad_value is None
        and all(
            index is axis or (axis.extent == 1 and index == IntImm(0))
            for index, axis in zip(load.indices[:-1], reader.axes[:-1], strict=True)
        )
        for load in read
    )


def rows_together(result: te.Tensor, stages: Sequence[te.Tensor]) -> int:
    """How many rows are computed side by side.

    A row is a chain: its lanes are reduced in steps that wait for each other. A processor reaches
    the next short row before the end of this one only if its instructions are mixed.
    """
    row = max(tensor.shape[-1] * ELEMENT_BYTES[tensor.dtype] for tensor in (*stages, result))
    wanted = (4, 2, 3) if row <= SHORTEST else (2, 3) if row < SHORT else ()
    return next((count for count in wanted if result.shape[-2] % count == 0), 1)
