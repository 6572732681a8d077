"""`vector_lanes`: how many neighbouring results a thread computes, as it loads 16 bytes at once.

    y[h, w, c] = sum(x[h + i, w + j, c] * k[i, j, c], i, j)

Channels follow each other in all three, so four of float32 are one load each.
"""

import math
from collections.abc import Iterable

from daedal.compiler import te
from daedal.compiler.codegen.llvm.scalars import ELEMENT_BYTES
from daedal.compiler.tir.expr import Axis, Load
from daedal.compiler.tir.linear import accessed_element
from daedal.compiler.tir.visit import free_vars, loads

__all__ = ["vector_lanes"]

VECTOR_BYTES = 16
MOST_LANES = 8
FEWEST_THREADS = 1 << 13
"""With fewer, more threads with less to do each are faster, assumed."""


def vector_lanes(result: te.Tensor, reduction: te.Tensor | None = None) -> int:
    """Results of a thread along the last axis, a power of two; 1 where some elements that it reads
    do not follow each other, or where there would be few threads."""
    tensors = [result] if reduction is None else [result, reduction]
    widest = max(ELEMENT_BYTES[item.dtype] for item in _buffers(tensors))
    lanes = min(VECTOR_BYTES // widest, MOST_LANES)
    if math.prod(result.shape) < FEWEST_THREADS * lanes or result.shape[-1] % lanes:
        return 1
    for tensor in tensors:
        assert tensor.value is not None
        last = tensor.axes[-1]
        for load in loads(tensor.value):
            if load.buffer is not reduction and not _follows(load, last, lanes):
                return 1
    return lanes


def _buffers(tensors: Iterable[te.Tensor]) -> list[te.Tensor | Load]:
    found: list[te.Tensor | Load] = list(tensors)
    for tensor in tensors:
        assert tensor.value is not None
        found += loads(tensor.value)
    return found


def _follows(load: Load, axis: Axis, lanes: int) -> bool:
    """Whether the elements of all lanes are one, or follow each other from a multiple of `lanes`
    on."""
    form = accessed_element(load)
    if any(axis in free_vars(term) for term, _ in form.terms if term is not axis):
        return False
    step = form.coefficient(axis)
    if step == 0:
        return all(axis not in free_vars(index) for index in load.indices)
    others = (factor for term, factor in form.terms if term is not axis)
    aligned = form.constant % lanes == 0 and all(factor % lanes == 0 for factor in others)
    return step == 1 and aligned and load.indices[-1] == axis
