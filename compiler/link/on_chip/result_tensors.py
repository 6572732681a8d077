"""Finds tensors of results that may stay in OUT until their last reader, for `kept_results`.

Input: the instructions of all layers in program order. Output: tensors that one layer stores from
OUT, with those who load them.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from daedal.compiler.codegen.segment import Instance, SegmentInstruction
from daedal.compiler.link.on_chip.row_parts import RowAddresses, stored_rows
from daedal.isa.table import LoadMemory, Opcode, OutMemory, Unit

__all__ = ["Move", "ResultTensor", "result_tensors"]

Items = list[SegmentInstruction]


class Move(NamedTuple):
    """A layer that only moves elements of a tensor: the number of its LOADs of it, the group of
    what it stores, and the number of LOADs into INP of that by each layer that has some."""

    num_loads: int
    group: str
    readers: Mapping[int, int]


@dataclass(frozen=True)
class ResultTensor:
    """A tensor that one layer stores from OUT, and that later layers load into INP.

    Parameters
    ----------
    layer : which stores it.
    readers : by layer that loads it into INP, the number of its LOADs.
    moves : by number, layers that move its elements.
    tiles : by instance that is stored, the word of memory of each of its rows.
    """

    layer: int
    readers: Mapping[int, int]
    moves: Mapping[int, Move]
    tiles: Mapping[Instance, Mapping[int, int]]

    @property
    def last(self) -> int:
        """The last layer that reads it, or what was moved."""
        behind = (reader for move in self.moves.values() for reader in move.readers)
        return max([*self.readers, *self.moves, *behind])

    @property
    def num_loads(self) -> int:
        """LOADs of it and of what was moved."""
        moves = (move.num_loads + sum(move.readers.values()) for move in self.moves.values())
        return sum(self.readers.values()) + sum(moves)

    def choices(self) -> Iterator["ResultTensor"]:
        """It, and if there are moved elements that products read, it without these."""
        yield self
        alone = {layer: move for layer, move in self.moves.items() if not move.readers}
        if len(alone) < len(self.moves) and (alone or self.readers):
            yield replace(self, moves=alone)

    @property
    def num_rows(self) -> int:
        """Rows of all its tiles."""
        return sum(tile.rows for tile in self.tiles)

    def places(self) -> Iterator[dict[int, int]]:
        """Row numbers by word of memory, in one instance for all of it: tile behind tile, which
        leaves the tiles' STOREs as they are, and in the order of memory."""
        tiles = sorted(self.tiles, key=lambda tile: min(self.tiles[tile].values()))
        begins = accumulate((tile.rows for tile in tiles), initial=0)
        yield {
            word: begin + row
            for begin, tile in zip(begins, tiles, strict=False)
            for row, word in self.tiles[tile].items()
        }
        words = sorted(word for rows in self.tiles.values() for word in rows.values())
        yield {word: row for row, word in enumerate(words)}


def result_tensors(
    layers: Sequence[Items], addresses: RowAddresses, moves: Collection[int]
) -> Iterator[tuple[str, ResultTensor]]:
    """Groups that only one layer stores, all from OUT, and that later layers load into INP, or
    move."""
    stores: dict[str, list[tuple[int, SegmentInstruction]]] = {}
    loads: dict[str, Counter[int]] = {}
    moved: dict[str, Counter[int]] = {}
    for number, items in enumerate(layers):
        for item in items:
            group = addresses.group(item).group if item.tensor is not None else ""
            if item.unit is Unit.STORE:
                stores.setdefault(group, []).append((number, item))
            elif _is_load(item, into_acc=False):
                loads.setdefault(group, Counter())[number] += 1
            elif number in moves and _is_load(item, into_acc=True):
                moved.setdefault(group, Counter())[number] += 1
    single = {
        group: found[0][0]
        for group, found in stores.items()
        if all(number == found[0][0] and _is_narrow(item) for number, item in found)
    }
    # Moved elements that products read must be the only ones of their group.
    targets = {
        number: group
        for group, found in stores.items()
        for number, _ in found
        if number in moves and (group in single or group not in loads)
    }
    for group, first in single.items():
        later = {n: count for n, count in loads.get(group, Counter()).items() if n > first}
        found_moves = {
            n: Move(count, targets[n], loads.get(targets[n], Counter()))
            for n, count in moved.get(group, Counter()).items()
            if n > first and n in targets
        }
        if later or found_moves:
            tiles = stored_rows(layers[first], [item for _, item in stores[group]], addresses)
            if tiles:
                words = {x: {row: word for word, row in rows.items()} for x, rows in tiles.items()}
                yield group, ResultTensor(first, later, found_moves, words)


def _is_load(item: SegmentInstruction, *, into_acc: bool) -> bool:
    """Whether it loads rows of INP, or such rows into the accumulators."""
    memory = LoadMemory.ACC_NARROW if into_acc else LoadMemory.INP
    is_load = item.template.opcode is Opcode.LOAD
    return is_load and item.template.values.get("memory", 0) == memory


def _is_narrow(item: SegmentInstruction) -> bool:
    """Whether a STORE stores rows of OUT."""
    return item.template.values.get("memory", 0) == OutMemory.OUT
