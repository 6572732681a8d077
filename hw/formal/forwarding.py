"""Claims about GEMM's accumulation: a product is added to what the ones before left in its row."""

from types import ModuleType
from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from daedal.hw.formal.claims import Claims
from daedal.hw.gemm import forwarding
from daedal.hw.interfaces import scratchpad_read_signature
from daedal.hw.memory.accumulators import ACC_READ_CYCLES
from daedal.hw.parts.pipeline import delay

__all__ = ["INDUCTION_CYCLES", "Forwarding"]

INDUCTION_CYCLES = (
    forwarding.AHEAD_CYCLES + forwarding.READ_TO_SUM_CYCLES + forwarding.READ_TO_WRITE_CYCLES + 1
)
"""From the oldest product that a sum may depend on to that sum."""

_SEEN = 2
"""Cycles from the announcement of a read to when its row is looked up. By then all writes are there
that were accepted before the read, and none else: their data follows two cycles later, too."""


class Forwarding(Claims):
    """Whatever rows products come for, each is added to its row as the product before left it.

    Products come for any row in any cycle, add any number, and overwrite or not. One row is chosen
    for a whole run; as it is any, what holds of it holds of all. A model adds up its products in
    their order, and what GEMM writes into the row must be that. The memory does what the
    accumulators promise: a read sees the writes accepted before it, and what it answers is any
    where a write is accepted in its own cycle, and of other rows.

    With what is said of the memory, the claims follow from themselves in `INDUCTION_CYCLES`: so
    many pass until nothing is in the registers that did not come meanwhile.

    Parameters
    ----------
    row_bits : of a row's number. elements, bits : of a row, as many elements of so many bits; four
        or more are cut into four slices, fewer into one each.
    module : `hw.gemm.forwarding`; tests put a broken one here.
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
        self._module.accumulate(
            m,
            self._gathered,
            read=read,
            write=write,
            valid=valid,
            row=row,
            restart=restart,
            totals=totals,
            bits=bits,
        )
        ahead = forwarding.AHEAD_CYCLES
        to_sum = ahead + forwarding.READ_TO_SUM_CYCLES
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
        # To be written in the cycle of the sum, so announced before it.
        self.require(m, "writes_are_announced", announced == comes[to_sum - ahead])
        self.require(m, "reads_are_announced", (read.enable == valid) & (read.row == row))
        self.require(m, "the_memory_follows", stored == summed_before)
        for distance in range(1, forwarding.READ_TO_WRITE_CYCLES + 2):
            again = Signal(distance, name=f"row_{distance}_before")
            m.d.sync += again.eq((again << 1) | comes[to_sum])
            both = comes[to_sum] & ~overwrites & (again == 1 << (distance - 1))
            self.reach(m, f"takes_the_row_{distance}_later", both)

    def _memory(self, m: Module, read: Any, write: Any, chosen: Value, announced: Value) -> Signal:
        """The accumulators, of which only the chosen row is kept; gives that."""
        stored = Signal(self._width)
        with m.If(delay(m, announced, _SEEN, name="written", reset_less=False)):
            m.d.sync += stored.eq(write.data)
        sees = read.enable & (read.row == chosen) & ~announced
        sees = delay(m, sees, _SEEN, name="sees", reset_less=False)
        answer = Mux(sees, stored, self.free(self._width, "other_answer"))
        left = ACC_READ_CYCLES + forwarding.AHEAD_CYCLES - _SEEN
        m.d.comb += read.data.eq(delay(m, answer, left, name="answer"))
        return stored
