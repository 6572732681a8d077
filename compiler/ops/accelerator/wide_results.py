"""Where the results of a scheduled function are on chip, and what they take in memory.

Results of 8 bits are in OUT. Wide ones (`daedal.compiler.ops.requantize.Bounds`) stay in the
accumulators, and have the rows of these in memory, as wide operands have.
"""

from daedal.compiler.codegen.intrinsics import REQUANTIZE_WIDE, accumulator_dtype
from daedal.compiler.schedule.edit import find_site
from daedal.compiler.schedule.schedule import Schedule
from daedal.compiler.tir.expr import Buffer, Cast
from daedal.compiler.tir.stmt import BufferStore, PrimFunc
from daedal.isa.scratchpad import Memory, Scratchpad, scratchpad
from daedal.isa.variant import Variant

__all__ = [
    "is_wide",
    "result_intrin",
    "result_pad",
    "result_scope",
    "row_beats",
    "row_bytes",
    "stage_intrin",
]


def is_wide(buffer: Buffer, variant: Variant) -> bool:
    """Whether the elements of a map are those of accumulators."""
    return buffer.dtype == accumulator_dtype(variant)


def result_scope(func: PrimFunc, variant: Variant) -> str:
    """The scratchpad of the function's result."""
    return "acc" if is_wide(func.outputs[0], variant) else "out"


def result_pad(func: PrimFunc, variant: Variant) -> Scratchpad:
    """The same, with its rows."""
    return scratchpad(variant, Memory.ACC if is_wide(func.outputs[0], variant) else Memory.OUT)


def row_bytes(buffer: Buffer, variant: Variant) -> int:
    """Bytes in memory of a vector of a map."""
    return scratchpad(variant, Memory.ACC if is_wide(buffer, variant) else Memory.OUT).row_bytes


def row_beats(buffer: Buffer, variant: Variant) -> int:
    """Bus words of a vector of a map."""
    return row_bytes(buffer, variant) // variant.bus_bytes


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
