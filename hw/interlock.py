"""The ALU's interlock: which steps read a row whose result is in flight.

Input: steps on their way to the issue point, groups that enter the pipeline and leave it in order.
Output: whether the step at the issue point must wait.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Interlock"]


class Interlock(wiring.Component):
    """A ring of the groups between issue and write, and which of them a step waits for.

    A step is compared with all rows at once two stages before the issue point. From there on it
    carries one bit per place of the ring, which is cleared when that group leaves, so only an OR
    stands before the issue. A row is free for a step two cycles after its group left.

    Members
    -------
    arrive : a step moves to the stage before the issue point, and the one there to that point.
    src, dst : its rows; reads_src, reads_dst, writes : what it does with them.
    enter : a group of the step at the issue point starts. Not while `full`.
    leave : the oldest group is written (or needed no write).
    blocked : the step at the issue point reads a row that a group in flight writes.
    full, empty : of the ring.
    """

    def __init__(self, *, row_bits: int, depth: int) -> None:
        self._depth = depth
        super().__init__(
            {
                "arrive": In(1),
                "src": In(row_bits),
                "dst": In(row_bits),
                "reads_src": In(1),
                "reads_dst": In(1),
                "writes": In(1),
                "enter": In(1),
                "leave": In(1),
                "blocked": Out(1),
                "full": Out(1),
                "empty": Out(1, init=1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        depth = self._depth
        entering, leaving = self._ring(m)
        busy = Signal(depth)
        rows = [Signal(len(self.dst), name=f"row{k}", reset_less=True) for k in range(depth)]
        # Of the steps at the issue point and before it; `behind` compares the two.
        row, writes = Signal.like(self.dst, reset_less=True), Signal()
        next_row, next_writes = Signal.like(self.dst, reset_less=True), Signal()
        waits, next_waits = Signal(depth), Signal(depth)
        behind = Signal()
        m.d.sync += [
            busy.eq(Mux(writes, entering, 0) | (busy & ~(leaving | entering))),
            self.blocked.eq(waits.any()),
            waits.eq(waits & ~leaving),
            next_waits.eq((next_waits & ~(leaving | entering)) | Mux(behind, entering, 0)),
        ]
        for number, entry in enumerate(rows):
            with m.If(entering[number]):
                m.d.sync += entry.eq(row)
        with m.If(self.arrive):
            compared = Cat(self._reads(entry) for entry in rows) & busy
            same = writes & self._reads(row)
            m.d.sync += [
                row.eq(next_row),
                writes.eq(next_writes),
                next_row.eq(self.dst),
                next_writes.eq(self.writes),
                behind.eq(next_writes & self._reads(next_row)),
                self.blocked.eq(behind | next_waits.any()),
                waits.eq((next_waits & ~(leaving | entering)) | Mux(behind, entering, 0)),
                next_waits.eq((compared & ~(leaving | entering)) | Mux(same, entering, 0)),
            ]
        return m

    def _reads(self, row: Value) -> Value:
        """The step that arrives reads this row."""
        return (self.reads_src & (self.src == row)) | (self.reads_dst & (self.dst == row))

    def _ring(self, m: Module) -> tuple[Value, Value]:
        """Places of the ring, one-hot: (that the group entering now takes, that one leaves)."""
        depth = self._depth
        head, tail = Signal(depth, init=1), Signal(depth, init=1)
        count = Signal(range(depth + 1))
        with m.If(self.enter):
            m.d.sync += head.eq(head.rotate_left(1))
        with m.If(self.leave):
            m.d.sync += tail.eq(tail.rotate_left(1))
        with m.If(self.enter & ~self.leave):
            m.d.sync += [
                count.eq(count + 1),
                self.full.eq(count == depth - 1),
                self.empty.eq(0),
            ]
        with m.Elif(self.leave & ~self.enter):
            m.d.sync += [count.eq(count - 1), self.full.eq(0), self.empty.eq(count == 1)]
        return Mux(self.enter, head, 0), Mux(self.leave, tail, 0)
