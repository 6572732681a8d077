"""Keeps parts of a layer's results in OUT for the layer behind it, part by part, for variants whose
GEMM reads OUT (`units.gemm_reads_out`).

A tensor that is too large to stay on chip as a whole (`kept_results`) can still stay in parts: the
results of some tiles, if tiles of the next layer read these and nothing else. Such a part has an
instance of OUT of its own, which is needed from the first of its tiles to the last one that
multiplies it.

Before::

    ALU    P = requantize(...)                      # rows 0 to 3 of channels 0 to 15
    STORE  y[0, 0:4] = P
    ALU    Q = requantize(...)                      # the same rows of channels 16 to 31
    STORE  y[1, 0:4] = Q
    LOAD   X = y[0:2, 0:4]
    GEMM   A += X * W

After::

    ALU    K[0:n] = requantize(...)
    STORE  y[0, 0:4] = K[0:n]
    ALU    K[n:2n] = requantize(...)
    STORE  y[1, 0:4] = K[n:2n]
    GEMM   A += K * W

Input: the instructions of two layers in program order. Output: `ChainedRows`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from daedal.compiler.codegen.segment import Instance, SegmentInstruction
from daedal.compiler.link.on_chip.multiplied_rows import (
    Items,
    Loaded,
    OnChip,
    loaded_words,
    read_on_chip,
    written_on_chip,
)
from daedal.compiler.link.on_chip.row_parts import RowAddresses, is_wide_store, stored_rows
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.isa.scratchpad import Memory
from daedal.isa.table import GemmMode, Unit
from daedal.isa.variant import Variant

__all__ = ["ChainParts", "ChainedRows", "chain_parts"]


class ChainedRows(NamedTuple):
    """Two layers, of which the second multiplies the results of the first in OUT.

    Parameters
    ----------
    first, second : their instructions.
    parts : the instances of OUT with the parts of the tensor, in the order of memory.
    """

    first: Items
    second: Items
    parts: Sequence[Instance]


class ChainParts(NamedTuple):
    """Which tiles of two layers have the same parts of a tensor.

    Parameters
    ----------
    first, second : instructions of the layers.
    group : the tensor.
    parts : instances of OUT that the first layer stores, and of INP that the second one loads: for
        each part, in the order in which the second one loads them.
    """

    first: Sequence[SegmentInstruction]
    second: Sequence[SegmentInstruction]
    group: str
    parts: Sequence[tuple[Sequence[Instance], Sequence[Instance]]]
    addresses: RowAddresses
    stored: Mapping[Instance, Mapping[int, int]]
    loaded: Mapping[Instance, Loaded]

    @property
    def numbers(self) -> dict[Instance, int]:
        """The number of the part, by instances of both layers."""
        return {
            instance: number
            for number, (tiles, readers) in enumerate(self.parts)
            for instance in (*tiles, *readers)
        }

    @property
    def num_rows(self) -> int:
        """Of OUT, of all parts."""
        return sum(len(self.stored[tile]) for tiles, _ in self.parts for tile in tiles)

    def rows(self) -> ChainedRows | None:
        """Both layers with all of the tensor in its parts; None where no instruction can have these
        rows."""
        there: dict[Instance, OnChip] = {}
        wholes = []
        for tiles, readers in self.parts:
            words = sorted(word for tile in tiles for word in self.stored[tile])
            places = {word: row for row, word in enumerate(words)}
            whole = Instance(self.group, Memory.OUT, len(words))
            wholes.append(whole)
            for tile in tiles:
                rows = {row: places[word] for word, row in self.stored[tile].items()}
                there[tile] = OnChip(whole, rows, ())
            there |= {reader: self.loaded[reader].at(places, whole) for reader in readers}
        written = _written(self.first, there, self.addresses)
        multiplied, saved = read_on_chip(
            self.second, {reader: there[reader] for reader in self.loaded}
        )
        loads = sum(
            item.unit is Unit.LOAD and item.rows[0].instance in self.loaded for item in self.second
        )
        return (
            None if written is None or saved < loads else ChainedRows(written, multiplied, wholes)
        )


def chain_parts(
    first: Sequence[SegmentInstruction],
    second: Sequence[SegmentInstruction],
    variant: Variant,
    aliases: Mapping[str, Alias],
) -> ChainParts | None:
    """The parts of a tensor that the second layer could multiply in OUT; None where there are none.
    Whether instructions can have their rows, only `ChainParts.rows` tells."""
    if GemmMode.DENSE_OUT not in GemmMode.of(variant):
        return None
    addresses = RowAddresses(variant, aliases, Memory.OUT)
    group = _only_result(first, addresses)
    stores = [item for item in first if item.unit is Unit.STORE]
    tiles = None if group is None else stored_rows(first, stores, addresses)
    if group is None or tiles is None:
        return None
    owners = {word: tile for tile, rows in tiles.items() for word in rows}
    loaded = loaded_words(second, group, owners.keys(), addresses)
    if not loaded or not _loads_nothing_else(second, group, loaded, addresses):
        return None
    parts = _components(loaded, owners)
    return ChainParts(first, second, group, parts, addresses, tiles, loaded)


def _only_result(items: Sequence[SegmentInstruction], addresses: RowAddresses) -> str | None:
    """The group of what a layer stores; None where it stores several, or rows of accumulators, or
    loads some of the same."""
    transfers = [item for item in items if item.tensor is not None]
    stored = {addresses.group(x).group for x in transfers if x.unit is Unit.STORE}
    loaded = {addresses.group(x).group for x in transfers if x.unit is Unit.LOAD}
    if len(stored) != 1 or stored & loaded or any(map(is_wide_store, items)):
        return None
    return stored.pop()


def _written(
    items: Sequence[SegmentInstruction],
    there: Mapping[Instance, OnChip],
    addresses: RowAddresses,
) -> Items | None:
    """The first layer with its tiles in their parts; None if no instruction can have these rows."""
    result: Items = []
    for item in items:
        tile = next((a.instance for a in item.rows if a.instance in there), None)
        if tile is None:
            result.append(item)
            continue
        part = there[tile]
        moved = written_on_chip(item, {tile: part.table}, part.whole, addresses)
        if moved is None:
            return None
        result += moved
    return result


def _loads_nothing_else(
    items: Iterable[SegmentInstruction],
    group: str,
    loaded: Mapping[Instance, Loaded],
    addresses: RowAddresses,
) -> bool:
    """Whether a layer loads the tensor only into the instances `loaded`."""
    return all(
        item.rows[0].instance in loaded
        for item in items
        if item.unit is Unit.LOAD and addresses.group(item).group == group
    )


def _components(
    loaded: Mapping[Instance, Loaded],
    owners: Mapping[int, Instance],
) -> list[tuple[list[Instance], list[Instance]]]:
    """Tiles that are stored with those that are loaded, which together share words with no others;
    in the order in which words are loaded first."""
    numbers: dict[Instance, int] = {}
    found: list[tuple[list[Instance], list[Instance]]] = []
    for reader, rows in loaded.items():
        mine = list(dict.fromkeys(owners[word] for word in rows.words.values()))
        known = sorted({numbers[tile] for tile in mine if tile in numbers})
        target = known[0] if known else len(found)
        if not known:
            found.append(([], []))
        for other in known[1:]:
            for tile in found[other][0]:
                numbers[tile] = target
            found[target][0].extend(found[other][0])
            found[target][1].extend(found[other][1])
            found[other] = [], []
        found[target][1].append(reader)
        for tile in mine:
            if tile not in numbers:
                numbers[tile] = target
                found[target][0].append(tile)
    return [part for part in found if part[0]]
