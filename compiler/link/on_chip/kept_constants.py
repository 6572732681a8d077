"""Loads weights and parameters once that tiles of a layer load again and again.

The schedule of a layer loads the parameters of each tile, and the weights if they are not those of
all tiles. Where scratchpads have rows to spare, what is loaded several times stays until its last
use.

Before::

    LOAD   P = params[0:4]
    ALU    y[0] = requantize(A, P)
    LOAD   P = params[0:4]
    ALU    y[1] = requantize(A, P)

After::

    LOAD   K = params[0:4]
    ALU    y[0] = requantize(A, K)
    ALU    y[1] = requantize(A, K)

Input and output: the instructions of a stretch in program order.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from daedal.compiler.codegen.segment import Instance, SegmentInstruction, renamed
from daedal.compiler.cost.instructions import InstructionCost
from daedal.compiler.cost.kept_constants import LEAST_BUSY, SHARES, least_saved
from daedal.compiler.cost.memory import DDR
from daedal.compiler.link.ordering.interleave import Stretch
from daedal.isa.memory_model import MemoryModel
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["keep_constants"]

Items = Sequence[tuple[int, SegmentInstruction]]


class _Group(NamedTuple):
    """Instances that get the same constants, and the cycles of the LOADs of one."""

    instances: Sequence[Instance]
    cycles: int

    @property
    def gain(self) -> float:
        """Cycles that are saved for a row."""
        return self.cycles * (len(self.instances) - 1) / self.instances[0].rows


def keep_constants(
    part: Stretch, constants: Collection[str], variant: Variant, memory: MemoryModel = DDR
) -> Stretch:
    """The same stretch, with constants that are loaded several times loaded once, as far as rows
    are free, and if the bus has so much to do that this pays."""
    rates = InstructionCost(variant, memory)
    busy = rates.by_unit(item for _, item in part.items)
    if busy["bus"] < LEAST_BUSY * max(busy.values()):
        return part
    kept: dict[Instance, Instance] = {}
    for name, share in SHARES.items():
        depth = scratchpad(variant, name).depth_rows
        kept |= _kept(part, _groups(part.items, name, constants, rates), depth, share)
    gone = [item for _, item in part.items if _fills(item, kept)]
    if _cycles(gone, rates) < least_saved(busy["bus"]):
        return part
    items = [(layer, renamed(x, kept)) for layer, x in part.items if not _fills(x, kept)]
    return replace(part, items=tuple(items))


def _fills(item: SegmentInstruction, instances: Collection[Instance]) -> bool:
    """Whether an instruction is a LOAD into one of `instances`."""
    return item.unit is Unit.LOAD and item.rows[0].instance in instances


def _kept(
    part: Stretch, groups: Iterable[_Group], depth: int, share: float
) -> dict[Instance, Instance]:
    """By instance, the one that stands for it, for groups of one scratchpad. Two of the other
    tiles fit next to what is kept."""
    found: dict[Instance, Instance] = {}
    for group in sorted(groups, key=lambda group: -group.gain):
        if part.kept.intersection(group.instances):
            continue
        first, *others = group.instances
        more = found | dict.fromkeys(others, first)
        rows = sum(instance.rows for instance in set(more.values()))
        left = _most_live(part.items, first.memory, {*more, *more.values()})
        if rows <= share * depth and rows + 2 * left <= depth:
            found = more
    return found


def _groups(
    items: Items, memory: Memory, constants: Collection[str], rates: InstructionCost
) -> Iterator[_Group]:
    """Instances of a scratchpad that are filled with the same constants before they are read, and
    with nothing afterwards."""
    loads: dict[Instance, list[SegmentInstruction]] = {}
    read: set[Instance] = set()
    others: set[Instance] = set()
    for _, item in items:
        for access in item.rows:
            instance = access.instance
            if instance.memory is not memory:
                continue
            if not access.writes:
                read.add(instance)
            elif instance in read or item.tensor not in constants:
                others.add(instance)
            else:
                loads.setdefault(instance, []).append(item)
    groups: dict[object, list[Instance]] = {}
    for instance, found in loads.items():
        if instance not in others:
            key = (
                instance.rows,
                *((x.tensor, frozenset(x.template.values.items())) for x in found),
            )
            groups.setdefault(key, []).append(instance)
    for instances in groups.values():
        if len(instances) > 1:
            yield _Group(instances, _cycles(loads[instances[0]], rates))


def _cycles(loads: Iterable[SegmentInstruction], rates: InstructionCost) -> int:
    """Of the bus, for LOADs."""
    return sum(rates.of(item.template, 0) for item in loads)


def _most_live(items: Items, memory: Memory, but: Collection[Instance]) -> int:
    """The most rows of a scratchpad that are in use at once, without those of some instances."""
    uses: dict[Instance, tuple[int, int]] = {}
    for number, (_, item) in enumerate(items):
        for access in item.rows:
            if access.instance.memory is memory and access.instance not in but:
                first, _ = uses.get(access.instance, (number, number))
                uses[access.instance] = first, number
    changes: list[tuple[int, int, int]] = []
    for instance, (first, last) in uses.items():
        changes += [(first, 0, instance.rows), (last, 1, -instance.rows)]
    return max(accumulate((rows for *_, rows in sorted(changes))), default=0)
