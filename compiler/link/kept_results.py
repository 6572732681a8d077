"""Multiplies small tensors of results where the ALU has written them, for variants whose GEMM reads
OUT (`units.gemm_reads_out`).

A layer's results go from OUT to memory, and the products of the next layer wait until they have
come back to INP. Where a tensor takes few rows, it stays in OUT until its last reader: products
with its rows become those of mode DENSE_OUT. The STOREs stay, since the host and other layers may
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

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from daedal.compiler.codegen.segment import Instance, RowAccess, Runs, SegmentInstruction
from daedal.compiler.link.memory_plan import Alias
from daedal.compiler.link.row_parts import LoadedRows, RowAddresses, stored_rows
from daedal.isa.numerics import IntArray
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LOOPS, GemmMode, LoadMemory, Opcode, OutMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["keep_results"]

MOST_PIECES = 8
"""STOREs in the place of one, where its rows are no longer side by side."""

Items = list[SegmentInstruction]
Rows = Mapping[int, int]
"""Rows of one instance by those of another."""

_COLUMNS = {"dst": 0, "inp": 1}
"""Where a micro-op has the row that a field counts from."""


@dataclass(frozen=True)
class _Tensor:
    """A tensor that one layer stores from OUT, and that later layers load into INP.

    Parameters
    ----------
    layer : which stores it.
    readers : layers that load it.
    tiles : by instance that is stored, the word of memory of each of its rows.
    """

    layer: int
    readers: tuple[int, ...]
    tiles: Mapping[Instance, Rows]

    @property
    def last(self) -> int:
        """The last layer that loads it."""
        return self.readers[-1]

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


def keep_results(
    layers: Sequence[Items], variant: Variant, aliases: Mapping[str, Alias]
) -> tuple[list[Items], frozenset[Instance]]:
    """The layers, and the instances that live across them."""
    result = [list(items) for items in layers]
    if GemmMode.DENSE_OUT not in GemmMode.of(variant):
        return result, frozenset()
    addresses = RowAddresses(variant, aliases, Memory.OUT)
    kept: frozenset[Instance] = frozenset()
    live = [0] * len(layers)
    depth = scratchpad(variant, Memory.OUT).depth_rows
    for group, tensor in _tensors(layers, addresses):
        across = range(tensor.layer, tensor.last + 1)
        busy = max(
            live[layer]
            + _rows_of_tiles(result[layer], {*kept, *(tensor.tiles if layer == across[0] else ())})
            for layer in across
        )
        if busy + tensor.num_rows > depth:
            continue
        found = max(
            (_kept(result, group, tensor, places, addresses) for places in tensor.places()),
            key=lambda option: option.num_loads,
        )
        if found.num_loads:
            for layer, items in found.layers.items():
                result[layer] = items
            kept |= {found.whole}
            for layer in across:
                live[layer] += found.whole.rows
    return result, kept


def _rows_of_tiles(items: Items, but: Collection[Instance]) -> int:
    """Rows of OUT that a layer needs in addition to those of some instances: for two tiles, so that
    one is stored while the next one is computed."""
    instances = {a.instance for item in items for a in item.rows} - set(but)
    return 2 * max((x.rows for x in instances if x.memory is Memory.OUT), default=0)


def _tensors(layers: Sequence[Items], addresses: RowAddresses) -> Iterator[tuple[str, _Tensor]]:
    """Groups that only one layer stores, all from OUT, and that later layers load into INP."""
    stores: dict[str, list[tuple[int, SegmentInstruction]]] = {}
    readers: dict[str, list[int]] = {}
    for number, items in enumerate(layers):
        for item in items:
            if item.unit is Unit.STORE:
                stores.setdefault(addresses.group(item).group, []).append((number, item))
            elif _is_load(item):
                found = readers.setdefault(addresses.group(item).group, [])
                if number not in found:
                    found.append(number)
    for group, found_stores in stores.items():
        first = found_stores[0][0]
        later = tuple(number for number in readers.get(group, ()) if number > first)
        if later and all(number == first and _is_narrow(item) for number, item in found_stores):
            tiles = stored_rows(layers[first], [item for _, item in found_stores], addresses)
            if tiles:
                words = {x: {row: word for word, row in rows.items()} for x, rows in tiles.items()}
                yield group, _Tensor(first, later, words)


def _is_load(item: SegmentInstruction) -> bool:
    """Whether it loads rows of INP."""
    memory = item.template.values.get("memory", 0)
    return item.template.opcode is Opcode.LOAD and memory == LoadMemory.INP


def _is_narrow(item: SegmentInstruction) -> bool:
    """Whether a STORE stores rows of OUT."""
    return item.template.values.get("memory", 0) == OutMemory.OUT


@dataclass(frozen=True)
class _Kept:
    """Layers that compute and read a tensor in one instance, and the LOADs that this saves."""

    whole: Instance
    layers: Mapping[int, Items]
    num_loads: int


def _kept(
    layers: Sequence[Items],
    group: str,
    tensor: _Tensor,
    places: Rows,
    addresses: RowAddresses,
) -> _Kept:
    """The layers with the tensor in one instance, its words in the rows `places`."""
    whole = Instance(group, Memory.OUT, max(places.values()) + 1)
    tiles = {x: {r: places[word] for r, word in rows.items()} for x, rows in tensor.tiles.items()}
    written: Items = []
    for item in layers[tensor.layer]:
        moved = _written(item, tiles, whole, addresses)
        if moved is None:
            return _Kept(whole, {}, 0)
        written += moved
    changed = {tensor.layer: written}
    loads = 0
    for layer in tensor.readers:
        changed[layer], saved = _read(layers[layer], group, places, whole, addresses)
        loads += saved
    return _Kept(whole, changed, loads)


def _written(
    item: SegmentInstruction,
    tiles: Mapping[Instance, Rows],
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
        return _stores(item, rows, whole, addresses)
    # A field that also counts rows of the accumulators cannot move alone.
    if sum(other.field == access.field for other in item.rows) > 1:
        return None
    moved = _renumbered(item, access, rows, whole)
    return None if moved is None else [moved]


def _renumbered(
    item: SegmentInstruction, access: RowAccess, rows: Rows, whole: Instance
) -> SegmentInstruction | None:
    """An instruction of GEMM or the ALU with the rows of `whole` for those of an access; None if
    its loops do not reach them in the same order."""
    name = access.field.removesuffix("_base")
    column = _COLUMNS[name]
    moved = _looked_up(rows, _steps(item, name, [uop[column] for uop in item.uops or ()]))
    if moved is None:
        return None
    for level in range(LOOPS):
        ends = _ends_of_runs(moved, level)
        if ends and moved.shape[level] % ends == 0:
            split = _with_split_loop(item, level, ends)
            return None if split is None else _renumbered(split, access, rows, whole)
    first = moved[0, 0, 0]
    base = int(first.min())
    values = {
        f"{name}_factor{level}": int(np.take(moved, min(1, extent - 1), level).flat[0] - first[0])
        for level, extent in enumerate(moved.shape[:LOOPS])
    }
    template = item.template.replace(**{access.field: base, **values})
    offsets = [int(row) - base for row in first]
    found = item._replace(template=template)
    if min(values.values()) < 0 or not np.array_equal(_steps(found, name, offsets), moved):
        return None
    accesses = tuple(
        other._replace(instance=whole, runs=_runs(moved)) if other is access else other
        for other in item.rows
    )
    sequence = tuple(
        (*uop[:column], offset, *uop[column + 1 :])
        for uop, offset in zip(item.uops or (), offsets, strict=True)
    )
    return found._replace(rows=accesses, uops=sequence)


def _steps(item: SegmentInstruction, name: str, offsets: Sequence[int]) -> IntArray:
    """The rows that a field numbers: one axis for each loop, and one for the micro-ops."""
    get = item.template.values.get
    rows = np.array(offsets, dtype=np.int64) + get(f"{name}_base", 0)
    for level in reversed(range(LOOPS)):
        loop = np.arange(get(f"extent{level}", 0)) * get(f"{name}_factor{level}", 0)
        rows = loop.reshape(-1, *[1] * rows.ndim) + rows
    return rows


def _ends_of_runs(rows: IntArray, level: int) -> int:
    """After how many iterations of a loop its rows are no longer at equal distances; 0 if they
    always are."""
    distances = np.diff(rows, axis=level)
    same = np.take(distances, [0], level) if distances.shape[level] else distances
    changes = np.flatnonzero((distances != same).any(axis=(*range(level), *range(level + 1, 4))))
    return int(changes[0]) + 1 if len(changes) else 0


def _with_split_loop(
    item: SegmentInstruction, level: int, extent: int
) -> SegmentInstruction | None:
    """The same with two loops in the place of one, the inner one of `extent` iterations; None if
    all loops are in use."""
    values = item.template.values
    extents = [values.get(f"extent{k}", 0) for k in range(LOOPS)]
    spare = next((k for k in range(LOOPS) if extents[k] == 1), None)
    if spare is None:
        return None
    names = {key.removesuffix("_base") for key in values if key.endswith("_base")}
    names |= {key[: -len("_factor0")] for key in values if key[:-1].endswith("_factor")}
    loops = [
        (extents[k], {name: values.get(f"{name}_factor{k}", 0) for name in names})
        for k in range(LOOPS)
    ]
    count, factors = loops[level]
    outer = count // extent, {name: factor * extent for name, factor in factors.items()}
    loops[level : level + 1] = [outer, (extent, factors)]
    del loops[spare if spare < level else spare + 1]
    fields = {}
    for k, (number, factors) in enumerate(loops):
        fields[f"extent{k}"] = number
        fields |= {f"{name}_factor{k}": factor for name, factor in factors.items()}
    return item._replace(template=item.template.replace(**fields))


def _looked_up(rows: Rows, index: IntArray) -> IntArray | None:
    """The rows at `index`; None if it is empty or has a row that is not there."""
    if not index.size or int(index.max()) > max(rows):
        return None
    table = np.full(max(rows) + 1, -1)
    table[list(rows)] = list(rows.values())
    found: IntArray = table[index]
    return None if found.min() < 0 else found


def _runs(rows: IntArray) -> Runs:
    """Row numbers as ranges."""
    numbers = np.unique(rows)
    ends = np.flatnonzero(np.diff(numbers) > 1)
    begins = numbers[np.concatenate([[0], ends + 1])]
    lasts = numbers[np.concatenate([ends, [len(numbers) - 1]])]
    return tuple((int(a), int(b) + 1) for a, b in zip(begins, lasts, strict=True))


def _stores(
    item: SegmentInstruction, rows: Rows, whole: Instance, addresses: RowAddresses
) -> Items | None:
    """A STORE from `whole`: as few as have their rows side by side; None if that takes many."""
    (access,) = item.rows
    get = item.template.values.get
    moved = np.array([rows[row] for row in LoadedRows.of(item).rows])
    extents = (get("blocks", 0), get("rows", 0), get("cols", 0))
    if not moved.size:
        return [item]
    strides = (get("block_stride_beats", 0), get("row_stride_beats", 0), addresses.row_beats)
    for depth in range(3):
        pieces = moved.reshape(*extents[:depth], -1)
        if (np.diff(pieces, axis=-1) == 1).all():
            break
    else:
        return None
    if pieces.size // pieces.shape[-1] > MOST_PIECES:
        return None
    result = []
    for place in np.ndindex(*extents[:depth]):
        first, count = int(pieces[place].flat[0]), pieces.shape[-1]
        template = item.template.replace(
            row=first,
            offset_beats=get("offset_beats", 0)
            + sum(number * stride for number, stride in zip(place, strides, strict=False)),
            **dict.fromkeys(("blocks", "rows")[:depth], 1),
        )
        moved_access = access._replace(instance=whole, runs=((first, first + count),))
        result.append(item._replace(template=template, rows=(moved_access,)))
    return result


def _read(
    items: Items, group: str, places: Rows, whole: Instance, addresses: RowAddresses
) -> tuple[Items, int]:
    """A layer that loads the tensor, multiplying rows of `whole` instead, and how many LOADs this
    saves."""
    loaded = _loaded(items, group, places, addresses)
    replaced: dict[int, SegmentInstruction] = {}
    for number, item in enumerate(items):
        for access in item.rows:
            if access.instance not in loaded or item.unit is Unit.LOAD:
                continue
            moved = None
            if item.unit is Unit.GEMM and not item.template.values.get("mode", 0):
                moved = _renumbered(item, access, loaded[access.instance], whole)
            if moved is None:
                del loaded[access.instance]
            else:
                template = moved.template.replace(mode=int(GemmMode.DENSE_OUT))
                replaced[number] = moved._replace(template=template)
    result = []
    saved = 0
    for number, item in enumerate(items):
        if not any(access.instance in loaded for access in item.rows):
            result.append(item)
        elif item.unit is Unit.LOAD:
            saved += 1
        else:
            result.append(replaced[number])
    return result, saved


def _loaded(
    items: Items, group: str, places: Rows, addresses: RowAddresses
) -> dict[Instance, dict[int, int]]:
    """By instance of INP that is loaded with nothing but rows of the tensor, the row of each."""
    found: dict[Instance, dict[int, int]] = {}
    others: set[Instance] = set()
    for item in items:
        if item.unit is not Unit.LOAD:
            continue
        for access in item.rows:
            words = addresses.of(item)[1] if addresses.group(item).group == group else []
            known = found.setdefault(access.instance, {})
            if not words or any(word not in places for word in words):
                others.add(access.instance)
                continue
            rows = {
                row: places[word] for row, word in zip(LoadedRows.of(item).rows, words, strict=True)
            }
            if known.keys() & rows.keys():
                others.add(access.instance)
            known |= rows
    return {x: rows for x, rows in found.items() if x not in others and x.memory is Memory.INP}
