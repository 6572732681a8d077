"""Keeps a layer's wide results in the accumulators for the layer behind it.

A residual stream is stored as rows of accumulators, and the norm behind it loads the same rows
again. Where a buffer of the second layer holds exactly what buffers of the first one stored, they
become one buffer: its LOADs disappear, and the second layer's work on a tile can begin as soon as
the tile is computed. The STOREs stay, since other layers, or checks, may read the tensor.

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

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from daedal.compiler.codegen.segment import Instance, Runs, SegmentInstruction, overlap
from daedal.compiler.link.on_chip.row_parts import (
    LoadedRows,
    Part,
    RowAddresses,
    is_wide_load,
    is_wide_store,
    rewritten,
    rows_accessed,
)
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["forward_rows"]

Items = Sequence[SegmentInstruction]


class _Row(NamedTuple):
    """Where a row of memory is on chip: in a row of `instance`, since instruction `number`."""

    instance: Instance
    row: int
    number: int


def forward_rows(
    first: Items,
    second: Items,
    variant: Variant,
    aliases: Mapping[str, Alias],
    kept: Collection[Instance] = (),
) -> tuple[list[SegmentInstruction], list[SegmentInstruction]] | None:
    """Both layers, on the same buffers where that is possible; None where it nowhere is.

    Instances in `kept` live across layers: others read them, too, so they stay as they are.
    """
    loaded = _loaded(second)
    addresses = RowAddresses(variant, aliases)
    stored = _stored(first, addresses, kept) if loaded else {}
    parts: dict[Instance, Part] = {}
    needless: set[int] = set()
    for whole, loads in loaded.items():
        found = _parts(whole, loads, first, second, stored, addresses)
        if found and not any(instance in parts for instance in found):
            parts |= found
            needless.update(loads)
    if not parts:
        return None
    moved = [rewritten(item, parts) for item in first]
    if any(item is None for item in moved):
        return None
    return (
        [item for item in moved if item is not None],
        [item for number, item in enumerate(second) if number not in needless],
    )


def _stored(
    first: Items, addresses: RowAddresses, kept: Collection[Instance]
) -> dict[tuple[str, int], _Row]:
    """By address, the rows of accumulators that are stored whole and not written afterwards."""
    last_write: dict[Instance, int] = {}
    for number, item in enumerate(first):
        for access in item.rows:
            if access.writes:
                last_write[access.instance] = number
    found: dict[tuple[str, int], _Row] = {}
    for number, item in enumerate(first):
        if not is_wide_store(item):
            continue
        (access,) = item.rows
        if access.instance in kept or last_write[access.instance] > number:
            continue
        group, words = addresses.of(item)
        for row, word in zip(LoadedRows.of(item).rows, words, strict=True):
            found[group, word] = _Row(access.instance, row, number)
    return found


def _loaded(second: Items) -> dict[Instance, list[int]]:
    """By instance of the accumulators, its LOADs, which load wide elements and nothing else."""
    found: dict[Instance, list[int]] = {}
    others: set[Instance] = set()
    for number, item in enumerate(second):
        if item.unit is not Unit.LOAD:
            continue
        for access in item.rows:
            if is_wide_load(item):
                found.setdefault(access.instance, []).append(number)
            else:
                others.add(access.instance)
    return {instance: loads for instance, loads in found.items() if instance not in others}


def _parts(
    whole: Instance,
    loads: Sequence[int],
    first: Items,
    second: Items,
    stored: Mapping[tuple[str, int], _Row],
    addresses: RowAddresses,
) -> dict[Instance, Part] | None:
    """The instances of the first layer that can be parts of `whole`, which `loads` fill."""
    if _is_used_before(whole, loads, second):
        return None
    rows: dict[Instance, dict[int, int]] = {}
    for number in loads:
        item = second[number]
        group, words = addresses.of(item)
        for place, word in zip(LoadedRows.of(item).rows, words, strict=True):
            source = stored.get((group, word))
            if source is None:
                return None
            rows.setdefault(source.instance, {})[source.row] = place
    data = {place for places in rows.values() for place in places.values()}
    if not rows_accessed(second, [whole], reads=True)[whole] <= data:
        return None
    touched = rows_accessed(first, rows)
    found = {}
    for instance, places in rows.items():
        offsets = {place - row for row, place in places.items()}
        if len(offsets) > 1 or not touched[instance] <= places.keys():
            return None
        found[instance] = Part(whole, offsets.pop())
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
