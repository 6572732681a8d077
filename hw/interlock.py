"""The ALU's interlock: which accumulator rows have results in flight.

Input: groups that enter and leave in order. Output: whether a row must not be read yet.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

__all__ = ["Interlock"]


class Interlock(wiring.Component):
    """A ring of the groups between issue and write, searched by row.

    Members
    -------
    enter : a group starts; `writes`: it will write accumulator `row`. Not while `full`.
    leave : the oldest group is written (or needed no write).
    src, dst : rows to look up; src_busy, dst_busy : a group in flight writes them.
    full, empty : of the ring.
    """

    def __init__(self, *, row_bits: int, depth: int) -> None:
        self._depth = depth
        super().__init__(
            {
                "enter": In(1),
                "writes": In(1),
                "row": In(row_bits),
                "leave": In(1),
                "src": In(row_bits),
                "dst": In(row_bits),
                "src_busy": Out(1),
                "dst_busy": Out(1),
                "full": Out(1),
                "empty": Out(1),
            }
        )

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        depth = self._depth
        head, tail = Signal(range(depth)), Signal(range(depth))
        count = Signal(range(depth + 1))
        busy = Signal(depth)
        rows = [Signal(len(self.row), name=f"row{k}", reset_less=True) for k in range(depth)]
        m.d.comb += [
            self.full.eq(count == depth),
            self.empty.eq(count == 0),
            self.src_busy.eq((busy & Cat(row == self.src for row in rows)).any()),
            self.dst_busy.eq((busy & Cat(row == self.dst for row in rows)).any()),
        ]
        m.d.sync += count.eq(count + self.enter - self.leave)
        with m.If(self.leave):
            m.d.sync += [
                tail.eq(Mux(tail == depth - 1, 0, tail + 1)),
                busy.bit_select(tail, 1).eq(0),
            ]
        with m.If(self.enter):
            m.d.sync += [
                head.eq(Mux(head == depth - 1, 0, head + 1)),
                busy.bit_select(head, 1).eq(self.writes),
            ]
            with m.Switch(head):
                for number, row in enumerate(rows):
                    with m.Case(number):
                        m.d.sync += row.eq(self.row)
        return m
