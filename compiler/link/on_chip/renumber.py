"""Instructions with other row numbers, for buffers whose rows move as `kept_results` needs them.

A hardware loop reaches rows at equal distances. Where rows have moved apart, a loop becomes two, a
STORE several, and products with padding instructions of their own. Input and output: instructions
of a layer.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from daedal.compiler.codegen.segment import Instance, RowAccess, Runs, SegmentInstruction
from daedal.compiler.link.on_chip.row_parts import LoadedRows, rows_of
from daedal.isa.numerics import IntArray
from daedal.isa.table import LOOPS

__all__ = [
    "MOST_PIECES",
    "RowTable",
    "cut_at_padding",
    "moved_stores",
    "pads_alone",
    "renumbered",
    "row_table",
    "rows_numbered",
]

MOST_PIECES = 8
"""STOREs in the place of one, where its rows are no longer side by side."""

_MOST_PADS = 63
"""Rows of padding that a LOAD can write in one line."""

RowTable = IntArray
"""Rows of one instance by those of another; -1 for those that are not there."""


def row_table(rows: Mapping[int, int]) -> RowTable:
    """The table of some rows."""
    table = np.full(max(rows, default=-1) + 1, -1)
    table[list(rows)] = list(rows.values())
    return table


_COLUMNS = {"acc": 0, "inp": 1, "wgt": 2, "dst": 0, "src": 1}
"""Where a micro-op has the row that a field counts from."""


def renumbered(
    item: SegmentInstruction, access: RowAccess, rows: RowTable, whole: Instance
) -> SegmentInstruction | None:
    """An instruction of GEMM or the ALU with the rows of `whole` for those of an access; None if
    its loops do not reach them in the same order."""
    name = access.field.removesuffix("_base")
    column = _COLUMNS[name]
    moved = _looked_up(rows, rows_numbered(item, name))
    if moved is None:
        return None
    for level in range(LOOPS):
        ends = _ends_of_runs(moved, level)
        if ends and moved.shape[level] % ends == 0:
            split = _with_split_loop(item, level, ends)
            return None if split is None else renumbered(split, access, rows, whole)
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


def cut_at_padding(
    item: SegmentInstruction, tensor: Collection[int], padding: Collection[int]
) -> tuple[SegmentInstruction, SegmentInstruction] | None:
    """Products with rows of INP that have a tensor, and those with padding, which are the last
    iterations of a loop over accumulator rows; None where it is otherwise."""
    values = item.template.values
    rows = rows_numbered(item, "inp")
    known = np.isin(rows, list(tensor))
    if not np.isin(rows[~known], list(padding)).all():
        return None
    for level in range(LOOPS):
        by_iteration = np.moveaxis(known, level, 0).reshape(known.shape[level], -1)
        count = int(by_iteration.all(axis=1).sum())
        extent = known.shape[level]
        inside = by_iteration[:count].all() and not by_iteration[count:].any()
        if inside and 0 < count < extent and values.get(f"acc_factor{level}", 0):
            moved = {
                f"{name}_base": values.get(f"{name}_base", 0)
                + count * values.get(f"{name}_factor{level}", 0)
                for name in ("acc", "inp", "wgt")
            }
            return (
                _with_fields(item, {f"extent{level}": count}),
                _with_fields(item, {f"extent{level}": extent - count, **moved}),
            )
    return None


def moved_stores(
    item: SegmentInstruction, rows: RowTable, whole: Instance, row_beats: int
) -> list[SegmentInstruction] | None:
    """A STORE from `whole`: as few as have their rows side by side; None if that takes many."""
    (access,) = item.rows
    get = item.template.values.get
    moved = rows[np.array(LoadedRows.of(item).rows, dtype=np.int64)]
    extents = (get("blocks", 0), get("rows", 0), get("cols", 0))
    if not moved.size:
        return [item]
    strides = (get("block_stride_beats", 0), get("row_stride_beats", 0), row_beats)
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


def pads_alone(load: SegmentInstruction, rows: Collection[int]) -> list[SegmentInstruction]:
    """LOADs that write some rows of the padding of a LOAD, and read nothing."""
    (access,) = load.rows
    wanted = rows_of(access) & set(rows)
    result = []
    for begin, end in _runs(np.array(sorted(wanted))) if wanted else ():
        for first in range(begin, end, _MOST_PADS):
            count = min(_MOST_PADS, end - first)
            template = load.template.replace(
                row=first, blocks=1, rows=1, cols=0,
                pad_top=0, pad_bottom=0, pad_left=0, pad_right=count,
            )  # fmt: skip
            written = access._replace(runs=((first, first + count),))
            result.append(load._replace(template=template, rows=(written,)))
    return result


def rows_numbered(item: SegmentInstruction, name: str) -> IntArray:
    """The rows that a field numbers, as `_steps`."""
    return _steps(item, name, [uop[_COLUMNS[name]] for uop in item.uops or ()])


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


def _with_fields(item: SegmentInstruction, values: Mapping[str, int]) -> SegmentInstruction:
    """Products with other loops, and the rows that they access."""
    item = item._replace(template=item.template.replace(**values))
    return item._replace(
        rows=tuple(
            access._replace(runs=_runs(rows_numbered(item, access.field.removesuffix("_base"))))
            for access in item.rows
        )
    )


def _looked_up(rows: RowTable, index: IntArray) -> IntArray | None:
    """The rows at `index`; None if it is empty or has a row that is not there."""
    if not index.size or int(index.max()) >= len(rows):
        return None
    found: IntArray = rows[index]
    return None if found.min() < 0 else found


def _runs(rows: IntArray) -> Runs:
    """Row numbers as ranges."""
    numbers = np.unique(rows)
    ends = np.flatnonzero(np.diff(numbers) > 1)
    begins = numbers[np.concatenate([[0], ends + 1])]
    lasts = numbers[np.concatenate([ends, [len(numbers) - 1]])]
    return tuple((int(a), int(b) + 1) for a, b in zip(begins, lasts, strict=True))
