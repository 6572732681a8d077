"""Cuts LOADs of weights into parts that move on their own, orders these, and joins them again.

Input: placed instructions of `weights_ahead`, which moves the parts.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from daedal.compiler.link.ordering.program_times import Integers, ProgramTimes, Times
from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.table import Opcode

__all__ = ["PART_WORDS", "Part", "by_need", "joined", "parts_of", "piece_of", "rows_of_part"]

PART_WORDS = 1024
"""Bus words of a part of a LOAD."""


class Part(NamedTuple):
    """Rows of what instruction `number` loads, counted from its first one; of other instructions,
    `begin` and `end` are 0."""

    number: int
    begin: int = 0
    end: int = 0


def rows_of_part(item: PlacedInstruction, words: Mapping[tuple[Opcode, int], int]) -> int | None:
    """How many rows of a LOAD are a part; None if it cannot be cut."""
    get = item.instruction.values.get
    rows, cols = get("rows", 0), get("cols", 0)
    if get("blocks") != 1 or len(item.rows) != 1 or len(item.rows[0].runs) != 1:
        return None
    ((begin, end),) = item.rows[0].runs
    beats = words[item.instruction.opcode, get("memory", 0)]
    unit = cols if rows > 1 else 1
    size = max(PART_WORDS // (unit * beats), 1) * unit
    padded = any(get(f"pad_{side}", 0) for side in ("top", "bottom", "left", "right"))
    return None if padded or end - begin != rows * cols or size >= rows * cols else size


def parts_of(number: int, item: PlacedInstruction, size: int | None) -> Iterator[Part]:
    """Parts of `size` rows; None: the whole instruction."""
    if size is None:
        yield Part(number)
        return
    ((first, last),) = item.rows[0].runs
    for begin in range(0, last - first, size):
        yield Part(number, begin, min(begin + size, last - first))


def piece_of(
    item: PlacedInstruction, part: Part, words: Mapping[tuple[Opcode, int], int]
) -> PlacedInstruction:
    """The instruction that loads a part."""
    begin, end = part.begin, part.end
    whole = item.instruction
    rows, cols = whole.values.get("rows", 0), whole.values.get("cols", 0)
    if end - begin in (0, rows * cols):
        return item
    if rows > 1:
        part_of = whole.replace(rows=(end - begin) // cols)
        offset = begin // cols * whole.row_stride_beats
    else:
        part_of = whole.replace(cols=end - begin)
        offset = begin * words[whole.opcode, whole.memory]
    (touched,) = item.rows
    first = touched.runs[0][0]
    touched = touched._replace(runs=((first + begin, first + end),))
    moved = part_of.shifted({"row": begin, "offset_beats": offset})
    return item._replace(instruction=moved, rows=(touched,))


def by_need(schedule: ProgramTimes, order: Integers, times: Times) -> Integers:
    """The order in which, of LOADs of constants next to each other, those come first whose rows are
    free, and of these the ones that came first in the program: products need them first."""
    found: list[int] = []
    for constant, group in groupby(order.tolist(), key=lambda n: bool(schedule.constant[n])):
        run = list(group)
        found += _run_by_need(schedule, run, times) if constant else run
    return np.array(found, dtype=order.dtype)


def _run_by_need(schedule: ProgramTimes, left: list[int], times: Times) -> Iterator[int]:
    """The LOADs `left`, between which there are no other instructions."""
    time = int(times.begins[left[0]])
    ready = {number: schedule.ready(number, times) for number in left}
    while left:
        free = [n for n in left if not set(schedule.before.of(n)).intersection(left)]
        number = min(free, key=lambda n: (max(ready[n], time), n))
        left.remove(number)
        time = max(time, ready[number]) + int(schedule.cycles[number])
        yield number


def joined(
    parts: Sequence[Part], schedule: ProgramTimes, order: Sequence[int], times: Times
) -> Iterator[Part]:
    """The parts in this order, those that still follow each other in one, unless the LOAD would
    have to wait for the rows of the later one."""
    last: Part | None = None
    begin = 0
    for number in order:
        part = parts[number]
        follows = last is not None and (part.number, part.begin) == (last.number, last.end)
        if last is not None and follows and schedule.ready(number, times) <= begin:
            last = last._replace(end=part.end)
            continue
        if last is not None:
            yield last
        last, begin = part, int(times.begins[number])
    if last is not None:
        yield last
