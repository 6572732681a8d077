"""The part of a buffer that is on chip, and its instance and rows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daedal.compiler.codegen.segment import Instance
from daedal.compiler.codegen.vectors import group_pitch, num_rows, run_of_groups
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.stmt import Range
from daedal.isa.errors import ScheduleError
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode
from daedal.isa.variant import Variant

__all__ = [
    "MEMORIES",
    "ROW_DIMS",
    "Live",
    "LiveBuffer",
    "dense_strides",
    "live_buffer",
    "row_shape",
]

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
    """The required trailing dimensions of a buffer in `memory`."""
    shape = scratchpad(variant, memory).shape
    return (*shape, 3) if memory is Memory.PAR else shape


@dataclass(frozen=True)
class LiveBuffer:
    """A buffer's window on chip: logical coordinates of its first element, and its extents.

    Parameters
    ----------
    vectors : channel vectors per weight row, if positions in the instance count vectors (weights of
        the depthwise modes); 0 if they count rows.
    start : position of the first element.
    window : the expressions that `origin` is computed from, if the function allocates the buffer.
    """

    instance: Instance
    origin: tuple[int, ...]
    shape: tuple[int, ...]
    vectors: int = 0
    start: int = 0
    window: tuple[Range, ...] = ()

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in positions between adjacent elements, per leading dimension."""
        strides = dense_strides(self.shape[:-ROW_DIMS])
        if not self.vectors:
            return strides
        pitch = group_pitch(self.shape[-ROW_DIMS])
        return tuple(pitch * stride for stride in strides)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements of the last dimension."""
    strides = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def live_buffer(
    variant: Variant, buffer: Buffer, origin: tuple[int, ...], shape: tuple[int, ...]
) -> LiveBuffer:
    """The window of a buffer in an instance of its own.

    Raises
    ------
    ScheduleError
        The trailing dimensions are not one row of the buffer's scratchpad.
    """
    memory = MEMORIES[buffer.scope]
    wanted = row_shape(variant, memory)
    if shape[-ROW_DIMS:] == wanted:
        rows = math.prod(shape[:-ROW_DIMS])
        return LiveBuffer(Instance(buffer.name, memory, rows), origin, shape)
    if memory is Memory.WGT and _holds_vectors(variant, shape):
        array, taps = variant.array, shape[-ROW_DIMS]
        pitch = group_pitch(taps)
        first, groups = run_of_groups(buffer.name, buffer.shape[:-1], origin[:-1], shape[:-1])
        start = first * pitch % array.block_out
        rows = num_rows(start // pitch + groups, taps, array.block_out)
        instance = Instance(buffer.name, memory, rows)
        return LiveBuffer(instance, origin, shape, array.block_out, start)
    raise ScheduleError(
        f"the last dimensions of a buffer in scope {buffer.scope!r} must be one scratchpad row, "
        f"{list(wanted)}, not {list(shape[-ROW_DIMS:])} (buffer {buffer.name!r})"
    )


def _holds_vectors(variant: Variant, shape: tuple[int, ...]) -> bool:
    """Whether the trailing dimensions are the taps of a product in a depthwise mode."""
    taps = {mode.taps for mode in GemmMode.of(variant) if mode.taps}
    return shape[-ROW_DIMS] in taps and shape[-1] == variant.array.block_in


Live = Mapping[Buffer, LiveBuffer]
"""Everything on chip at one point of the emission."""
