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

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from daedal.compiler.codegen.segment import Instance, SegmentInstruction
from daedal.compiler.link.on_chip.multiplied_rows import (
    Items,
    OnChip,
    loaded_words,
    read_on_chip,
    written_on_chip,
)
from daedal.compiler.link.on_chip.row_parts import RowAddresses, is_wide_store, stored_rows
from daedal.compiler.link.ordering.tiles import Words
from daedal.compiler.link.placement.placed import BeatRange
from daedal.compiler.link.placement.transfer_beats import entries
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
    num_rows : of OUT, of all parts.
    """

    first: Sequence[SegmentInstruction]
    second: Sequence[SegmentInstruction]
    group: str
    parts: Sequence[tuple[Sequence[Instance], Sequence[Instance]]]
    num_rows: int
    addresses: RowAddresses

    @property
    def numbers(self) -> dict[Instance, int]:
        """The number of the part, by instances of both layers."""
        return {
            instance: number
            for number, (tiles, readers) in enumerate(self.parts)
            for instance in (*tiles, *readers)
        }

    def rows(self) -> ChainedRows | None:
        """Both layers with all of the tensor in its parts; None where no instruction can have these
        rows."""
        stores = [item for item in self.first if item.unit is Unit.STORE]
        stored = stored_rows(self.first, stores, self.addresses)
        if stored is None:
            return None
        words = {word for rows in stored.values() for word in rows}
        loaded = loaded_words(self.second, self.group, words, self.addresses)
        if any(reader not in loaded for _, readers in self.parts for reader in readers):
            return None
        there: dict[Instance, OnChip] = {}
        wholes = []
        for tiles, readers in self.parts:
            order = sorted(word for tile in tiles for word in stored[tile])
            places = {word: row for row, word in enumerate(order)}
            whole = Instance(self.group, Memory.OUT, len(order))
            wholes.append(whole)
            for tile in tiles:
                rows = {row: places[word] for word, row in stored[tile].items()}
                there[tile] = OnChip(whole, rows, ())
            there |= {reader: loaded[reader].at(places, whole) for reader in readers}
        written = _written(self.first, there, self.addresses)
        multiplied, saved = read_on_chip(self.second, {reader: there[reader] for reader in loaded})
        loads = sum(
            item.unit is Unit.LOAD and item.rows[0].instance in loaded for item in self.second
        )
        return (
            None if written is None or saved < loads else ChainedRows(written, multiplied, wholes)
        )


def chain_parts(
    first: Sequence[SegmentInstruction],
    second: Sequence[SegmentInstruction],
    variant: Variant,
    words: Words,
) -> ChainParts | None:
    """The parts of a tensor that the second layer could multiply in OUT; None where there are none.
    Whether instructions can have their rows, only `ChainParts.rows` tells, which takes longer."""
    if GemmMode.DENSE_OUT not in GemmMode.of(variant):
        return None
    group = _only_result(first, words)
    stores = [] if group is None else _transfers(first, Unit.STORE, group, words)
    loads = [] if group is None else _transfers(second, Unit.LOAD, group, words)
    if group is None or not loads or not _loads_nothing_else(second, group, words):
        return None
    tiles = list(dict.fromkeys(instance for instance, _ in stores))
    numbers = {tile: number for number, tile in enumerate(tiles)}
    owners = np.full(max(beats.end for _, beats in (*stores, *loads)), -1, dtype=np.int32)
    for instance, beats in stores:
        entries(owners, beats)[...] = numbers[instance]
    loaded: dict[Instance, set[int]] = {}
    for instance, beats in loads:
        loaded.setdefault(instance, set()).update(np.unique(entries(owners, beats)).tolist())
    if any(-1 in mine for mine in loaded.values()):
        return None
    addresses = RowAddresses(variant, words.aliases, Memory.OUT)
    num_rows = int(np.count_nonzero(owners >= 0)) // addresses.row_beats
    parts = _components({reader: [tiles[n] for n in sorted(loaded[reader])] for reader in loaded})
    return ChainParts(first, second, group, parts, num_rows, addresses)


def _transfers(
    items: Sequence[SegmentInstruction], unit: Unit, group: str, words: Words
) -> list[tuple[Instance, BeatRange]]:
    """Instances that a layer loads or stores, each time with the words of a group."""
    return [
        (item.rows[0].instance, found[1])
        for item in items
        if item.unit is unit and (found := words.of(item)) is not None and found[0] == group
    ]


def _only_result(items: Sequence[SegmentInstruction], words: Words) -> str | None:
    """The group of what a layer stores; None where it stores several, or rows of accumulators, or
    loads some of the same."""
    groups: dict[Unit, set[str]] = {Unit.LOAD: set(), Unit.STORE: set()}
    for item in items:
        if item.tensor is not None:
            groups[item.unit].add(words.group(item.tensor))
    stored = groups[Unit.STORE]
    if len(stored) != 1 or stored & groups[Unit.LOAD] or any(map(is_wide_store, items)):
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


def _loads_nothing_else(items: Sequence[SegmentInstruction], group: str, words: Words) -> bool:
    """Whether a layer loads a tensor only into instances of INP that have nothing else, and never
    its padding alone."""
    loads = [item for item in items if item.unit is Unit.LOAD and item.tensor is not None]
    mine, others = set[Instance](), set[Instance]()
    for item in loads:
        is_group = words.group(item.tensor or "") == group
        (mine if is_group else others).add(item.rows[0].instance)
        if is_group and words.of(item) is None:
            return False
    return mine.isdisjoint(others) and all(instance.memory is Memory.INP for instance in mine)


def _components(
    loaded: Mapping[Instance, Sequence[Instance]],
) -> list[tuple[list[Instance], list[Instance]]]:
    """Tiles that are stored with those that are loaded from them, which share tiles with no others;
    in the order in which they are loaded first. `loaded` has the tiles of each that is loaded."""
    numbers: dict[Instance, int] = {}
    found: list[tuple[list[Instance], list[Instance]]] = []
    for reader, mine in loaded.items():
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
