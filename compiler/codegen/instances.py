"""Which part of a buffer is on chip now, and at which rows of which instance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler.codegen.segment import Instance
from daedal.compiler.tir.expr import Buffer
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["MEMORIES", "ROW_DIMS", "Live", "LiveBuffer", "check_rows", "dense_strides", "row_shape"]

MEMORIES = {
    "inp": Memory.INP,
    "wgt": Memory.WGT,
    "acc": Memory.ACC,
    "out": Memory.OUT,
    "par": Memory.PAR,
}
"""Scratchpad by memory scope."""

ROW_DIMS = 2
"""Trailing dimensions of a buffer that are one scratchpad row."""


def row_shape(variant: Variant, memory: Memory) -> tuple[int, ...]:
    """What the trailing dimensions of a buffer in `memory` must be."""
    shape = scratchpad(variant, memory).shape
    return (*shape, 3) if memory is Memory.PAR else shape


@dataclass(frozen=True)
class LiveBuffer:
    """A buffer's window on chip: logical coordinates of its first element, and its extents."""

    instance: Instance
    origin: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def strides(self) -> tuple[int, ...]:
        """Rows from one element to the next, per leading dimension."""
        return dense_strides(self.shape[:-ROW_DIMS])


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements of the last dimension."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def check_rows(variant: Variant, buffer: Buffer, shape: Sequence[int]) -> None:
    """Raise ScheduleError unless the trailing dimensions are one row of the buffer's scratchpad."""
    wanted = row_shape(variant, MEMORIES[buffer.scope])
    if tuple(shape[-ROW_DIMS:]) != wanted:
        raise ScheduleError(
            f"the last dimensions of a buffer in scope {buffer.scope!r} must be one scratchpad "
            f"row, {list(wanted)}, not {list(shape[-ROW_DIMS:])} (buffer {buffer.name!r})"
        )


Live = Mapping[Buffer, LiveBuffer]
"""Everything on chip at one point of the emission."""
