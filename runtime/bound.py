"""What bounds a layer: a unit or the bus that is nearly always busy, or units waiting in turns.

Input: a layer's cycles, its units' counters and the bus words it moved. Output: a `Bound`, and the
chain of units that wait for each other.
"""

from collections.abc import Mapping
from enum import StrEnum

from daedal.isa.profile import UnitCounters
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit

__all__ = ["AT_WORK_SHARE", "WAITS", "Bound", "at_work", "find_bound", "wait_chain"]

AT_WORK_SHARE = 0.75
"""A unit that is at work for this share of a layer bounds it: improving anything else leaves three
quarters of the cycles."""

WAITS: dict[CycleClass, Unit] = {
    CycleClass[f"WAIT_{unit.name}"]: unit for unit in (Unit.LOAD, Unit.GEMM, Unit.ALU, Unit.STORE)
}
"""The unit whose token each wait class waits for."""


class Bound(StrEnum):
    """What a layer's cycles are spent on.

    GEMM, ALU: that unit works all the time. LOAD, STORE: that unit, or the bus. TOKENS: the units
    take turns. FETCH: they have no instructions.
    """

    GEMM = "GEMM"
    ALU = "ALU"
    LOAD = "load"
    STORE = "store"
    TOKENS = "tokens"
    FETCH = "fetch"


def at_work(cycles: int, counters: UnitCounters) -> float:
    """Share of a layer in which a unit was BUSY or STALLed, that is, executing an instruction.

    The denominator is the longer of the layer's `cycles` and the unit's own cycles for it, so the
    share is at most 1 even for a unit that began while the previous layer was still running.
    """
    whole = max(cycles, counters.cycles)
    working = counters.classes[CycleClass.BUSY] + counters.classes[CycleClass.STALL]
    return working / whole if whole else 0.0


def find_bound(
    cycles: int, units: Mapping[Unit, UnitCounters], words_read: int = 0, words_written: int = 0
) -> Bound:
    """What bounds a layer of `cycles` that moved the given numbers of bus words.

    1. The unit at the end of the `wait_chain`, if it is `at_work` for `AT_WORK_SHARE` of the layer:
       the others wait for it, and it waits for no unit.
    2. LOAD or STORE, whichever moved more, if their words together are `AT_WORK_SHARE` of the
       cycles: they share the bus, which can be saturated while neither is always busy.
    3. Otherwise nothing is always busy. TOKENS, if the units together spent at least as many cycles
       waiting for tokens as without an instruction (IDLE): they take turns.
    4. Otherwise FETCH: the instructions arrive too late.
    """
    chain = wait_chain(units)
    last = chain[-1]
    if chain.count(last) == 1 and at_work(cycles, units[last]) >= AT_WORK_SHARE:
        return Bound[last.name]
    words = words_read + words_written
    if words and words >= AT_WORK_SHARE * cycles:
        return Bound.LOAD if words_read >= words_written else Bound.STORE
    waiting = sum(item.classes[kind] for item in units.values() for kind in WAITS)
    idle = sum(item.classes[CycleClass.IDLE] for item in units.values())
    return Bound.TOKENS if waiting >= idle else Bound.FETCH


def wait_chain(units: Mapping[Unit, UnitCounters]) -> tuple[Unit, ...]:
    """The chain of waiting units from STORE, whose last retirement ends a layer, to the bottleneck.

    A unit is followed by the unit it waited for longest, provided that it waited for it for more
    cycles than it was at work. A chain that returns to a unit ends with it: those units took turns.
    """
    chain = [Unit.STORE]
    while chain.count(chain[-1]) == 1:
        classes = units[chain[-1]].classes
        kind = max(WAITS, key=lambda kind: classes[kind])
        if classes[kind] <= classes[CycleClass.BUSY] + classes[CycleClass.STALL]:
            break
        chain.append(WAITS[kind])
    return tuple(chain)
