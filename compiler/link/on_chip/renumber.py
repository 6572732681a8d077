"""Instructions with other row numbers, for buffers whose rows move as `kept_results` needs them.

A hardware loop reaches rows at equal distances. Where rows have moved apart, a loop becomes two, a
STORE several, and products with padding instructions of their own. Input and output: instructions
of a layer.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from daedal.compiler.codegen.segment import Instance, RowAccess, Runs, SegmentInstruction
from daedal.compiler.link.on_chip.row_parts import LoadedRows, rows_of
from daedal.isa.numerics import IntArray
from daedal.isa.table import EXTENTS, LOOPS

__all__ = [
    "MOST_PIECES",
    "RowTable",
    "cut_at_padding",
    "moved_stores",
    "pads_alone",
    "renumbered",
    "row_table",
    "rows_numbered",
    "runs_of",
]

MOST_PIECES = 8
"""STOREs in the place of one, where its rows are no longer side by side."""

_MOST_PADS = 63
"""Rows of padding that a LOAD can write in one line."""

_COLUMNS = {"acc": 0, "inp": 1, "wgt": 2, "dst": 0, "src": 1, "par": 2}
"""Where a micro-op has the row that a field counts from."""


class _Steps(NamedTuple):
    """Rows that a field of an instruction numbers: `begin`, plus `offsets`, one for each micro-op,
    plus the iteration of each loop, of `extents`, times its factor."""

    begin: int
    offsets: tuple[int, ...]
    extents: tuple[int, ...]
    factors: tuple[int, ...]

    @classmethod
    def of(cls, item: SegmentInstruction, name: str) -> "_Steps":
        """Those of a field without its ending."""
        get, column = item.template.values.get, _COLUMNS[name]
        return cls(
            get(f"{name}_base", 0),
            tuple([uop[column] for uop in item.uops or ()]),
            tuple([get(name, 0) for name in EXTENTS]),
            tuple([get(f"{name}_factor{level}", 0) for level in range(LOOPS)]),
        )

    @property
    def rows(self) -> IntArray:
        """All of them: one axis for each loop, and one for the micro-ops."""
        rows = np.array(self.offsets, dtype=np.int64) + self.begin
        for extent, factor in zip(reversed(self.extents), reversed(self.factors), strict=True):
            rows = (np.arange(extent) * factor).reshape(-1, *[1] * rows.ndim) + rows
        return rows


class _Cut(NamedTuple):
    """A loop that must become two, the inner one of `extent` iterations."""

    level: int
    extent: int


class _Moved(NamedTuple):
    """Steps with other rows, and these as ranges."""

    steps: _Steps
    runs: Runs


class RowTable:
    """Rows of one instance by those of another, with how steps move: an operand is multiplied by
    the weights of many channels."""

    def __init__(self, pairs: Iterable[tuple[int, int]]) -> None:
        rows = dict(pairs)
        self._rows = np.full(max(rows, default=-1) + 1, -1)
        self._rows[list(rows)] = list(rows.values())
        self._known: dict[_Steps, _Moved | _Cut | None] = {}

    def of(self, index: IntArray) -> IntArray | None:
        """The rows at `index`; None if it is empty or has a row that is not there."""
        if not index.size or int(index.max()) >= len(self._rows):
            return None
        found: IntArray = self._rows[index]
        return None if found.min() < 0 else found

    def moved(self, steps: _Steps) -> _Moved | _Cut | None:
        """Steps that reach the rows of those given in the same order; None if there are none."""
        if steps not in self._known:
            self._known[steps] = self._moved(steps)
        return self._known[steps]

    def _moved(self, steps: _Steps) -> _Moved | _Cut | None:
        moved = self.of(steps.rows)
        if moved is None:
            return None
        for level in range(LOOPS):
            ends = _ends_of_runs(moved, level)
            if ends and moved.shape[level] % ends == 0:
                return _Cut(level, ends)
        first = moved[0, 0, 0]
        base = int(first.min())
        factors = [
            int(np.take(moved, min(1, extent - 1), level).flat[0] - first[0])
            for level, extent in enumerate(moved.shape[:LOOPS])
        ]
        offsets = [int(row) - base for row in first]
        found = _Steps(base, tuple(offsets), steps.extents, tuple(factors))
        if min(factors) < 0 or not np.array_equal(found.rows, moved):
            return None
        return _Moved(found, runs_of(moved))


@lru_cache(maxsize=64)
def row_table(rows: tuple[tuple[int, int], ...]) -> RowTable:
    """The table of some rows. Instances into which the same is loaded share one."""
    return RowTable(rows)


def renumbered(
    item: SegmentInstruction, access: RowAccess, rows: RowTable, whole: Instance
) -> SegmentInstruction | None:
    """An instruction of GEMM or the ALU with the rows of `whole` for those of an access; None if
    its loops do not reach them in the same order."""
    name = access.field.removesuffix("_base")
    found = rows.moved(_Steps.of(item, name))
    if isinstance(found, _Cut):
        split = _with_split_loop(item, found.level, found.extent)
        return None if split is None else renumbered(split, access, rows, whole)
    if found is None:
        return None
    steps, column = found.steps, _COLUMNS[name]
    factors = {f"{name}_factor{level}": factor for level, factor in enumerate(steps.factors)}
    template = item.template.replace(**{access.field: steps.begin, **factors})
    accesses = tuple(
        other._replace(instance=whole, runs=found.runs) if other is access else other
        for other in item.rows
    )
    sequence = tuple(
        (*uop[:column], offset, *uop[column + 1 :])
        for uop, offset in zip(item.uops or (), steps.offsets, strict=True)
    )
    return item._replace(template=template, rows=accesses, uops=sequence)


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
    extents = (get("blocks", 0), get("rows", 0), get("cols", 0))
    if not math.prod(extents):
        return [item]
    moved = rows.of(np.array(LoadedRows.of(item).rows, dtype=np.int64))
    assert moved is not None, "what is stored has its rows"
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
    for begin, end in runs_of(np.array(sorted(wanted))) if wanted else ():
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
    """The rows that a field numbers: one axis for each loop, and one for the micro-ops."""
    return _Steps.of(item, name).rows


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
    extents = [values.get(name, 0) for name in EXTENTS]
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
            access._replace(runs=runs_of(rows_numbered(item, access.field.removesuffix("_base"))))
            for access in item.rows
        )
    )


def runs_of(rows: IntArray) -> Runs:
    """Row numbers as ranges."""
    numbers = np.unique(rows)
    ends = np.flatnonzero(np.diff(numbers) > 1)
    begins = numbers[np.concatenate([[0], ends + 1])]
    lasts = numbers[np.concatenate([ends, [len(numbers) - 1]])]
    return tuple((int(a), int(b) + 1) for a, b in zip(begins, lasts, strict=True))
