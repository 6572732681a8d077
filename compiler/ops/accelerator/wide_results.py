"""Where the results of a scheduled function are on chip, and what they take in memory.

Results of 8 bits are in OUT. Wide ones (`daedal.compiler.ops.requantize.Bounds`) stay in the
accumulators, and have the rows of these in memory, as wide operands have.
"""

import numpy as np

from daedal.compiler.codegen.intrinsics import REQUANTIZE_WIDE
from daedal.compiler.graph.window_extents import Extent
from daedal.compiler.ops.accelerator.tiles.capacity import Capacity
from daedal.compiler.ops.requantize import WIDE_DTYPE
from daedal.compiler.schedule.edit import find_site
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.expr import Buffer, Cast
from daedal.compiler.tir.stmt import BufferStore, PrimFunc

__all__ = ["narrow_vectors", "result_intrin", "result_rows", "result_scope", "stage_intrin"]

_WIDE_VECTORS = np.dtype(WIDE_DTYPE).itemsize


def narrow_vectors(buffer: Buffer) -> int:
    """Vectors of 8 bits that take as many bytes in memory as one of this map."""
    return _WIDE_VECTORS if buffer.dtype == WIDE_DTYPE else 1


def result_scope(func: PrimFunc) -> str:
    """The scratchpad of the function's result."""
    return "acc" if func.outputs[0].dtype == WIDE_DTYPE else "out"


def result_rows(capacity: Capacity, stored: Extent) -> Extent:
    """Rows for results, of which each takes `stored` vectors of 8 bits in memory.

    Wide results replace the accumulators that they are requantized from.
    """
    return np.where(np.greater(stored, 1), capacity.acc, capacity.out)


def result_intrin(sch: Schedule) -> str:
    """The intrinsic that requantizes accumulators to the function's result."""
    return REQUANTIZE_WIDE if _written(sch, "y").scope == "acc" else "requantize"


def stage_intrin(sch: Schedule, name: str) -> str:
    """The intrinsic of a stage that requantizes accumulators for the stages after it."""
    store = find_site(sch.bare, name).block.body
    assert isinstance(store, BufferStore), "a stage is one store"
    return "requantize_widen" if isinstance(store.value, Cast) else REQUANTIZE_WIDE


def _written(sch: Schedule, name: str) -> Buffer:
    (region,) = find_site(sch.bare, name).block.writes
    return region.buffer
