"""Passes that remove work our machine does not need: resets and copies to the output buffer.

Both preserve what every STORE writes. Dead accumulators may have other values afterwards.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from daedal.isa.numerics import IntArray
from daedal.isa.table import AluOp, OutMemory
from daedal.isa.vta.operations import (
    Move,
    Multiply,
    Nest,
    Operation,
    Vector,
    acc_reads,
    acc_writes,
)
from daedal.isa.vta.pieces import Limits

__all__ = ["fold_resets", "redirect_results"]


def fold_resets(
    operations: Sequence[Operation], depth_rows: int, limits: Limits
) -> list[Operation]:
    """Fold a reset into the products that follow, if they accumulate into all of its rows next.

    Before: ``MOV acc[0:4], 0; GEMM acc[0:4] += ...``. After: ``GEMM acc[0:4] = ...``. Products that
    `limits` would split into several instructions are left unchanged.
    """
    result: list[Operation | None] = list(operations)
    owner = np.full(depth_rows, -1, dtype=np.int64)  # the reset whose zero a row still holds
    sizes: dict[int, int] = {}
    for number, item in enumerate(operations):
        touched = np.unique(np.concatenate([acc_reads(item), acc_writes(item)]))
        owners = np.unique(owner[touched])
        reset = int(owners[0]) if len(owners) == 1 else -1
        if reset >= 0 and isinstance(item, Multiply) and len(touched) == sizes[reset]:
            first = _first_products(item.nest) if limits.fits(item.nest) else None
            if first is not None:
                result[number] = Multiply(item.nest, first)
                result[reset] = None
        owner[np.isin(owner, owners[owners >= 0])] = -1
        if isinstance(item, Vector) and item.operation is AluOp.MOV and item.immediate == 0:
            owner[touched] = number
            sizes[number] = len(touched)
    return [item for item in result if item is not None]


def _first_products(nest: Nest) -> IntArray | None:
    """Flags of the micro-ops under which exactly the first product of each row overwrites."""
    rows = nest.rows("acc")
    occurs_first = np.zeros(len(rows), dtype=bool)
    occurs_first[np.unique(rows, return_index=True)[1]] = True
    flags = occurs_first.reshape(*nest.extents, nest.num_uops)
    first = flags[0, 0]
    overwrites = np.broadcast_to(first, flags.shape).copy()
    if nest.factors["acc"][0] == 0:
        overwrites[1:] = False
    if nest.factors["acc"][1] == 0:
        overwrites[:, 1:] = False
    return first.astype(np.int64) if np.array_equal(overwrites, flags) else None


def redirect_results(operations: Sequence[Operation], depth_rows: int) -> list[Operation]:
    """Let a vector operation write OUT where only STOREs read its results.

    Before: ``MIN acc[0:4], 127; STORE acc[0:4]``, which takes a pass that copies to OUT.
    After: ``MIN out[0:4], acc[0:4], 127; STORE out[0:4]``.
    """
    result = list(operations)
    needed = np.zeros(depth_rows, dtype=bool)  # accumulators whose value is read later
    for number in range(len(result) - 1, -1, -1):
        item = result[number]
        written = acc_writes(item)
        if isinstance(item, Vector) and _redirectable(item) and not needed[written].any():
            result[number] = replace(item, destination=OutMemory.OUT)
        needed[written] = False
        if not isinstance(item, Move):
            needed[acc_reads(item)] = True
    return result


def _redirectable(item: Vector) -> bool:
    """Whether no vector of the operation reads what another one of it writes."""
    if item.operation is AluOp.MUL:
        return False
    dst, src = item.nest.rows("dst"), item.nest.rows("src")
    if len(np.unique(dst)) < len(dst):
        return False
    reads = np.zeros(int(max(dst.max(), src.max())) + 1, dtype=bool)
    # A vector may read its own destination: it does so before it writes.
    reads[src[src != dst]] = True
    return not reads[dst].any()
