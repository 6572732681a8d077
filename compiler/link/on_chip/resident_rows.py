"""Keeps small tensors of accumulators on chip, from the layer that computes them to their last
reader.

A residual stream is read by the norm behind it, and several layers later by the next sum. Where it
takes few rows, it stays in the accumulators: its LOADs become copies by the ALU, or operands of the
operation that reads them. The STORE stays, since the host and other layers may read the tensor.

Before::

    STORE  sum[0:25] = P
    ...                                             # other layers
    LOAD   C = sum[0:25]
    ALU    C = C * 26623

After::

    STORE  sum[0:25] = K[0:25]                      # P is a part of K
    ...
    ALU    C = K[0:25] * 26623

Input and output: the instructions of all layers in program order.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from daedal.compiler.codegen.segment import (
    Instance,
    RowAccess,
    SegmentInstruction,
    overlap,
    shifted,
)
from daedal.compiler.link.on_chip.row_parts import (
    LoadedRows,
    Part,
    RowAddresses,
    is_wide_load,
    is_wide_store,
    rewritten,
    rows_accessed,
    rows_of,
    stored_rows,
)
from daedal.compiler.link.placement.memory_plan import Alias
from daedal.isa.instruction import Instruction
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import AluOp, Opcode, OutMemory, Unit
from daedal.isa.variant import Variant

__all__ = ["SHARE", "resident_rows"]

SHARE = 4
"""Tensors may take this part of the accumulators at the same time."""

Items = list[SegmentInstruction]


@dataclass(frozen=True)
class _Tensor:
    """A tensor that is stored by one layer and loaded by later ones.

    Parameters
    ----------
    layer : which stores it.
    readers : layers that load it.
    parts : the tiles that are stored, one behind the other in one instance.
    rows : by address, the row of that instance.
    """

    layer: int
    readers: tuple[int, ...]
    parts: Mapping[Instance, Part]
    rows: Mapping[int, int]

    @property
    def whole(self) -> Instance:
        """The instance that has all of it."""
        return next(iter(self.parts.values())).whole


def resident_rows(
    layers: Sequence[Items], variant: Variant, aliases: Mapping[str, Alias]
) -> tuple[list[Items], frozenset[Instance]]:
    """The layers, and the instances that live across them."""
    addresses = RowAddresses(variant, aliases)
    result = [list(items) for items in layers]
    kept: dict[Instance, tuple[int, int]] = {}
    most = scratchpad(variant, Memory.ACC).depth_rows // SHARE
    for group, tensor in _tensors(layers, addresses):
        last, whole = tensor.readers[-1], tensor.whole
        live = [k.rows for k, (first, end) in kept.items() if first <= last and tensor.layer <= end]
        if sum(live) + whole.rows > most:
            continue
        written = _written(result[tensor.layer], tensor.parts)
        if written is None:
            continue
        result[tensor.layer] = written
        for layer in tensor.readers:
            result[layer] = list(_read(result[layer], group, tensor, addresses))
        kept[whole] = tensor.layer, last
    return result, frozenset(kept)


def _tensors(layers: Sequence[Items], addresses: RowAddresses) -> Iterator[tuple[str, _Tensor]]:
    """Groups that one layer stores, from accumulators that it does not use again, and that later
    layers load into accumulators."""
    stored: dict[str, list[tuple[int, SegmentInstruction]]] = {}
    readers: dict[str, list[int]] = {}
    for number, items in enumerate(layers):
        for item in items:
            if item.unit is Unit.STORE:
                stored.setdefault(addresses.group(item).group, []).append((number, item))
            elif is_wide_load(item):
                found = readers.setdefault(addresses.group(item).group, [])
                if number not in found:
                    found.append(number)
    for group, stores in stored.items():
        first = stores[0][0]
        later = tuple(number for number in readers.get(group, ()) if number > first)
        if later and all(number == first and is_wide_store(item) for number, item in stores):
            items = [item for _, item in stores]
            places = stored_rows(layers[first], items, addresses, others=True)
            tensor = _tensor(group, first, later, places or {}, layers[first])
            if tensor is not None:
                yield group, tensor


def _tensor(
    group: str,
    layer: int,
    readers: tuple[int, ...],
    places: Mapping[Instance, Mapping[int, int]],
    items: Items,
) -> _Tensor | None:
    """The tensor with its tiles in these rows; None if a tile has others, too, and does not write
    those that are stored last."""
    touched = rows_accessed(items, places)
    offsets: dict[Instance, int] = {}
    num_rows = 0
    # In the order of memory, as readers have other tiles.
    for instance, found in sorted(places.items(), key=lambda place: min(place[1].keys())):
        offsets[instance] = num_rows
        stored = set(found.values())
        if touched[instance] <= stored:
            num_rows += instance.rows
        elif _last_writes(items, instance) is None:
            return None
        else:
            num_rows += max(stored) + 1
    if not places:
        return None
    whole = Instance(group, Memory.ACC, num_rows)
    parts = {instance: Part(whole, offset) for instance, offset in offsets.items()}
    rows = {
        word: offsets[instance] + row
        for instance, found in places.items()
        for word, row in found.items()
    }
    return _Tensor(layer, readers, parts, rows)


def _written(items: Items, parts: Mapping[Instance, Part]) -> Items | None:
    """The layer that computes the tensor, with its tiles as parts of one instance; None if it
    cannot.

    Where a tile's last operation does nothing but write its rows, only they move. What comes before
    is computed in rows of the tile's own: tiles take turns in the halves of the accumulators, so
    that the ALU and GEMM do not wait for each other.
    """
    last = {number for tile in parts for number in _last_writes(items, tile) or ()}
    whole = {tile: part for tile, part in parts.items() if _last_writes(items, tile) is None}
    result: Items = []
    for number, item in enumerate(items):
        moved = rewritten(item, whole)
        if moved is not None and number in last:
            moved = rewritten(moved, parts, "row" if item.unit is Unit.STORE else "dst_base")
        if moved is None:
            return None
        result.append(moved)
    return result


def _last_writes(items: Items, tile: Instance) -> set[int] | None:
    """The numbers of the last operations that write a tile's stored rows without reading them, of
    those that update them afterwards, and of the STOREs; None if another instruction reads the
    result, or if these operations write other rows, too."""
    stored = {
        row
        for item in items
        for access in item.rows
        if item.unit is Unit.STORE and access.instance is tile
        for row in rows_of(access)
    }
    found: set[int] = set()
    done: set[int] = set()
    for number in reversed(range(len(items))):
        item = items[number]
        mine = [access for access in item.rows if access.instance is tile]
        if item.unit is Unit.STORE:
            found.update([number] if mine else [])
            continue
        # What an operation reads, it reads before it writes.
        for access in sorted(mine, key=lambda access: not access.writes):
            rows = rows_of(access)
            if rows & stored <= done:
                continue
            shared = sum(other.field == access.field for other in item.rows) > 1
            last = access.writes and rows <= stored and not rows & done
            if not last or shared or access.field != "dst_base":
                return None
            found.add(number)
            done |= set() if access.reads else rows
    return found


def _read(
    items: Items, group: str, tensor: _Tensor, addresses: RowAddresses
) -> Iterator[SegmentInstruction]:
    """A layer that loads the tensor, reading it on chip instead."""
    replaced: dict[int, SegmentInstruction] = {}
    # Between the rows that are loaded, there may be padding, which nothing may read.
    filled: dict[Instance, set[int]] = {}
    for item in items:
        if is_wide_load(item):
            filled.setdefault(item.rows[0].instance, set()).update(LoadedRows.of(item).rows)
    read = rows_accessed(items, filled, reads=True)
    for number, item in enumerate(items):
        if number in replaced:
            yield replaced[number]
            continue
        if not is_wide_load(item) or addresses.group(item).group != group:
            yield item
            continue
        loaded = item.rows[0].instance
        _, words = addresses.of(item)
        known = bool(words) and all(word in tensor.rows for word in words)
        if not known or not read[loaded] <= filled[loaded]:
            yield item
            continue
        rows = [tensor.rows[word] for word in words]
        user = _direct_user(items, number, rows, tensor.whole)
        if user is None:
            yield from _copies(item, rows, tensor.whole) or [item]
        else:
            replaced[user[0]] = user[1]


def _direct_user(
    items: Items, number: int, rows: Sequence[int], instance: Instance
) -> tuple[int, SegmentInstruction] | None:
    """The operation that reads what the LOAD `number` has loaded, all of it and only as a source
    that it may read elsewhere, with `instance` as the source; None if there is none."""
    (loaded,) = items[number].rows
    offset = rows[0] - loaded.begin
    in_order = list(rows) == list(range(rows[0], rows[0] + len(rows)))
    if not in_order or LoadedRows.of(items[number]).runs != loaded.runs:
        return None
    for place in range(number + 1, len(items)):
        item = items[place]
        mine = [a for a in item.rows if a.instance is loaded.instance]
        if not any(overlap(a.runs, loaded.runs) for a in mine):
            continue
        sources = [a for a in mine if a.field == "src_base"]
        others = [a for a in mine if a not in sources]
        covered = all(a.field == "dst_base" and a.writes and not a.reads for a in others)
        same = len(sources) == 1 and all(a.runs == loaded.runs for a in mine)
        if item.unit is not Unit.ALU or not (same and covered):
            return None
        if not others and _is_read(items[place + 1 :], loaded):
            return None
        base = item.template.values.get("src_base", 0) + offset
        access = sources[0]._replace(instance=instance, runs=shifted(loaded.runs, offset))
        accesses = tuple(access if a is sources[0] else a for a in item.rows)
        template = item.template.replace(src_base=base)
        return place, item._replace(template=template, rows=accesses)
    return None


def _is_read(items: Iterable[SegmentInstruction], rows: RowAccess) -> bool:
    """Whether one of `items` reads some of these rows before all of them are written again."""
    left = rows_of(rows)
    for item in items:
        mine = [a for a in item.rows if a.instance is rows.instance]
        if any(a.reads and left & rows_of(a) for a in mine):
            return True
        for a in mine:
            left -= rows_of(a)
        if not left:
            break
    return False


def _copies(load: SegmentInstruction, rows: Sequence[int], instance: Instance) -> Items | None:
    """Copies of `rows` of `instance` instead of a LOAD, one for each run of columns that are in one
    tile; None if its rows are not at equal distances."""
    target = LoadedRows.of(load)
    numbers = np.array(rows).reshape(target.extents)
    breaks = np.flatnonzero((np.diff(numbers, axis=2) != 1).any(axis=(0, 1))) + 1
    copies: Items = []
    for begin, end in pairwise([0, *breaks.tolist(), target.extents[2]]):
        extents = (*target.extents[:2], end - begin)
        part = numbers[:, :, begin:end]
        planes = int(part[min(1, extents[0] - 1), 0, 0] - part[0, 0, 0])
        lines = int(part[0, min(1, extents[1] - 1), 0] - part[0, 0, 0])
        source = LoadedRows(int(part[0, 0, 0]), extents, (planes, lines, 1))
        if source.rows != tuple(part.ravel().tolist()) or min(planes, lines) < 0:
            return None
        into = LoadedRows(target.first + begin, extents, target.steps)
        copies.append(_copy(load.rows[0].instance, into, instance, source))
    return copies


def _copy(
    target: Instance, into: LoadedRows, instance: Instance, source: LoadedRows
) -> SegmentInstruction:
    values = {"operation": int(AluOp.MOV), "destination": int(OutMemory.ACC)}
    for loop, extent in enumerate(into.extents):
        values[f"extent{loop}"] = extent
        if extent > 1:
            values[f"dst_factor{loop}"] = into.steps[loop]
            values[f"src_factor{loop}"] = source.steps[loop]
    template = Instruction.of(Opcode.ALU, dst_base=into.first, src_base=source.first, **values)
    accesses = (
        RowAccess(target, "dst_base", into.runs, writes=True),
        RowAccess(instance, "src_base", source.runs, reads=True),
    )
    return SegmentInstruction(template, accesses, uops=((0, 0, 0),))
