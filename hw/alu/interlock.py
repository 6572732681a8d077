"""The ALU's interlock: stalls steps that read a row whose result is in flight.

Input: steps before the issue point, groups that enter the pipeline and leave it in order. Output:
whether the step at the issue point must stall.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.contracts import before, checks_contracts, contract
from daedal.hw.family import Platform
from daedal.hw.pipeline import register

__all__ = ["Interlock"]


class Interlock(wiring.Component):
    """A ring of the groups between issue and write; each step records those it waits for.

    A step is compared with all rows at once when it arrives, two moves before the issue point. From
    then on it carries one bit per place of the ring, cleared when that group leaves, so only an OR
    lies before the issue decision. A row may be read three cycles after its group left.

    Members
    -------
    src, dst : rows of the arriving step; reads_src, reads_dst, writes : how it uses them.
    parked : a step waits directly before the issue point; none arrives meanwhile. Otherwise a step
        arrives in every cycle, and the one before it goes to the issue point or parks.
    next : the issue point takes its next step.
    enter : a group of the step at the issue point starts. Not in a cycle after `stops`.
    leave : the oldest group is written (or needed no write); registered first, because its path is
        long.
    stops : the step that is at the issue point in the next cycle may not start there: it reads a
        row that a group in flight writes, or the ring is full.
    empty : of the ring.
    """

    def __init__(self, *, row_bits: int, depth: int) -> None:
        self._depth = depth
        super().__init__(
            {
                "src": In(row_bits),
                "dst": In(row_bits),
                "reads_src": In(1),
                "reads_dst": In(1),
                "writes": In(1),
                "parked": In(1),
                "next": In(1),
                "enter": In(1),
                "leave": In(1),
                "stops": Out(1),
                "empty": Out(1, init=1),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        depth = self._depth
        entering, leaving, is_full, gets_full = self._ring(m, platform)
        busy = Signal(depth)
        rows = [Signal(len(self.dst), name=f"row{k}", reset_less=True) for k in range(depth)]
        # A step's destination row, whether it writes that row, and the groups that it waits for.
        # first, second: it reads the row of the step at the issue point, of the parked step.
        layout = data.StructLayout(
            {"row": len(self.dst), "writes": 1, "waits": depth, "first": 1, "second": 1}
        )
        issued, parked, arrived = (
            Signal(layout, name=name) for name in ("issued", "parked_step", "arrived")
        )

        def waits(step: Any) -> Value:
            return (step.waits & ~(leaving | entering)) | Mux(step.first, entering, 0)

        m.d.sync += [
            busy.eq(Mux(issued.writes, entering, 0) | (busy & ~(leaving | entering))),
            issued.waits.eq(issued.waits & ~leaving),
            parked.waits.eq(waits(parked)),
            arrived.waits.eq(waits(arrived)),
        ]
        for number, entry in enumerate(rows):
            with m.If(entering[number]):
                m.d.sync += entry.eq(issued.row)
        following = Signal(layout)
        # Both cases come from registers; the late signals are only mux selects.
        next_waits = following.first | following.waits.any()
        still_waits = issued.waits.any()
        m.d.comb += [
            following.eq(Mux(self.parked, parked, arrived)),
            self.stops.eq(
                Mux(self.next, next_waits, still_waits) | is_full | (self.enter & gets_full)
            ),
        ]
        with m.If(self.next):
            m.d.sync += [
                issued.eq(following),
                issued.waits.eq(waits(following)),
                arrived.first.eq(arrived.second),
                arrived.second.eq(0),
            ]
        with m.If(~self.parked):
            compared = Cat(self._reads(entry) for entry in rows) & busy
            reads_issued = issued.writes & self._reads(issued.row)
            reads_arrived = arrived.writes & self._reads(arrived.row)
            m.d.sync += [
                parked.eq(arrived),
                parked.waits.eq(waits(arrived)),
                arrived.row.eq(self.dst),
                arrived.writes.eq(self.writes),
                arrived.waits.eq(
                    (compared & ~(leaving | entering)) | Mux(reads_issued, entering, 0)
                ),
                arrived.first.eq(Mux(self.next, reads_arrived, reads_issued)),
                arrived.second.eq(Mux(self.next, 0, reads_arrived)),
            ]
        if checks_contracts(platform):
            stopped = before(m, self.stops)
            contract(m, platform, ~(self.enter & stopped), "no group must start where it must not")
        return m

    def _reads(self, row: Value) -> Value:
        """Whether the arriving step reads this row."""
        return (self.reads_src & (self.src == row)) | (self.reads_dst & (self.dst == row))

    def _ring(self, m: Module, platform: Platform) -> tuple[Value, Value, Value, Value]:
        """Return the places, one-hot, that (the entering group takes, a leaving group frees).

        Then whether the ring is full in the next cycle, and whether it is if a group enters now.
        """
        depth = self._depth
        head, tail = Signal(depth, init=1), Signal(depth, init=1)
        count = Signal(range(depth + 1))
        leaves = register(m, self.leave, name="leaves", reset_less=False)
        leaving = register(m, Mux(self.leave, tail, 0), name="leaving", reset_less=False)
        with m.If(self.enter):
            m.d.sync += head.eq(head.rotate_left(1))
        with m.If(self.leave):
            m.d.sync += tail.eq(tail.rotate_left(1))
        with m.If(self.enter & ~leaves):
            m.d.sync += [count.eq(count + 1), self.empty.eq(0)]
        with m.Elif(leaves & ~self.enter):
            m.d.sync += [count.eq(count - 1), self.empty.eq(count == 1)]
        for holds, rule in (
            (~self.leave | ((head != tail) | (count == depth)), "only a group inside must leave"),
            (~self.enter | leaves | (count != depth), "a full ring must take no group"),
            (self.empty == (count == 0), "the flag empty must say what the count does"),
        ):
            contract(m, platform, holds, rule)
        # A full ring accepts no group, so a ring that a group leaves has room.
        is_full, gets_full = (~leaves & (count == number) for number in (depth, depth - 1))
        return Mux(self.enter, head, 0), leaving, is_full, gets_full
