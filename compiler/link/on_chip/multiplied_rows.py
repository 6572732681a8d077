"""Instructions of layers that compute a tensor in OUT, and of layers that multiply it there.

`kept_results` and `chained_tiles` decide which rows of OUT have which words of a tensor. Input:
instructions of a layer. Output: the same with other rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.on_chip.renumber import (
    RowTable,
    cut_at_padding,
    moved_stores,
    pads_alone,
    renumbered,
    row_table,
)
from daedal.compiler.link.on_chip.row_parts import (
    LoadedRows,
    RowAddresses,
    rows_accessed,
    rows_of,
)
from daedal.isa.scratchpad import Memory
from daedal.isa.table import GemmMode, Unit

__all__ = ["Items", "Loaded", "OnChip", "loaded_words", "read_on_chip", "written_on_chip"]

Items = list[SegmentInstruction]


@dataclass
class Loaded:
    """An instance of INP that is loaded with nothing but a tensor and padding around it.

    Parameters
    ----------
    words : by its rows, the words of the tensor in memory.
    pads : its other rows.
    """

    words: dict[int, int] = field(default_factory=dict)
    pads: set[int] = field(default_factory=set)

    def at(self, places: Mapping[int, int], whole: Instance) -> "OnChip":
        """The same words in the rows `places` of `whole`, by word."""
        return OnChip(whole, {row: places[word] for row, word in self.words.items()}, self.pads)


@dataclass
class OnChip:
    """Rows of an instance of OUT, `whole`, by those of another instance, and its `pads`, rows that
    `whole` does not have."""

    whole: Instance
    rows: Mapping[int, int]
    pads: Collection[int]

    @cached_property
    def table(self) -> RowTable:
        """`rows` as a table."""
        return row_table(tuple(self.rows.items()))


def written_on_chip(
    item: SegmentInstruction,
    tiles: Mapping[Instance, RowTable],
    whole: Instance,
    addresses: RowAddresses,
) -> Items | None:
    """An instruction of the layer that computes a tensor, with the rows of `whole` for those of
    its tiles; None if no instruction can have these."""
    mine = [access for access in item.rows if access.instance in tiles]
    if not mine:
        return [item]
    (access,) = mine
    rows = tiles[access.instance]
    if item.unit is Unit.STORE:
        return moved_stores(item, rows, whole, addresses.row_beats)
    # A field that also counts rows of the accumulators cannot move alone.
    if sum(other.field == access.field for other in item.rows) > 1:
        return None
    moved = renumbered(item, access, rows, whole)
    return None if moved is None else [moved]


def loaded_words(
    items: Sequence[SegmentInstruction],
    group: str,
    words: Collection[int],
    addresses: RowAddresses,
) -> dict[Instance, Loaded]:
    """The instances of INP that are loaded with nothing but some words of a tensor and padding."""
    found: dict[Instance, Loaded] = {}
    others: set[Instance] = set()
    for item in items:
        if item.unit is not Unit.LOAD:
            continue
        for access in item.rows:
            mine = addresses.of(item)[1] if addresses.group(item).group == group else ()
            if not mine or not all(map(words.__contains__, mine)):
                others.add(access.instance)
            if access.instance in others:
                continue
            known = found.setdefault(access.instance, Loaded())
            touched = rows_of(access)
            if not (known.words.keys().isdisjoint(touched) and known.pads.isdisjoint(touched)):
                others.add(access.instance)
                continue
            rows = LoadedRows.of(item).rows
            known.words.update(zip(rows, mine, strict=True))
            known.pads |= touched.difference(rows)
    return {x: rows for x, rows in found.items() if x not in others and x.memory is Memory.INP}


def read_on_chip(
    items: Sequence[SegmentInstruction], found: Mapping[Instance, OnChip]
) -> tuple[Items, int]:
    """A layer that loads a tensor into the instances `found`, multiplying rows of OUT instead, and
    how many LOADs this saves."""
    found = dict(found)
    replaced: dict[int, Items] = {}
    for number, item in enumerate(items):
        for access in item.rows:
            if access.instance not in found or item.unit is Unit.LOAD:
                continue
            products = _products(item, access, found[access.instance])
            if products is None:
                del found[access.instance]
            else:
                replaced[number] = products
    # Padding that is still multiplied is written as before; nothing is loaded for it.
    padded = rows_accessed((x for products in replaced.values() for x in products), found)
    result: Items = []
    saved = 0
    for number, item in enumerate(items):
        if not any(access.instance in found for access in item.rows):
            result.append(item)
        elif item.unit is Unit.LOAD:
            result += pads_alone(item, padded[item.rows[0].instance])
            saved += 1
        else:
            result += replaced[number]
    return result, saved


def _products(item: SegmentInstruction, access: RowAccess, there: OnChip) -> Items | None:
    """Products of rows of OUT, and of padding behind them; None if `item` cannot be that."""
    if item.unit is not Unit.GEMM or item.template.values.get("mode", 0):
        return None
    moved = renumbered(item, access, there.table, there.whole)
    padding: Items = []
    if moved is None:
        parts = cut_at_padding(item, there.rows.keys(), there.pads)
        if parts is None:
            return None
        first, rest = parts
        (access,) = (other for other in first.rows if other.field == access.field)
        moved, padding = renumbered(first, access, there.table, there.whole), [rest]
        if moved is None:
            return None
    template = moved.template.replace(mode=int(GemmMode.DENSE_OUT))
    return [moved._replace(template=template), *padding]
