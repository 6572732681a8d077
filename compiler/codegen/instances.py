"""The part of a buffer that is on chip, and its instance and rows."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from daedal.common.errors import ScheduleError
from daedal.compiler.codegen.segment import Instance
from daedal.compiler.codegen.vectors import group_pitch, num_rows, run_of_groups
from daedal.compiler.tir.expr import Buffer
from daedal.compiler.tir.stmt import Range, Value
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode
from daedal.isa.variant import Variant

__all__ = [
    "MEMORIES",
    "ROW_DIMS",
    "Live",
    "LiveBuffer",
    "dense_strides",
    "embedded",
    "live_buffer",
    "row_shape",
]

MEMORIES = {
    "inp": Memory.INP,
    "wgt": Memory.WGT,
    "acc": Memory.ACC,
    "out": Memory.OUT,
    "par": Memory.PAR,
    "tab": Memory.TAB,
}
"""Scratchpad by memory scope."""

ROW_DIMS = 2
"""Trailing dimensions of a buffer that are one scratchpad row."""


def row_shape(variant: Variant, memory: Memory) -> tuple[int, ...]:
    """The required trailing dimensions of a buffer in `memory`."""
    shape = scratchpad(variant, memory).shape
    if memory is Memory.TAB:
        return (1, *shape)
    return (*shape, 3) if memory is Memory.PAR else shape


class LiveBuffer(NamedTuple):
    """A buffer's window on chip: logical coordinates of its first element, and its extents.

    Parameters
    ----------
    vectors : channel vectors per weight row, if positions in the instance count vectors (weights of
        the depthwise modes); 0 if they count rows.
    start : position of the first element.
    window : the expressions that `origin` is computed from, if the function allocates the buffer.
    pitches : distance in positions between adjacent elements, per leading dimension; empty if the
        buffer is dense.
    """

    instance: Instance
    origin: tuple[int, ...]
    shape: tuple[int, ...]
    vectors: int = 0
    start: int = 0
    window: tuple[Range, ...] = ()
    pitches: tuple[int, ...] = ()

    @property
    def strides(self) -> tuple[int, ...]:
        """Distance in positions between adjacent elements, per leading dimension."""
        if self.pitches:
            return self.pitches
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
    variant: Variant,
    buffer: Buffer,
    origin: tuple[int, ...],
    shape: tuple[int, ...],
    notes: Mapping[str, Value] = MappingProxyType({}),
) -> LiveBuffer:
    """The window of a buffer in an instance of its own; `notes` are those of its allocation.

    Raises
    ------
    ScheduleError
        The trailing dimensions are not one row of the buffer's scratchpad, or an alignment is not a
        number of rows.
    """
    memory = MEMORIES[buffer.scope]
    wanted = row_shape(variant, memory)
    if shape[-ROW_DIMS:] == wanted:
        pitches = aligned_strides(buffer.name, shape, notes)
        rows = shape[0] * pitches[0] if pitches else 1
        return LiveBuffer(Instance(buffer.name, memory, rows), origin, shape, pitches=pitches)
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


def aligned_strides(name: str, shape: Sequence[int], notes: Mapping[str, Value]) -> tuple[int, ...]:
    """Row-major strides in rows, each as `Schedule.storage_align` asks for."""
    row = math.prod(shape[-ROW_DIMS:])
    strides: list[int] = []
    step = 1
    for dim in reversed(range(len(shape) - ROW_DIMS)):
        note = notes.get(f"align_{dim}")
        if note is not None:
            factor, offset = (int(part) for part in str(note).split("n+"))
            if factor % row or offset % row:
                raise ScheduleError(
                    f"storage_align needs a factor and an offset of whole rows of {row} elements, "
                    f"not {factor} and {offset} (buffer {name!r})"
                )
            step += (offset // row - step) % (factor // row)
        strides.append(step)
        step *= shape[dim]
    return tuple(reversed(strides))


def embedded(
    held: LiveBuffer, owner: LiveBuffer, strides: Sequence[int], offsets: Sequence[int]
) -> LiveBuffer:
    """`held` in the rows of `owner`: its element i is element ``strides * i + offsets`` there."""
    start = owner.start
    pitches = []
    parts = zip(held.origin, owner.origin, owner.strides, strides, offsets, strict=False)
    for first, origin, pitch, stride, offset in parts:
        start += (first * stride + offset - origin) * pitch
        pitches.append(stride * pitch)
    return held._replace(instance=owner.instance, start=start, pitches=tuple(pitches))


def _holds_vectors(variant: Variant, shape: tuple[int, ...]) -> bool:
    """Whether the trailing dimensions are the taps of a product in a depthwise mode."""
    taps = {mode.taps for mode in GemmMode.of(variant) if mode.taps}
    return shape[-ROW_DIMS] in taps and shape[-1] == variant.array.block_in


Live = Mapping[Buffer, LiveBuffer]
"""Everything on chip at one point of the emission."""
