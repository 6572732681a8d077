"""The tiles of layers, and the conflicts between them: for layers that are interleaved.

Input: the instructions of layers in program order.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.compiler.link.placement.placed import BeatRange
from daedal.compiler.link.placement.transfer_beats import TransferBeats, entries
from daedal.isa.hazards import NO_INSTRUCTION
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["Touched", "Words", "tiles_of"]

_Rows = npt.NDArray[np.int32]


class Words:
    """The bus words that instructions move, numbered from the start of the group of tensors that
    share bytes."""

    def __init__(self, variant: Variant, aliases: Mapping[str, Alias]) -> None:
        self._transfers = TransferBeats(variant)
        self._bus_bytes = variant.bus_bytes
        self.aliases = aliases

    def group(self, tensor: str) -> str:
        """The name of the group that a tensor belongs to."""
        return self.aliases.get(tensor, Alias(tensor, 0)).group

    def of(self, item: SegmentInstruction) -> tuple[str, BeatRange] | None:
        """(group, words) of a LOAD or STORE; None if it moves nothing between chip and memory."""
        words = None if item.tensor is None else self._transfers.of(item.template)
        if item.tensor is None or words is None:
            return None
        alias = self.aliases.get(item.tensor, Alias(item.tensor, 0))
        offset = words.offset + alias.offset_bytes // self._bus_bytes
        return alias.group, words._replace(offset=offset)


def tiles_of(items: Sequence[SegmentInstruction]) -> list[list[SegmentInstruction]]:
    """Cut after every run of STOREs."""
    tile: list[SegmentInstruction] = []
    tiles, stores = [tile], False
    for item in items:
        stored, stores = stores, item.unit is Unit.STORE
        if stored and not stores:
            tile = []
            tiles.append(tile)
        tile.append(item)
    return tiles


class Touched:
    """For every word of memory and every row that layers share, the last tile of a layer that
    writes it, and the last that touches it.

    Parameters
    ----------
    kept : instances that live across layers; others belong to one layer.
    """

    def __init__(
        self,
        tiles: Sequence[Sequence[SegmentInstruction]],
        words: Words,
        kept: Collection[Instance] = (),
    ) -> None:
        self._words = words
        self._rows: dict[Instance, tuple[_Rows, _Rows]] = {}
        for number, tile in enumerate(tiles):
            for access in _accesses(tile):
                if access.instance not in kept:
                    continue
                size = access.instance.rows
                tables = self._rows.setdefault(access.instance, (_table(size), _table(size)))
                for begin, end in access.runs:
                    for rows in tables if access.writes else tables[1:]:
                        rows[begin:end] = number
        moves = [
            (number, item.unit, *found)
            for number, tile in enumerate(tiles)
            for item in tile
            if (found := words.of(item)) is not None
        ]
        sizes: dict[str, int] = {}
        for _, _, group, beats in moves:
            sizes[group] = max(sizes.get(group, 0), beats.end)
        self._stored = {group: _table(size) for group, size in sizes.items()}
        self._loaded = {group: _table(size) for group, size in sizes.items()}
        for number, unit, group, beats in moves:
            table = self._stored if unit is Unit.STORE else self._loaded
            entries(table[group], beats)[...] = number

    def by(self, tile: Sequence[SegmentInstruction]) -> tuple[int, int]:
        """The last tile that writes what `tile` of another layer reads, and the last one with which
        it has any conflict; NO_INSTRUCTION where there is none."""
        stored = conflict = NO_INSTRUCTION
        for item in tile:
            found = self._words.of(item)
            if found is None or found[0] not in self._stored:
                continue
            group, beats = found
            stores = _last(self._stored[group], beats)
            conflict = max(conflict, stores)
            if item.unit is Unit.STORE:
                conflict = max(conflict, _last(self._loaded[group], beats))
            else:
                stored = max(stored, stores)
        for access in _accesses(tile):
            if access.instance not in self._rows:
                continue
            written, touched = self._rows[access.instance]
            table = touched if access.writes else written
            last = max(int(table[begin:end].max()) for begin, end in access.runs)
            conflict = max(conflict, last)
            if access.reads:
                stored = max(stored, last)
        return stored, conflict


def _accesses(tile: Sequence[SegmentInstruction]) -> Iterator[RowAccess]:
    return (access for item in tile for access in item.rows)


def _table(size: int) -> npt.NDArray[np.int32]:
    return np.full(size, NO_INSTRUCTION, dtype=np.int32)


def _last(table: npt.NDArray[np.int32], beats: BeatRange) -> int:
    """The largest entry in a range that may reach beyond the table."""
    if beats.end > len(table):
        table = np.concatenate([table, _table(beats.end - len(table))])
    return int(entries(table, beats).max())
