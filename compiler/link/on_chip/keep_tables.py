"""Loads no table that is on chip already.

Layers share tables, such as those of norms. Each layer loads its own; here, tables get new places,
so that those stay that are read again soonest, and a LOAD of a table that is there is left out.

Input and output: placed instructions with their memory, in program order.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from daedal.compiler.link.placement.placed import PlacedInstruction
from daedal.isa.scratchpad import TABLE_ROWS, Memory, scratchpads
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["keep_tables"]

Table = int
"""Where the table lies among the constants, in bus words."""


def keep_tables(variant: Variant, items: Sequence[PlacedInstruction]) -> list[PlacedInstruction]:
    """The same program with fewer LOADs of tables. Exact.

    A table is loaded where it was, or not at all. It takes the place of the one that is read again
    last, of those that are not loaded for a later reader already.
    """
    pads = scratchpads(variant)
    if Memory.TAB not in pads:
        return list(items)
    uses = _uses(items)
    times: dict[Table, list[int]] = {}
    for number, (table, _) in uses.items():
        times.setdefault(table, []).append(number)
    places: list[Table | None] = [None] * (pads[Memory.TAB].depth_rows // TABLE_ROWS)
    result = []
    for number, item in enumerate(items):
        use = uses.get(number)
        if use is None:
            result.append(item)
        elif use.table not in places:
            assert use.loads, "a table is loaded before it is read"
            place = _free_place(places, times, uses, number)
            places[place] = use.table
            result.append(_moved(item, place))
        elif not use.loads:
            result.append(_moved(item, places.index(use.table)))
    return result


class _Use(NamedTuple):
    """An instruction that loads or reads a table."""

    table: Table
    loads: bool


def _uses(items: Sequence[PlacedInstruction]) -> dict[int, _Use]:
    """The instructions with tables, by number."""
    held: dict[int, Table] = {}
    found: dict[int, _Use] = {}
    for number, item in enumerate(items):
        for rows in item.rows:
            if rows.memory is not Memory.TAB:
                continue
            place, loads = rows.first // TABLE_ROWS, item.unit is Unit.LOAD
            if loads:
                held[place] = item.instruction.values.get("offset_beats", 0)
            found[number] = _Use(held[place], loads)
    return found


def _free_place(
    places: Sequence[Table | None],
    times: Mapping[Table, Sequence[int]],
    uses: Mapping[int, _Use],
    number: int,
) -> int:
    """The place whose table is used last after `number`, or never, and is loaded before it is
    read."""
    best, latest = -1, -1
    for place, table in enumerate(places):
        if table is None:
            return place
        after = bisect_right(times[table], number)
        if after == len(times[table]):
            return place
        following = times[table][after]
        if uses[following].loads and following > latest:
            best, latest = place, following
    assert best >= 0, "no more tables are needed at once than there are places"
    return best


def _moved(item: PlacedInstruction, place: int) -> PlacedInstruction:
    """The instruction with its table in another place."""
    if item.unit is Unit.LOAD:
        instruction = item.instruction.replace(row=place * TABLE_ROWS)
    else:
        instruction = item.instruction.replace(table=place)
    rows = tuple(
        access._replace(first=place * TABLE_ROWS) if access.memory is Memory.TAB else access
        for access in item.rows
    )
    return item._replace(instruction=instruction, rows=rows)
