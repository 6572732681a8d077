"""Keeps a layer's wide results in the accumulators for the layer behind it.

A residual stream is stored as rows of accumulators, and the norm behind it loads the same rows
again. Where a buffer of the second layer holds exactly what buffers of the first one stored, they
become one buffer: its LOADs disappear, and the second layer's work on a tile can begin as soon as
the tile is computed. The STOREs stay, since other layers may read the tensor.

Before::

    ALU    P = ...
    STORE  sum[0:25] = P
    LOAD   C[0:25] = sum[0:25]
    ALU    C = C - mean

After::

    ALU    C[0:25] = ...
    STORE  sum[0:25] = C[0:25]
    ALU    C = C - mean

Input and output: the instructions of two layers in program order.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.segment import Instance, Runs, SegmentInstruction, overlap
from daedal.compiler.link.memory_plan import Alias
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["forward_rows"]

_PADS = ("pad_top", "pad_bottom", "pad_left", "pad_right")

Items = Sequence[SegmentInstruction]


class _Row(NamedTuple):
    """Where a row of memory is on chip: in a row of `instance`, since instruction `number`."""

    instance: Instance
    row: int
    number: int


class _Part(NamedTuple):
    """The rows that an instance of the first layer takes in `whole`, from `offset` on."""

    whole: Instance
    offset: int


def forward_rows(
    first: Items, second: Items, variant: Variant, aliases: Mapping[str, Alias]
) -> tuple[list[SegmentInstruction], list[SegmentInstruction]] | None:
    """Both layers, on the same buffers where that is possible; None where it nowhere is."""
    shared = {a.instance for item in first for a in item.rows}
    if any(access.instance in shared for item in second for access in item.rows):
        return None
    addresses = _Addresses(variant, aliases)
    stored = _stored(first, addresses)
    parts: dict[Instance, _Part] = {}
    kept: set[int] = set()
    for whole, loads in _loaded(second).items():
        found = _parts(whole, loads, second, stored, addresses)
        if found and not any(instance in parts for instance in found):
            parts |= found
            kept.update(loads)
    if not parts:
        return None
    rewritten = [_rewritten(item, parts) for item in first]
    if any(item is None for item in rewritten):
        return None
    return (
        [item for item in rewritten if item is not None],
        [item for number, item in enumerate(second) if number not in kept],
    )


class _Addresses:
    """The memory addresses of the rows that a transfer of accumulators moves."""

    def __init__(self, variant: Variant, aliases: Mapping[str, Alias]) -> None:
        self._row_beats = scratchpad(variant, Memory.ACC).row_beats(variant)
        self._bus_bytes = variant.bus_bytes
        self._aliases = aliases

    def of(self, item: SegmentInstruction) -> tuple[str, list[int]]:
        """(group, bus words): one for each row, in their order on chip."""
        get = item.template.values.get
        assert item.tensor is not None, "a transfer has a tensor"
        alias = self._aliases.get(item.tensor, Alias(item.tensor, 0))
        begin = get("offset_beats", 0) + alias.offset_bytes // self._bus_bytes
        extents = (get("blocks", 0), get("rows", 0), get("cols", 0))
        steps = (get("block_stride_beats", 0), get("row_stride_beats", 0), self._row_beats)
        words: npt.NDArray[np.int64] = np.full((1, 1, 1), begin)
        for axis, (extent, step) in enumerate(zip(extents, steps, strict=True)):
            shape = [-1 if axis == dim else 1 for dim in range(len(extents))]
            words = words + (np.arange(extent) * step).reshape(shape)
        return alias.group, words.ravel().tolist()


def _stored(first: Items, addresses: _Addresses) -> dict[tuple[str, int], _Row]:
    """By address, the rows of accumulators that are stored whole and not written afterwards."""
    last_write: dict[Instance, int] = {}
    for number, item in enumerate(first):
        for access in item.rows:
            if access.writes:
                last_write[access.instance] = number
    found: dict[tuple[str, int], _Row] = {}
    for number, item in enumerate(first):
        if item.unit is not Unit.STORE or item.tensor is None:
            continue
        (access,) = item.rows
        if access.instance.memory is not Memory.ACC or last_write[access.instance] > number:
            continue
        group, words = addresses.of(item)
        row = item.template.values.get("row", 0)
        for place, word in enumerate(words):
            found[group, word] = _Row(access.instance, row + place, number)
    return found


def _loaded(second: Items) -> dict[Instance, list[int]]:
    """By instance of the accumulators, its LOADs, which load wide elements and nothing else."""
    found: dict[Instance, list[int]] = {}
    others: set[Instance] = set()
    for number, item in enumerate(second):
        if item.unit is not Unit.LOAD:
            continue
        for access in item.rows:
            get = item.template.values.get
            wide = get("memory", 0) == LoadMemory.ACC and not any(get(pad, 0) for pad in _PADS)
            if wide:
                found.setdefault(access.instance, []).append(number)
            else:
                others.add(access.instance)
    return {instance: loads for instance, loads in found.items() if instance not in others}


def _parts(
    whole: Instance,
    loads: Sequence[int],
    second: Items,
    stored: Mapping[tuple[str, int], _Row],
    addresses: _Addresses,
) -> dict[Instance, _Part] | None:
    """The instances of the first layer that can be parts of `whole`, which `loads` fill."""
    if _is_used_before(whole, loads, second):
        return None
    rows: dict[Instance, dict[int, int]] = {}
    for number in loads:
        item = second[number]
        group, words = addresses.of(item)
        row = item.template.values.get("row", 0)
        for place, word in enumerate(words):
            source = stored.get((group, word))
            if source is None:
                return None
            rows.setdefault(source.instance, {})[source.row] = row + place
    found = {}
    for instance, places in rows.items():
        offsets = {place - row for row, place in places.items()}
        if len(offsets) > 1 or len(places) != instance.rows:
            return None
        found[instance] = _Part(whole, offsets.pop())
    return found


def _is_used_before(whole: Instance, loads: Sequence[int], second: Items) -> bool:
    """Whether an instruction touches rows of `whole` before they are loaded, or after one LOAD
    another one loads them again."""
    touched: list[Runs] = []
    for number, item in enumerate(second[: max(loads) + 1]):
        for access in item.rows:
            if access.instance is not whole:
                continue
            if number in loads and any(overlap(access.runs, runs) for runs in touched):
                return True
            touched.append(access.runs)
    return False


def _rewritten(
    item: SegmentInstruction, parts: Mapping[Instance, _Part]
) -> SegmentInstruction | None:
    """`item` with parts of larger instances in the place of its own; None if one field numbers the
    rows of two instances, which must not move apart."""
    moved = {access.field: access.instance for access in item.rows if access.instance in parts}
    if not moved:
        return item
    values = dict(item.template.values)
    rows = []
    for field, instance in moved.items():
        if any(a.field == field and a.instance is not instance for a in item.rows):
            return None
        values[field] = values.get(field, 0) + parts[instance].offset
    for access in item.rows:
        part = parts.get(access.instance)
        if part is not None:
            runs = tuple(_shifted(access.runs, part.offset))
            access = access._replace(instance=part.whole, runs=runs)
        rows.append(access)
    template = item.template.replace(**{field: values[field] for field in moved})
    return item._replace(template=template, rows=tuple(rows))


def _shifted(runs: Runs, offset: int) -> Iterator[tuple[int, int]]:
    return ((begin + offset, end + offset) for begin, end in runs)
