"""Makes a layer that only moves elements STOREs of the rows that are on chip (`kept_results`).

Such a layer pads a tensor, or takes a part of it. It loads rows into the accumulators, copies them
to OUT, and stores them elsewhere.

Before::

    LOAD   A = y[0:50], and rows of padding behind them
    ALU    P = requantize(A)                        # changes nothing
    STORE  z[0:64] = P

After, where y is in K::

    ALU    C = 3                                    # the padding
    STORE  z[0:50] = K
    STORE  z[50:64] = C
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.on_chip.renumber import rows_numbered
from daedal.compiler.link.on_chip.row_parts import LoadedRows, RowAddresses, rows_of
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory
from daedal.isa.table import AluOp, LoadMemory, Opcode, OutMemory, Unit

__all__ = ["moved_rows"]

MOST_STORES = 32
"""Of a layer that moves elements: with more, it stays as it is."""

Items = list[SegmentInstruction]
_Row = tuple[Instance, int]


class _Padding(NamedTuple):
    """A row with one value."""

    value: int


_Source = int | _Padding
"""A row of the instance that is on chip, or padding."""


def moved_rows(
    items: Items,
    group: str,
    places: Mapping[int, int],
    whole: Instance,
    addresses: RowAddresses,
) -> Items | None:
    """The layer as STOREs of `whole`, which has the words of `group` in the rows `places`; None if
    it reads something else, or would take many STOREs."""
    stored = _stored(items, group, places, addresses)
    if not stored:
        return None
    values = {source.value for source in stored.values() if isinstance(source, _Padding)}
    runs = _runs(stored, addresses.row_beats)
    if len(runs) > MOST_STORES or len(values) > 1:
        return None
    pads = [len(run) for run in runs if isinstance(stored[run[0]], _Padding)]
    padding = Instance(f"{group}.padding", Memory.OUT, max(pads, default=0))
    result = [_filled(padding, value) for value in values]
    (first, *_) = (item for item in items if item.unit is Unit.STORE)
    begin = addresses.of(first)[1][0] - first.template.values.get("offset_beats", 0)
    for run in runs:
        source = stored[run[0]]
        instance, row = (padding, 0) if isinstance(source, _Padding) else (whole, source)
        template = first.template.replace(
            row=row, offset_beats=run[0] - begin, blocks=1, rows=1, cols=len(run),
            row_stride_beats=0, block_stride_beats=0,
        )  # fmt: skip
        access = RowAccess(instance, "row", ((row, row + len(run)),), reads=True)
        result.append(first._replace(template=template, rows=(access,)))
    return result


def _stored(
    items: Items, group: str, places: Mapping[int, int], addresses: RowAddresses
) -> dict[int, _Source] | None:
    """By word of memory, the row that the layer stores there; None if it is not known."""
    known: dict[_Row, _Source] = {}
    found: dict[int, _Source] = {}
    tensors = {item.tensor for item in items if item.unit is Unit.STORE}
    for item in items:
        values = item.template.values
        if item.unit is Unit.LOAD and values.get("memory", 0) == LoadMemory.PAR:
            continue
        if item.unit is Unit.LOAD:
            (access,) = item.rows
            words = addresses.of(item)[1] if addresses.group(item).group == group else []
            data = LoadedRows.of(item).rows if words else []
            narrow = values.get("memory", 0) == LoadMemory.ACC_NARROW
            if not narrow or any(word not in places for word in words):
                return None
            padding = _Padding(values.get("pad_value", 0))
            known |= {(access.instance, row): padding for row in rows_of(access)}
            pairs = zip(data, words, strict=True)
            known |= {(access.instance, row): places[word] for row, word in pairs}
        elif item.unit is Unit.ALU:
            copied = _copied(item)
            if copied is None or any(source not in known for _, source in copied):
                return None
            known |= {target: known[source] for target, source in copied}
        elif item.unit is Unit.STORE:
            (access,) = item.rows
            _, words = addresses.of(item)
            for row, word in zip(LoadedRows.of(item).rows, words, strict=True):
                if (access.instance, row) not in known:
                    return None
                found[word] = known[access.instance, row]
        else:
            return None
    return found if len(tensors) == 1 else None


def _copied(item: SegmentInstruction) -> list[tuple[_Row, _Row]] | None:
    """(target, source) of each row that a REQUANTIZE writes to OUT; None for other operations."""
    values = item.template.values
    to_out = values.get("destination", 0) == OutMemory.OUT
    if values.get("operation", 0) != AluOp.REQUANTIZE or not to_out:
        return None
    instances = {access.field: access.instance for access in item.rows}
    targets, sources = (rows_numbered(item, name).ravel().tolist() for name in ("dst", "src"))
    target, source = instances["dst_base"], instances["src_base"]
    return [((target, a), (source, b)) for a, b in zip(targets, sources, strict=True)]


def _runs(stored: Mapping[int, _Source], row_beats: int) -> list[list[int]]:
    """The words in order, cut where memory or the rows on chip do not go on."""
    runs: list[list[int]] = []
    words = sorted(stored)
    for before, word in pairwise([None, *words]):
        source, last = stored[word or 0], None if before is None else stored[before]
        goes_on = before is not None and word == before + row_beats
        if isinstance(source, int) and isinstance(last, int):
            goes_on = goes_on and source == last + 1
        else:
            goes_on = goes_on and isinstance(source, _Padding) and isinstance(last, _Padding)
        if not goes_on:
            runs.append([])
        runs[-1].append(word or 0)
    return runs


def _filled(instance: Instance, value: int) -> SegmentInstruction:
    """All rows of an instance with one value."""
    template = Instruction.of(
        Opcode.ALU, operation=AluOp.MOV, use_immediate=1, immediate=value,
        destination=OutMemory.OUT, extent0=1, extent1=1, extent2=instance.rows, dst_factor2=1,
    )  # fmt: skip
    access = RowAccess(instance, "dst_base", ((0, instance.rows),), writes=True)
    return SegmentInstruction(template, (access,), uops=((0, 0, 0),))
