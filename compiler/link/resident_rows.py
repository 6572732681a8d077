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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from daedal.compiler.codegen.segment import Instance, RowAccess, SegmentInstruction, overlap
from daedal.compiler.link.memory_plan import Alias
from daedal.compiler.link.row_parts import (
    LoadedRows,
    Part,
    RowAddresses,
    is_wide_load,
    is_wide_store,
    rewritten,
    rows_accessed,
    shifted,
)
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
    rows : by address, the row of the tensor.
    readers : layers that load it.
    """

    layer: int
    rows: Mapping[int, int]
    readers: tuple[int, ...]


def resident_rows(
    layers: Sequence[Items], variant: Variant, aliases: Mapping[str, Alias]
) -> tuple[list[Items], frozenset[Instance]]:
    """The layers, and the instances that live across them."""
    addresses = RowAddresses(variant, aliases)
    result = [list(items) for items in layers]
    kept: dict[Instance, tuple[int, int]] = {}
    most = scratchpad(variant, Memory.ACC).depth_rows // SHARE
    for group, tensor in _tensors(layers, addresses, most):
        last = tensor.readers[-1]
        live = [k.rows for k, (first, end) in kept.items() if first <= last and tensor.layer <= end]
        instance = Instance(group, Memory.ACC, len(tensor.rows))
        if sum(live) + instance.rows > most:
            continue
        written = _written(result[tensor.layer], group, tensor, instance, addresses)
        if written is None:
            continue
        result[tensor.layer] = written
        for layer in tensor.readers:
            result[layer] = list(_read(result[layer], group, tensor, instance, addresses))
        kept[instance] = tensor.layer, last
    return result, frozenset(kept)


def _tensors(
    layers: Sequence[Items], addresses: RowAddresses, most: int
) -> Iterator[tuple[str, _Tensor]]:
    """Groups of at most `most` rows that one layer stores whole, from accumulators, and that later
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
        once = all(number == first and is_wide_store(item) for number, item in stores)
        if later and once:
            words = sorted(word for _, item in stores for word in addresses.of(item)[1])
            if len(words) <= most:
                yield group, _Tensor(first, {word: k for k, word in enumerate(words)}, later)


def _written(
    items: Items, group: str, tensor: _Tensor, instance: Instance, addresses: RowAddresses
) -> Items | None:
    """The layer that stores the tensor, computing it in `instance`; None if its tiles are no parts
    of it."""
    parts: dict[Instance, Part] = {}
    stored: dict[Instance, range] = {}
    for number, item in enumerate(items):
        if item.unit is not Unit.STORE or addresses.group(item).group != group:
            continue
        (access,) = item.rows
        _, words = addresses.of(item)
        begin = item.template.values.get("row", 0)
        offsets = {tensor.rows[word] - begin - place for place, word in enumerate(words)}
        later = (a for other in items[number:] for a in other.rows if a.writes)
        written_again = any(a.instance is access.instance for a in later)
        if len(offsets) > 1 or access.instance in parts or written_again:
            return None
        if offsets:
            parts[access.instance] = Part(instance, offsets.pop())
            stored[access.instance] = range(begin, begin + len(words))
    touched = rows_accessed(items, stored)
    if not all(touched[part] <= set(rows) for part, rows in stored.items()):
        return None
    found = [rewritten(item, parts) for item in items]
    result = [item for item in found if item is not None]
    return result if len(result) == len(items) else None


def _read(
    items: Items, group: str, tensor: _Tensor, instance: Instance, addresses: RowAddresses
) -> Iterator[SegmentInstruction]:
    """A layer that loads the tensor, reading it in `instance` instead."""
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
        user = _direct_user(items, number, rows, instance)
        if user is None:
            yield _copy(item, rows[0], instance, addresses)
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
        covered = [a for a in mine if a.field == "dst_base" and a.writes and not a.reads]
        same = [a.runs for a in mine] == [loaded.runs] * 2
        if item.unit is not Unit.ALU or not (sources and covered and same):
            return None
        base = item.template.values.get("src_base", 0) + offset
        access = sources[0]._replace(instance=instance, runs=shifted(loaded.runs, offset))
        accesses = tuple(access if a is sources[0] else a for a in item.rows)
        template = item.template.replace(src_base=base)
        return place, item._replace(template=template, rows=accesses)
    return None


def _copy(
    load: SegmentInstruction, first: int, instance: Instance, addresses: RowAddresses
) -> SegmentInstruction:
    """A copy from `instance`, from row `first` on, instead of a LOAD."""
    (loaded,) = load.rows
    target = LoadedRows.of(load)
    get = load.template.values.get
    planes, rows = (get(f"{what}_stride_beats", 0) for what in ("block", "row"))
    source = replace(
        target, first=first, steps=(planes // addresses.row_beats, rows // addresses.row_beats, 1)
    )
    values = {"operation": int(AluOp.MOV), "destination": int(OutMemory.ACC)}
    for loop, extent in enumerate(target.extents):
        values[f"extent{loop}"] = extent
        if extent > 1:
            values[f"dst_factor{loop}"] = target.steps[loop]
            values[f"src_factor{loop}"] = source.steps[loop]
    template = Instruction.of(Opcode.ALU, dst_base=target.first, src_base=first, **values)
    accesses = (
        RowAccess(loaded.instance, "dst_base", target.runs, writes=True),
        RowAccess(instance, "src_base", source.runs, reads=True),
    )
    return SegmentInstruction(template, accesses, uops=((0, 0, 0),))
