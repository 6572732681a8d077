"""Order of instructions within a layer, where LOAD's queue is better served by another.

LOAD is one in-order queue: what is needed first has to stand first in it. Input and output: the
instructions of a segment.
"""

from collections.abc import Collection, Sequence

from daedal.compiler.codegen.segment import Instance, Segment, SegmentInstruction
from daedal.isa.table import Unit

__all__ = ["constants_first", "loads_by_need", "ordered"]


def ordered(segment: Segment, constants: Collection[str]) -> list[SegmentInstruction]:
    """The segment's instructions in the order that the program has them."""
    return constants_first(loads_by_need(segment.instructions), constants)


def loads_by_need(items: Sequence[SegmentInstruction]) -> list[SegmentInstruction]:
    """Every LOAD directly before the first instruction that has to wait for it, if there is one.

    A tile's first product then waits for the rows of the first product only, the rest of the tile
    streams in behind it, and parameters come when the multiplying is done. LOADs that one
    instruction waits for keep their order. Between the old place of a LOAD and the new one nothing
    touches its rows or stores to the tensor that it reads, so the same is computed. LOADs that
    nobody waits for vanish: tiles that do not divide a layer leave empty ones at its end.
    """
    touched = _touched(items)
    stored = _stored(items)
    need: dict[int, int] = {}
    for number in reversed(range(len(items))):
        item = items[number]
        if item.unit is not Unit.LOAD:
            need[number] = number
            continue
        users = [
            other
            for access in item.rows
            for other, begin, end in touched[access.instance]
            if other in need and begin < access.end and access.begin < end
        ]
        if users:
            # A later LOAD into the same rows moves, too, and stays behind this one.
            stores = [other for other in stored.get(item.tensor, ()) if other > number]
            need[number] = min(need[other] for other in (*users, *stores))
    order = sorted(need, key=lambda n: (need[n], items[n].unit is not Unit.LOAD, n))
    return [items[number] for number in order]


def _touched(items: Sequence[SegmentInstruction]) -> dict[Instance, list[tuple[int, int, int]]]:
    """Per instance, who touches which rows: (number, begin, end)."""
    found: dict[Instance, list[tuple[int, int, int]]] = {}
    for number, item in enumerate(items):
        for access in item.rows:
            found.setdefault(access.instance, []).append((number, access.begin, access.end))
    return found


def _stored(items: Sequence[SegmentInstruction]) -> dict[str | None, list[int]]:
    """Per tensor, the STOREs to it."""
    found: dict[str | None, list[int]] = {}
    for number, item in enumerate(items):
        if item.unit is Unit.STORE:
            found.setdefault(item.tensor, []).append(number)
    return found


def constants_first(
    items: Sequence[SegmentInstruction], constants: Collection[str]
) -> list[SegmentInstruction]:
    """The leading LOADs that read `constants` before the other leading ones.

    At the head of a layer its activations wait for the STOREs of the layer before; weights and
    parameters ahead of them stream in meanwhile. Moving a LOAD among LOADs that stand before any
    other instruction cannot change what is computed: they write distinct buffers.
    """
    head = next((k for k, item in enumerate(items) if item.unit is not Unit.LOAD), len(items))
    leading = items[:head]
    early = [item for item in leading if item.tensor in constants]
    late = [item for item in leading if item.tensor not in constants]
    return [*early, *late, *items[head:]]
