"""Performance counters: cycles per unit and class, work per unit, cycles and bus words in total.

Input: the class of every unit in every cycle. Output: the counts that the control registers show
and that marks record.
"""

from amaranth.hdl import Module, ValueLike
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.issue.tokens import CLASS_BITS, QUEUED_UNITS
from daedal.hw.pipeline import delay
from daedal.isa.registers import CLASSES, COUNTER_BITS
from daedal.isa.table import Unit
from daedal.isa.variant import Variant

__all__ = ["COUNTS", "Counters", "counts_layout"]

COUNTS = len(CLASSES) + 1
"""Counters of one unit: a cycle counter per class, then its work."""

_LATE_CYCLES = 2
"""Register stages from an event to the counters: the units' signals have long paths."""


def counts_layout() -> data.ArrayLayout:
    """Counters of one unit, by class, work last."""
    return data.ArrayLayout(COUNTER_BITS, COUNTS)


class Counters(wiring.Component):
    """Count while `running`; hold otherwise; start from zero at `clear`.

    Inputs are registered, so a count shows an event three cycles after it. All counts have the same
    delay: a unit's classes sum to `cycles` at all times. Without `units.counters` only `cycles` and
    the bus words are built, and the others read 0.

    Members
    -------
    running, clear : see above. cycle_class[u], work[u] : of all five units; units with a queue
        report the class of the previous cycle, from their gates.
    beat_read, beat_written : a bus word was transferred.
    counts[u], cycles, beats_read, beats_written : the counts.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._full = variant.units.counters
        super().__init__(
            {
                "running": In(1),
                "clear": In(1),
                "cycle_class": In(CLASS_BITS).array(len(Unit)),
                "work": In(1).array(len(Unit)),
                "beat_read": In(1),
                "beat_written": In(1),
                "counts": Out(counts_layout()).array(len(Unit)),
                "cycles": Out(64),
                "beats_read": Out(64),
                "beats_written": Out(64),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        running = delay(
            m, self.running & ~self.clear, _LATE_CYCLES, name="running", reset_less=False
        )
        for total, event in (
            (self.cycles, None),
            (self.beats_read, self.beat_read),
            (self.beats_written, self.beat_written),
        ):
            self._count(m, total, running, event)
        if self._full:
            for unit in Unit:
                late = _LATE_CYCLES - 1 if unit in QUEUED_UNITS else _LATE_CYCLES
                kind = delay(m, self.cycle_class[unit], late, name=f"class{unit:d}")
                work = delay(m, self.work[unit], _LATE_CYCLES, name=f"worked{unit:d}")
                counts = self.counts[unit]
                classes = [kind == number for number in CLASSES]
                one = sum(classes) == 1
                contract(m, platform, ~running | one, "a cycle of a unit must be of one class")
                for number, event in enumerate((*classes, work)):
                    with m.If(self.clear):
                        m.d.sync += counts[number].eq(0)
                    with m.Elif(running & event):
                        m.d.sync += counts[number].eq(counts[number] + 1)
        return m

    def _count(self, m: Module, total, running: ValueLike, event) -> None:
        happened = running
        if event is not None:
            happened &= delay(m, event, _LATE_CYCLES, name=f"{total.name}_event")
        with m.If(self.clear):
            m.d.sync += total.eq(0)
        with m.Elif(happened):
            m.d.sync += total.eq(total + 1)
