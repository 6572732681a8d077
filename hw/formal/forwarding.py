"""Claims about GEMM's accumulation: each product is added to the previous result in its row."""

from types import ModuleType
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from daedal.hw.formal.claims import Claims
from daedal.hw.gemm import forwarding
from daedal.hw.interfaces import scratchpad_read_signature
from daedal.hw.pipeline import delay
from daedal.isa.latencies import (
    ACC_READ_CYCLES,
    ACC_READ_TO_SUM_CYCLES,
    ACC_READ_TO_WRITE_CYCLES,
    GEMM_AHEAD_CYCLES,
)

__all__ = ["INDUCTION_CYCLES", "Forwarding"]

INDUCTION_CYCLES = GEMM_AHEAD_CYCLES + ACC_READ_TO_SUM_CYCLES + ACC_READ_TO_WRITE_CYCLES + 1
"""Cycles from the oldest product that a sum may depend on to that sum."""

_SEEN = 2
"""Cycles from the announcement of a read until the model samples its row. By then exactly the
writes accepted before the read are complete, because their data also follows two cycles later."""


class Forwarding(Claims):
    """For any sequence of rows, each product is added to its row as the previous product left it.

    Products arrive for any row in any cycle, add any number, and overwrite or not. One arbitrary
    row is chosen for a whole run, so the claims hold for all rows. A model sums its products in
    order, and GEMM must write exactly these sums into the row. The memory keeps the accumulators'
    contract: a read sees the writes accepted before it, and returns any value if a write is
    accepted in the same cycle, or for other rows.

    With the claims on the memory, the claims are inductive over `INDUCTION_CYCLES`: after that many
    cycles, all values in the registers have arrived in these cycles.

    Parameters
    ----------
    row_bits : width of a row number. elements, bits : elements of a row, and bits of each; four or
        more elements make four slices, fewer one slice each.
    module : `hw.gemm.forwarding`; tests pass a broken one.
    """

    def __init__(
        self,
        *,
        row_bits: int = 2,
        elements: int = 2,
        bits: int = 2,
        module: ModuleType = forwarding,
    ) -> None:
        super().__init__()
        self._row_bits = row_bits
        self._elements, self._bits = elements, bits
        self._module: Any = module

    def state(self, m: Module) -> None:
        bits, row_bits = self._bits, self._row_bits
        self._width = width = self._elements * bits
        read = scratchpad_read_signature(row_bits, width).create(path=("read",))
        write = wiring.Signature(
            {"enable": Out(1), "row": Out(row_bits), "data": Out(width)}
        ).create(path=("write",))
        chosen = self.constant(m, row_bits, "chosen")
        valid, row = self.free(1, "product"), self.free(row_bits, "row")
        restart = self.free(1, "restart")
        totals = [self.free(bits, f"total{k}") for k in range(self._elements)]
        accumulation = self._module.Accumulation(
            m, self._gathered, read=read, write=write, bits=bits
        )
        accumulation.add(valid=valid, row=row, restart=restart, totals=totals)
        ahead = GEMM_AHEAD_CYCLES
        to_sum = ahead + ACC_READ_TO_SUM_CYCLES
        comes = [valid & (row == chosen)]
        for age in range(to_sum + 1):
            comes.append(Signal(name=f"came_{age}"))
            m.d.sync += comes[-1].eq(comes[-2])
        overwrites = delay(m, restart, to_sum - ahead, name="overwrites")
        summed, summed_before = Signal(width), Signal(width)
        m.d.sync += summed_before.eq(summed)
        with m.If(comes[to_sum]):
            for number, total in enumerate(totals):
                element = summed.word_select(number, bits)
                m.d.sync += element.eq(Mux(overwrites, 0, element) + total)
        self.require(m, "sums_are_the_models", ~comes[to_sum + 1] | (write.data == summed))

        announced = write.enable & (write.row == chosen)
        stored = self._memory(m, read, write, chosen, announced)
        # The write is in the cycle of the sum, so it is announced one cycle earlier.
        self.require(m, "writes_are_announced", announced == comes[to_sum - ahead])
        self.require(m, "reads_are_announced", (read.enable == valid) & (read.row == row))
        self.require(m, "the_memory_follows", stored == summed_before)
        for distance in range(1, ACC_READ_TO_WRITE_CYCLES + 2):
            again = Signal(distance, name=f"row_{distance}_before")
            m.d.sync += again.eq((again << 1) | comes[to_sum])
            both = comes[to_sum] & ~overwrites & (again == 1 << (distance - 1))
            self.reach(m, f"takes_the_row_{distance}_later", both)

    def _memory(self, m: Module, read: Any, write: Any, chosen: Value, announced: Value) -> Signal:
        """A model of the accumulators that stores only the chosen row; return that row."""
        stored = Signal(self._width)
        with m.If(delay(m, announced, _SEEN, name="written", reset_less=False)):
            m.d.sync += stored.eq(write.data)
        sees = read.enable & (read.row == chosen) & ~announced
        sees = delay(m, sees, _SEEN, name="sees", reset_less=False)
        answer = Mux(sees, stored, self.free(self._width, "other_answer"))
        left = ACC_READ_CYCLES + GEMM_AHEAD_CYCLES - _SEEN
        m.d.comb += read.data.eq(delay(m, answer, left, name="answer"))
        return stored
