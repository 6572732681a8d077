"""Buffers as parts of larger ones, and the memory addresses of their rows.

`forward_rows`, `resident_rows` and `kept_results` join buffers of several layers with these.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, starmap
from typing import NamedTuple

from daedal.compiler.codegen.segment import (
    Instance,
    RowAccess,
    Runs,
    SegmentInstruction,
    shifted,
)
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, OutMemory, Unit
from daedal.isa.variant import Variant

__all__ = [
    "LoadedRows",
    "Part",
    "RowAddresses",
    "is_wide_load",
    "is_wide_store",
    "rewritten",
    "rows_accessed",
    "rows_of",
    "stored_rows",
]


class Part(NamedTuple):
    """The rows that an instance takes in `whole`, from `offset` on."""

    whole: Instance
    offset: int


class RowAddresses:
    """The memory addresses of the rows of a scratchpad that a transfer moves."""

    def __init__(
        self, variant: Variant, aliases: Mapping[str, Alias], memory: Memory = Memory.ACC
    ) -> None:
        self.row_beats = scratchpad(variant, memory).row_beats(variant)
        self._bus_bytes = variant.bus_bytes
        self._aliases = aliases

    def group(self, item: SegmentInstruction) -> Alias:
        """The group of tensors that share bytes, and the offset in it."""
        assert item.tensor is not None, "a transfer has a tensor"
        return self._aliases.get(item.tensor, Alias(item.tensor, 0))

    def of(self, item: SegmentInstruction) -> tuple[str, tuple[int, ...]]:
        """(group, bus words): one for each row, in their order on chip."""
        get = item.template.values.get
        alias = self.group(item)
        begin = get("offset_beats", 0) + alias.offset_bytes // self._bus_bytes
        extents = (get("blocks", 0), get("rows", 0), get("cols", 0))
        steps = (get("block_stride_beats", 0), get("row_stride_beats", 0), self.row_beats)
        return alias.group, _box(begin, extents, steps)


@dataclass(frozen=True)
class LoadedRows:
    """Where the rows of a LOAD lie on chip.

    Parameters
    ----------
    first : the first row that is not padding.
    extents : planes, rows of memory in a plane, scratchpad rows in a row of memory.
    steps : scratchpad rows from one of these to the next; there is padding between them.
    """

    first: int
    extents: tuple[int, int, int]
    steps: tuple[int, int, int]

    @classmethod
    def of(cls, load: SegmentInstruction) -> "LoadedRows":
        """Those of a LOAD, or of a STORE, which has no padding."""
        get = load.template.values.get
        extents = (get("blocks", 0), get("rows", 0), get("cols", 0))
        width = get("pad_left", 0) + extents[2] + get("pad_right", 0)
        height = get("pad_top", 0) + extents[1] + get("pad_bottom", 0)
        first = get("row", 0) + get("pad_top", 0) * width + get("pad_left", 0)
        return cls(first, extents, (height * width, width, 1))

    @property
    def rows(self) -> tuple[int, ...]:
        """All of them, in the order of memory."""
        return _box(self.first, self.extents, self.steps)

    @property
    def runs(self) -> Runs:
        """The same as ranges, one for each row of memory."""
        blocks, rows, cols = self.extents
        begins = (
            self.first + block * self.steps[0] + row * self.steps[1]
            for block in range(blocks)
            for row in range(rows)
        )
        return tuple((begin, begin + cols) for begin in begins)


@lru_cache(maxsize=256)
def _box(first: int, extents: tuple[int, int, int], steps: tuple[int, int, int]) -> tuple[int, ...]:
    """Numbers from `first` on in three loops of these steps, outermost first: many transfers of a
    layer have the same."""
    planes, lines, cols = (
        range(0, extent * step, step) if step else [0] * extent
        for extent, step in zip(extents, steps, strict=True)
    )
    return tuple([first + plane + line + col for plane in planes for line in lines for col in cols])


def is_wide_load(item: SegmentInstruction) -> bool:
    """Whether it loads whole rows of accumulators."""
    return item.unit is Unit.LOAD and item.template.values.get("memory", 0) == LoadMemory.ACC


def rows_of(access: RowAccess) -> set[int]:
    """The rows of an access."""
    return set(chain.from_iterable(starmap(range, access.runs)))


def rows_accessed(
    items: Iterable[SegmentInstruction], among: Collection[Instance], *, reads: bool = False
) -> dict[Instance, set[int]]:
    """The rows that instructions access of some instances; with `reads`, those that they read."""
    found: dict[Instance, set[int]] = {instance: set() for instance in among}
    for item in items:
        for access in item.rows:
            if access.instance in found and (access.reads or not reads):
                found[access.instance] |= rows_of(access)
    return found


def stored_rows(
    items: Sequence[SegmentInstruction],
    stores: Sequence[SegmentInstruction],
    addresses: RowAddresses,
    *,
    others: bool = False,
) -> dict[Instance, dict[int, int]] | None:
    """By instance that some of a layer's instructions, `stores`, store, the row of each word of
    memory; None if an instance is written again, or unless `others` has other rows, too."""
    places: dict[Instance, dict[int, int]] = {}
    for item in stores:
        (access,) = item.rows
        _, words = addresses.of(item)
        rows = zip(words, LoadedRows.of(item).rows, strict=True)
        places.setdefault(access.instance, {}).update(rows)
    stored = {id(item) for item in stores}
    done: set[Instance] = set()
    for item in items:
        if any(access.writes and access.instance in done for access in item.rows):
            return None
        if id(item) in stored:
            done.update(access.instance for access in item.rows)
    if others:
        return places
    touched = rows_accessed(items, places)
    known = all(touched[part] <= set(rows.values()) for part, rows in places.items())
    return places if known else None


def is_wide_store(item: SegmentInstruction) -> bool:
    """Whether it stores whole rows of accumulators."""
    return item.unit is Unit.STORE and item.template.values.get("memory", 0) == OutMemory.ACC


def rewritten(
    item: SegmentInstruction, parts: Mapping[Instance, Part], only: str | None = None
) -> SegmentInstruction | None:
    """`item` with parts of larger instances in the place of its own, for all fields or for one;
    None if one field numbers the rows of two instances, which must not move apart."""
    moved = {
        access.field: access.instance
        for access in item.rows
        if access.instance in parts and only in (None, access.field)
    }
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
        if part is not None and access.field in moved:
            access = access._replace(instance=part.whole, runs=shifted(access.runs, part.offset))
        rows.append(access)
    return item._replace(template=item.template.replace(**values), rows=tuple(rows))
