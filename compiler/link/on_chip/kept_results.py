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
from functools import cached_property

from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction
from daedal.compiler.link.on_chip.moved_rows import moved_rows
from daedal.compiler.link.on_chip.renumber import (
    RowTable,
    cut_at_padding,
    moved_stores,
    pads_alone,
    renumbered,
    row_table,
)
from daedal.compiler.link.on_chip.result_tensors import ResultTensor, result_tensors
from daedal.compiler.link.on_chip.row_parts import (
    LoadedRows,
    RowAddresses,
    rows_accessed,
    rows_of,
)
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
) -> tuple[list[Items], frozenset[Instance]]:
    """The layers, and the instances that live across them. `moves` are the numbers of layers that
    store elements of their operand, and constants, as they are. They become STOREs alone. Where
    products read what they store, they do so only if all products can have the operand's rows."""
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
        tile: row_table({row: places[word] for row, word in rows.items()})
        for tile, rows in tensor.tiles.items()
    }
    written: Items = []
    for item in layers[tensor.layer]:
        moved = _written(item, tiles, whole, addresses)
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


def _written(
    item: SegmentInstruction,
    tiles: Mapping[Instance, RowTable],
    whole: Instance,
    addresses: RowAddresses,
) -> Items | None:
    """An instruction of the layer that computes the tensor, with the rows of `whole` for those of
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


@dataclass
class _Loaded:
    """An instance of INP that is loaded with nothing but a tensor and padding around it.

    Parameters
    ----------
    rows : by its rows, those of the instance that has the tensor in OUT.
    pads : its other rows.
    """

    rows: dict[int, int] = field(default_factory=dict)
    pads: set[int] = field(default_factory=set)

    @cached_property
    def table(self) -> RowTable:
        """`rows`, when all are known."""
        return row_table(self.rows)


def _read(
    items: Items, group: str, places: Mapping[int, int], whole: Instance, addresses: RowAddresses
) -> tuple[Items, int]:
    """A layer that loads the tensor, multiplying rows of `whole` instead, and how many LOADs this
    saves."""
    loaded = _loaded(items, group, places, addresses)
    replaced: dict[int, Items] = {}
    for number, item in enumerate(items):
        for access in item.rows:
            if access.instance not in loaded or item.unit is Unit.LOAD:
                continue
            products = _products(item, access, loaded[access.instance], whole)
            if products is None:
                del loaded[access.instance]
            else:
                replaced[number] = products
    # Padding that is still multiplied is written as before; nothing is loaded for it.
    padded = rows_accessed((x for products in replaced.values() for x in products), loaded)
    result: Items = []
    saved = 0
    for number, item in enumerate(items):
        if not any(access.instance in loaded for access in item.rows):
            result.append(item)
        elif item.unit is Unit.LOAD:
            result += pads_alone(item, padded[item.rows[0].instance])
            saved += 1
        else:
            result += replaced[number]
    return result, saved


def _products(
    item: SegmentInstruction, access: RowAccess, loaded: _Loaded, whole: Instance
) -> Items | None:
    """Products of rows of `whole`, and of padding behind them; None if `item` cannot be that."""
    if item.unit is not Unit.GEMM or item.template.values.get("mode", 0):
        return None
    moved = renumbered(item, access, loaded.table, whole)
    padding: Items = []
    if moved is None:
        parts = cut_at_padding(item, loaded.rows.keys(), loaded.pads)
        if parts is None:
            return None
        first, rest = parts
        (access,) = (other for other in first.rows if other.field == access.field)
        moved, padding = renumbered(first, access, loaded.table, whole), [rest]
        if moved is None:
            return None
    template = moved.template.replace(mode=int(GemmMode.DENSE_OUT))
    return [moved._replace(template=template), *padding]


def _loaded(
    items: Items, group: str, places: Mapping[int, int], addresses: RowAddresses
) -> dict[Instance, _Loaded]:
    """The instances of INP that are loaded with nothing but rows of the tensor and padding."""
    found: dict[Instance, _Loaded] = {}
    others: set[Instance] = set()
    for item in items:
        if item.unit is not Unit.LOAD:
            continue
        for access in item.rows:
            words = addresses.of(item)[1] if addresses.group(item).group == group else []
            known = found.setdefault(access.instance, _Loaded())
            rows = LoadedRows.of(item).rows if words else []
            again = rows_of(access) & (known.rows.keys() | known.pads)
            if not words or any(word not in places for word in words) or again:
                others.add(access.instance)
                continue
            known.rows |= {row: places[word] for row, word in zip(rows, words, strict=True)}
            known.pads |= rows_of(access) - set(rows)
    return {x: rows for x, rows in found.items() if x not in others and x.memory is Memory.INP}
