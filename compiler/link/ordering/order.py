"""Reorders the instructions of a layer for the LOAD queue.

LOAD is a single in-order queue, so data needed first has to be loaded first. Input and output: the
instructions of a segment.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from daedal.compiler.codegen.segment import (
    Instance,
    Runs,
    Segment,
    SegmentInstruction,
    overlap,
)
from daedal.isa.table import Unit

__all__ = ["by_need", "constants_first", "loads_by_need", "ordered"]


def ordered(segment: Segment, constants: Collection[str]) -> list[SegmentInstruction]:
    """The segment's instructions in the order that the program has them."""
    return constants_first(by_need(segment).instructions, constants)


def by_need(segment: Segment) -> Segment:
    """The segment with its LOADs as `loads_by_need` moves them; names do not matter for that."""
    if segment.is_by_need:
        return segment
    items = tuple(loads_by_need(segment.instructions))
    return replace(segment, instructions=items, is_by_need=True)


def loads_by_need(items: Sequence[SegmentInstruction]) -> list[SegmentInstruction]:
    """Move every LOAD directly before the first instruction that depends on it.

    The first product of a tile then waits only for its own rows. The rest of the tile is loaded
    meanwhile, and parameters after that. LOADs with the same first dependent keep their order. No
    instruction between the old and the new position touches the LOAD's rows or stores to its
    source, so the result is unchanged. LOADs without dependents are removed: tile sizes that do not
    divide a layer leave empty ones at its end.
    """
    loads = [item.unit is Unit.LOAD for item in items]
    # What later instructions touch: per instance and runs of rows, the smallest `need`.
    touched: dict[Instance, dict[Runs, int]] = {
        access.instance: {}
        for item, is_load in zip(items, loads, strict=True)
        if is_load
        for access in item.rows
    }
    stored: dict[str | None, int] = {}
    need: dict[int, int] = {}
    for number in reversed(range(len(items))):
        item = items[number]
        place = number
        if loads[number]:
            users = [
                other
                for access in item.rows
                for runs, other in touched[access.instance].items()
                if overlap(access.runs, runs)
            ]
            if not users:
                continue
            # A later LOAD into the same rows moves, too, and stays after this one.
            place = min(users)
            if item.tensor in stored:
                place = min(place, stored[item.tensor])
        elif item.unit is Unit.STORE:
            stored[item.tensor] = number
        need[number] = place
        for instance, _, runs, _, _, _ in item.rows:
            known = touched.get(instance)
            if known is not None:
                known[runs] = min(place, known.get(runs, place))
    order = sorted(need, key=lambda n: (need[n], not loads[n], n))
    return [items[number] for number in order]


def constants_first(
    items: Sequence[SegmentInstruction], constants: Collection[str]
) -> list[SegmentInstruction]:
    """Move leading LOADs that read `constants` before the other leading LOADs.

    A layer's first activations wait for the STOREs of the previous layer; weights and parameters
    can be loaded meanwhile. Reordering LOADs that precede all other instructions cannot change the
    result, because they write distinct buffers.
    """
    head = next((k for k, item in enumerate(items) if item.unit is not Unit.LOAD), len(items))
    leading = items[:head]
    early = [item for item in leading if item.tensor in constants]
    late = [item for item in leading if item.tensor not in constants]
    return [*early, *late, *items[head:]]
