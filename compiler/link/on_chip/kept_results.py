"""Multiplies small tensors of results where the ALU has written them, for variants whose GEMM reads
OUT (`units.gemm_reads_out`).

A layer's results go from OUT to memory, and the products of the next layer wait until they have
come back to INP. Where a tensor takes few rows, it stays in OUT until its last reader: products
with its rows become those of mode DENSE_OUT. The STOREs stay, since other layers, or checks, may
read the tensor.

Before::

    ALU    P = requantize(...)
    STORE  y[0:50] = P
    LOAD   X = y[0:50]
    GEMM   A += X * W

After::

    ALU    K[0:50] = requantize(...)                # P is a part of K
    STORE  y[0:50] = K[0:50]
    GEMM   A += K[0:50] * W

Input and output: the instructions of all layers in program order.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from daedal.compiler.codegen.segment import Instance, SegmentInstruction
from daedal.compiler.link.on_chip.moved_rows import moved_rows
from daedal.compiler.link.on_chip.multiplied_rows import (
    loaded_words,
    read_on_chip,
    written_on_chip,
)
from daedal.compiler.link.on_chip.renumber import RowTable
from daedal.compiler.link.on_chip.result_tensors import ResultTensor, result_tensors
from daedal.compiler.link.on_chip.row_parts import LoadedRows, RowAddresses
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import GemmMode, Unit
from daedal.isa.variant import Variant

__all__ = ["keep_results"]

Items = list[SegmentInstruction]


def keep_results(
    layers: Sequence[Items],
    variant: Variant,
    aliases: Mapping[str, Alias],
    moves: Collection[int] = (),
    chained: Collection[int] = (),
) -> tuple[list[Items], frozenset[Instance]]:
    """The layers, and the instances that live across them. `moves` are the numbers of layers that
    store elements of their operand, and constants, as they are. They become STOREs alone. Where
    products read what they store, they do so only if all products can have the operand's rows.
    Nothing stays in OUT during the layers `chained`, whose tiles fill it
    (`daedal.compiler.link.ordering.chain_tiles`)."""
    result = [list(items) for items in layers]
    if GemmMode.DENSE_OUT not in GemmMode.of(variant):
        return result, frozenset()
    addresses = RowAddresses(variant, aliases, Memory.OUT)
    kept: frozenset[Instance] = frozenset()
    live = [0] * len(layers)
    depth = scratchpad(variant, Memory.OUT).depth_rows
    done: set[int] = set()
    for group, tensor in result_tensors(layers, addresses, moves):
        if tensor.layer in done:
            continue  # it has no tiles any more
        for choice in tensor.choices():
            across = range(choice.layer, choice.last + 1)
            if not set(across).isdisjoint(chained):
                continue
            busy = max(
                live[layer] + _rows_of_tiles(result[layer], {*kept, *own})
                for layer in across
                for own in [choice.tiles if layer == choice.layer else ()]
            )
            if busy + choice.num_rows > depth:
                continue
            found = _best(result, group, choice, addresses)
            if found.whole is None:
                continue
            done |= found.moves
            for layer, items in found.layers.items():
                result[layer] = items
            kept |= {found.whole}
            for layer in across:
                live[layer] += found.whole.rows
            break
    return result, kept


def _rows_of_tiles(items: Items, but: Collection[Instance]) -> int:
    """Rows of OUT that a layer needs in addition to those of some instances: for two tiles, so that
    one is stored while the next one is computed."""
    instances = {a.instance for item in items for a in item.rows} - set(but)
    return 2 * max((x.rows for x in instances if x.memory is Memory.OUT), default=0)


@dataclass(frozen=True)
class _Kept:
    """Layers that compute and read a tensor in one instance, the LOADs that this saves, and the
    numbers of those layers that became STOREs alone."""

    whole: Instance | None = None
    layers: Mapping[int, Items] = field(default_factory=dict)
    num_loads: int = 0
    moves: frozenset[int] = frozenset()


def _best(
    layers: Sequence[Items],
    group: str,
    tensor: ResultTensor,
    addresses: RowAddresses,
) -> _Kept:
    """The layers with the tensor in one instance, in the order of rows that saves most LOADs."""
    found = _Kept()
    for places in tensor.places():
        option = _kept(layers, group, tensor, places, addresses)
        found = max(found, option, key=lambda kept: kept.num_loads)
        if found.num_loads == tensor.num_loads:
            break
    return found


def _kept(
    layers: Sequence[Items],
    group: str,
    tensor: ResultTensor,
    places: Mapping[int, int],
    addresses: RowAddresses,
) -> _Kept:
    """The layers with the tensor in one instance, its words in the rows `places`."""
    whole = Instance(group, Memory.OUT, max(places.values()) + 1)
    tiles = {
        tile: RowTable((row, places[word]) for row, word in rows.items())
        for tile, rows in tensor.tiles.items()
    }
    written: Items = []
    for item in layers[tensor.layer]:
        moved = written_on_chip(item, tiles, whole, addresses)
        if moved is None:
            return _Kept()
        written += moved
    changed = {tensor.layer: written}
    loads = 0
    become_stores = set()
    for layer in tensor.readers:
        changed[layer], saved = _read(layers[layer], group, places, whole, addresses)
        loads += saved
    for layer, move in tensor.moves.items():
        stores = moved_rows(layers[layer], group, places, whole, addresses)
        if stores is None:
            continue
        there = _places(stores, whole, addresses)
        read = {
            reader: _read(changed.get(reader, layers[reader]), move.group, there, whole, addresses)
            for reader in move.readers
        }
        saved = sum(saved for _, saved in read.values())
        if saved == sum(move.readers.values()):
            changed |= {layer: stores, **{reader: items for reader, (items, _) in read.items()}}
            become_stores.add(layer)
            loads += move.num_loads + saved
    return _Kept(whole, changed, loads, frozenset(become_stores)) if loads else _Kept()


def _places(stores: Items, whole: Instance, addresses: RowAddresses) -> dict[int, int]:
    """By word of memory, the row of `whole` that is stored there."""
    return {
        word: row
        for item in stores
        if item.unit is Unit.STORE and item.rows[0].instance is whole
        for row, word in zip(LoadedRows.of(item).rows, addresses.of(item)[1], strict=True)
    }


def _read(
    items: Items, group: str, places: Mapping[int, int], whole: Instance, addresses: RowAddresses
) -> tuple[Items, int]:
    """A layer that loads the tensor, multiplying rows of `whole` instead, and how many LOADs this
    saves."""
    loaded = loaded_words(items, group, places, addresses)
    return read_on_chip(items, {x: found.at(places, whole) for x, found in loaded.items()})
