"""Buffers of accumulators as parts of larger ones, and the memory addresses of their rows.

`forward_rows` and `resident_rows` join buffers of several layers with these.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.segment import Instance, Runs, SegmentInstruction
from daedal.compiler.link.memory_plan import Alias
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, OutMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["Part", "RowAddresses", "is_wide_load", "is_wide_store", "rewritten", "shifted"]

_PADS = ("pad_top", "pad_bottom", "pad_left", "pad_right")


class Part(NamedTuple):
    """The rows that an instance takes in `whole`, from `offset` on."""

    whole: Instance
    offset: int


class RowAddresses:
    """The memory addresses of the rows that a transfer of accumulators moves."""

    def __init__(self, variant: Variant, aliases: Mapping[str, Alias]) -> None:
        self.row_beats = scratchpad(variant, Memory.ACC).row_beats(variant)
        self._bus_bytes = variant.bus_bytes
        self._aliases = aliases

    def of(self, item: SegmentInstruction) -> tuple[str, list[int]]:
        """(group, bus words): one for each row, in their order on chip."""
        get = item.template.values.get
        assert item.tensor is not None, "a transfer has a tensor"
        alias = self._aliases.get(item.tensor, Alias(item.tensor, 0))
        begin = get("offset_beats", 0) + alias.offset_bytes // self._bus_bytes
        extents = (get("blocks", 0), get("rows", 0), get("cols", 0))
        steps = (get("block_stride_beats", 0), get("row_stride_beats", 0), self.row_beats)
        words: npt.NDArray[np.int64] = np.full((1, 1, 1), begin)
        for axis, (extent, step) in enumerate(zip(extents, steps, strict=True)):
            shape = [-1 if axis == dim else 1 for dim in range(len(extents))]
            words = words + (np.arange(extent) * step).reshape(shape)
        return alias.group, words.ravel().tolist()


def is_wide_load(item: SegmentInstruction) -> bool:
    """Whether it loads whole rows of accumulators, and no padding."""
    get = item.template.values.get
    wide = item.unit is Unit.LOAD and get("memory", 0) == LoadMemory.ACC
    return wide and not any(get(pad, 0) for pad in _PADS)


def is_wide_store(item: SegmentInstruction) -> bool:
    """Whether it stores whole rows of accumulators."""
    return item.unit is Unit.STORE and item.template.values.get("memory", 0) == OutMemory.ACC


def rewritten(
    item: SegmentInstruction, parts: Mapping[Instance, Part]
) -> SegmentInstruction | None:
    """`item` with parts of larger instances in the place of its own; None if one field numbers the
    rows of two instances, which must not move apart."""
    moved = {access.field: access.instance for access in item.rows if access.instance in parts}
    if not moved:
        return item
    values = {}
    rows = []
    for field, instance in moved.items():
        if any(a.field == field and a.instance is not instance for a in item.rows):
            return None
        values[field] = item.template.values.get(field, 0) + parts[instance].offset
    for access in item.rows:
        part = parts.get(access.instance)
        if part is not None:
            access = access._replace(instance=part.whole, runs=shifted(access.runs, part.offset))
        rows.append(access)
    return item._replace(template=item.template.replace(**values), rows=tuple(rows))


def shifted(runs: Runs, offset: int) -> Runs:
    """The same ranges, `offset` further."""
    return tuple((begin + offset, end + offset) for begin, end in runs)
