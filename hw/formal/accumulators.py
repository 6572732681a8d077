"""Claims about the arbitration of the accumulator banks, and a bound on every wait."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal, Value

from daedal.hw.formal.claims import Claims
from daedal.hw.memory.accumulators import Accumulators, bank_of
from daedal.isa.latencies import ACC_READ_CYCLES
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant

__all__ = ["BankArbiter"]

_READ_AFTER = 2
_WRITE_AFTER = 3
"""Latencies from GEMM's issue to its read and its write. In GEMM both are longer, which delays each
slot that a hold frees by the difference and adds it to the bound."""


class BankArbiter(Claims):
    """Every request for a bank is granted within `bound_cycles`, whatever GEMM does.

    GEMM starts a product for any row in any cycle, except if `gemm_hold` holds its bank. The others
    keep a request until it is accepted. The ALU's first reader precedes its second one, and both
    belong to one step: the ALU requests no other row until the second is read.

    Parameters
    ----------
    variant : few banks and rows keep the search short.
    accumulators : the class; tests pass a broken one.
    """

    def __init__(
        self, *, variant: Variant, bound_cycles: int, accumulators: Any = Accumulators
    ) -> None:
        super().__init__()
        self._variant = variant
        self._bound = bound_cycles
        self._block = accumulators

    def state(self, m: Module) -> None:
        m.submodules.block = block = self._block(variant=self._variant)
        self._gemm_reads, self._gemm_writes = Signal(), Signal()
        self._gemm_read_row = Signal.like(block.gemm_read.row)
        self._gemm_write_row = Signal.like(block.gemm_write.row)
        self._gemm(m, block)
        fill = block.fill.p
        m.d.comb += [fill.memory.eq(LoadMemory.ACC), fill.into_acc.eq(1)]
        rows = {
            "alu": block.alu_read.payload,
            "alu2": block.alu_read2.payload,
            "write": block.alu_write.payload.row,
            "store": block.store_read.p,
            "fill": fill.row,
        }
        banks: dict[str, Value] = {}
        asks: dict[str, Value] = {}
        taken: dict[str, Value] = {}
        for name, row in rows.items():
            asks[name] = self.free(1, f"{name}_asks")
            m.d.comb += row.eq(self.free(len(row), f"{name}_row"))
            banks[name] = bank_of(self._variant, row)
        self._alu(m, block, banks, asks, taken)
        for name, port in (("store", block.store_read), ("fill", block.fill)):
            m.d.comb += port.valid.eq(asks[name])
            taken[name] = asks[name] & port.ready
        for name, row in rows.items():
            before_row, refused = Signal(len(row), name=f"{name}_before"), Signal()
            m.d.sync += [before_row.eq(row), refused.eq(asks[name] & ~taken[name])]
            self.assume(m, f"{name}_keeps", ~refused | (asks[name] & (row == before_row)))

        both = asks["alu"] & asks["alu2"]
        self.assume(m, "alu_reads_two_banks", ~(both & (banks["alu"] == banks["alu2"])))
        # The ALU's issue point requests no other source before its destination has been read.
        has_source = Signal()
        with m.If(taken["alu2"] | ~asks["alu2"]):
            m.d.sync += has_source.eq(0)
        with m.Elif(taken["alu"]):
            m.d.sync += has_source.eq(1)
        self.assume(m, "alu_reads_one_step", ~(has_source & asks["alu"]))

        age_bits = range(self._bound + 2)
        for name in rows:
            age = Signal(age_bits, name=f"{name}_waits")
            with m.If(~asks[name] | taken[name]):
                m.d.sync += age.eq(0)
            with m.Elif(age <= self._bound):
                m.d.sync += age.eq(age + 1)
            self.require(m, f"{name}_never_starves", age <= self._bound)
            self.reach(m, f"{name}_waits", age == 2)
        self._one_at_a_time(m, block, banks, taken)
        for name, answer in (
            ("alu", block.alu_data),
            ("alu2", block.alu_data2),
            ("store", block.store_data),
        ):
            ages = [taken[name]]
            for age in range(ACC_READ_CYCLES):
                ages.append(Signal(name=f"{name}_answer_{age}"))
                m.d.sync += ages[-1].eq(ages[-2])
            self.require(m, f"{name}_answered_once", answer.valid == ages[-1])

    def _alu(self, m: Module, block: Any, banks: Any, asks: Any, taken: Any) -> None:
        """The ALU makes a requested access if its bank was not closed in the previous cycle."""
        ports = {"alu": block.alu_read, "alu2": block.alu_read2, "write": block.alu_write}
        for number, (name, port) in enumerate(ports.items()):
            closed = block.write_closed if name == "write" else block.read_closed
            before = Signal.like(closed, name=f"{name}_closed")
            m.d.sync += before.eq(closed)
            taken[name] = asks[name] & ~before.bit_select(banks[name], 1)
            m.d.comb += [
                port.valid.eq(taken[name]),
                block.alu_waits[number].eq(asks[name] & ~taken[name]),
            ]
        # The ALU wants every row that it requests, and may want others.
        reads = Cat(asks["alu"], asks["alu2"])
        m.d.comb += block.alu_wants.eq(reads | self.free(2, "alu_wants"))

    def _gemm(self, m: Module, block: Any) -> None:
        """Products that honour `gemm_hold`."""
        width = len(block.gemm_read.row)
        row = self.free(width, "product_row")
        start = Signal()
        hold = Signal.like(block.gemm_hold)
        m.d.sync += hold.eq(block.gemm_hold)
        held = hold.bit_select(bank_of(self._variant, row), 1)
        m.d.comb += start.eq(self.free(1, "product") & ~held)
        valids, rows = [start], [row]
        for age in range(_WRITE_AFTER):
            valids.append(Signal(name=f"product_{age}"))
            rows.append(Signal(width, name=f"product_row_{age}"))
            m.d.sync += [valids[-1].eq(valids[-2]), rows[-1].eq(rows[-2])]
        m.d.comb += [
            # Announced one cycle ahead.
            block.gemm_read.enable.eq(valids[_READ_AFTER - 1]),
            block.gemm_read.row.eq(rows[_READ_AFTER - 1]),
            block.gemm_write.enable.eq(valids[_WRITE_AFTER - 1]),
            block.gemm_write.row.eq(rows[_WRITE_AFTER - 1]),
            self._gemm_reads.eq(valids[_READ_AFTER]),
            self._gemm_read_row.eq(rows[_READ_AFTER]),
            self._gemm_writes.eq(valids[_WRITE_AFTER]),
            self._gemm_write_row.eq(rows[_WRITE_AFTER]),
        ]

    def _one_at_a_time(self, m: Module, block: Any, banks: Any, taken: Any) -> None:
        """A bank serves one reader and one writer per cycle."""
        reads = {name: (taken[name], banks[name]) for name in ("alu", "alu2", "store")}
        reads["gemm"] = (self._gemm_reads, bank_of(self._variant, self._gemm_read_row))
        writes = {name: (taken[name], banks[name]) for name in ("write", "fill")}
        writes["gemm"] = (self._gemm_writes, bank_of(self._variant, self._gemm_write_row))
        clashes = []
        for group in (reads, writes):
            names = sorted(group)
            for number, first in enumerate(names):
                for second in names[number + 1 :]:
                    (one, bank), (other, other_bank) = group[first], group[second]
                    clashes.append(one & other & (bank == other_bank))
        self.require(m, "one_per_bank", ~Cat(*clashes).any())
