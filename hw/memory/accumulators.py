"""Banked accumulators, shared by GEMM, ALU, STORE and LOAD; one read, one write port per bank.

Input: `accumulator_ports`. Output: rows `ACC_READ_CYCLES` after each accepted read. The bank of a
row is its top bit (the virtual thread, by convention of the compiler) and its lowest bits.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from daedal.hw.contracts import checks_contracts, require_at_elaboration
from daedal.hw.family import Platform
from daedal.hw.interfaces import accumulator_ports
from daedal.hw.memory.accumulator_bank import AccumulatorBank, Writer
from daedal.hw.memory.accumulator_contracts import check_accumulator_ports
from daedal.hw.memory.fill_row import acc_grain, widen_fill
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.latencies import ACC_READ_CYCLES, BANK_CYCLES, PATIENCE_CYCLES, RAM_READ_CYCLES
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.variant import Variant

__all__ = ["Accumulators", "bank_of"]


def bank_of(variant: Variant, row: Value) -> Value:
    """Bank number of an accumulator row: {top bit, low bits}."""
    low_bits = variant.memory.acc_banks.bit_length() - 2
    top = scratchpad(variant, Memory.ACC).index_bits - 1
    return Cat(row[:low_bits], row[top])


_Request = tuple[Value, Value]
"""Whether there is a request, and for which bank."""


class Accumulators(wiring.Component):
    """Accumulator rows in banks; arbitration per bank and cycle.

    GEMM always has priority. Among the others the ALU has priority over STORE (reads) and over LOAD
    (writes), until one has waited `PATIENCE_CYCLES`: then it precedes the ALU, and in the next
    cycle `gemm_hold` keeps GEMM from starting a product of that bank in the cycle after. GEMM's
    reads and writes follow its issue at fixed latencies, so the freed slot comes that much later;
    with repeated holds every wait is bounded.

    Reads see the writes accepted up to the previous cycle. No unit may depend on a row whose write
    is accepted in the same cycle as its read (GEMM forwards; tokens and the ALU's interlock order
    the rest). `banks` hold the RAMs.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        super().__init__(accumulator_ports(variant))
        pad, grain = scratchpad(variant, Memory.ACC), acc_grain(variant)
        self.banks = [
            AccumulatorBank(
                depth=pad.depth_rows // variant.memory.acc_banks,
                columns=pad.elements // grain,
                column_bits=grain * pad.element_bits,
            )
            for _ in range(variant.memory.acc_banks)
        ]

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        variant = self._variant
        require_at_elaboration(
            ACC_READ_CYCLES == BANK_CYCLES + RAM_READ_CYCLES,
            "an answer must be taken from its bank when the row is there: ACC_READ_CYCLES must be "
            "BANK_CYCLES and RAM_READ_CYCLES together",
        )
        require_at_elaboration(
            PATIENCE_CYCLES >= 2,
            "a request must have lost a cycle before its patience ends in the next: "
            "PATIENCE_CYCLES must be at least 2",
        )
        readers = {"alu": self.alu_read, "alu2": self.alu_read2, "store": self.store_read}
        read_bank = {name: self._bank(port.payload) for name, port in readers.items()}
        fill = self.fill.p
        filled, fill_columns = widen_fill(m, variant, fill)
        gemm_read, gemm_write = (
            (
                register(m, port.enable, name=f"{name}_now", reset_less=False),
                register(m, port.row, name=f"{name}_row"),
            )
            for name, port in (("gemm_read", self.gemm_read), ("gemm_write", self.gemm_write))
        )
        takes_read, takes_write = (
            (enable, self._bank(row)) for enable, row in (gemm_read, gemm_write)
        )
        asks = {
            **{name: (port.valid, read_bank[name]) for name, port in readers.items()},
            "alu_write": (self.alu_write.valid, self._bank(self.alu_write.payload.row)),
            "fill": (self.fill.valid & fill.into_acc, self._bank(fill.row)),
        }
        wants = {
            "alu": (self.alu_wants[0], read_bank["alu"]),
            "alu2": (self.alu_wants[1], read_bank["alu2"]),
        }
        refused, store_first = self._arbitrate(m, asks, wants, takes_read, takes_write)
        held = self._held(m, filled, fill_columns)
        for number, bank in enumerate(self.banks):
            m.submodules[f"bank{number}"] = bank

            def takes(request: _Request, number: int = number) -> Value:
                return request[0] & (request[1] == number)

            # The row is selected by requests, not by grants, which come later: without a grant the
            # row read does not matter, and with one both agree.
            here = {name: takes(request) for name, request in (asks | wants).items()}
            self._choose_read(m, bank, takes(takes_read), gemm_read[1], here, store_first)
            self._choose_write(m, bank, takes(takes_write), gemm_write[1], here)
            m.d.comb += bank.gemm_data.eq(self.gemm_write.data)
            for name, (row, columns) in held.items():
                m.d.comb += [
                    getattr(bank, f"{name}_data").eq(row),
                    getattr(bank, f"{name}_columns").eq(columns),
                ]
        # `fill` also carries fills of other memories: for those, ready is always 1.
        m.d.comb += [
            self.store_read.ready.eq(~refused["store"]),
            self.fill.ready.eq(~refused["fill"] | ~fill.into_acc),
        ]
        answers = {"alu": self.alu_data, "alu2": self.alu_data2, "store": self.store_data}
        for name, port in readers.items():
            taken = port.valid & ~refused[name] if name == "store" else port.valid
            granted = Cat(taken & here for here in self._each_bank(read_bank[name]))
            chosen = self._answer(m, platform, name, granted)
            valid = delay(m, taken, ACC_READ_CYCLES, name=f"{name}_answers", reset_less=False)
            m.d.comb += [answers[name].valid.eq(valid), answers[name].data.eq(chosen)]
        reads = Cat(self._each_bank(takes_read[1]))
        m.d.comb += self.gemm_read.data.eq(self._answer(m, platform, "gemm", reads))
        if checks_contracts(platform):
            gemm = {"gemm_read": gemm_read, "gemm_write": gemm_write}
            check_accumulator_ports(m, platform, variant, self, bank_of=self._bank, **gemm)
        return m

    def _bank(self, row: Value) -> Value:
        return bank_of(self._variant, row)

    def _inner(self, row: Value) -> Value:
        """Number of a row within its bank."""
        low_bits = self._variant.memory.acc_banks.bit_length() - 2
        return row[low_bits : scratchpad(self._variant, Memory.ACC).index_bits - 1]

    def _each_bank(self, place: Value) -> list[Value]:
        """`place` as one-hot, a bit per bank."""
        return [place == number for number in range(len(self.banks))]

    def _held(
        self, m: Module, filled: Value, fill_columns: Value
    ) -> dict[str, tuple[Value, Value]]:
        """Write data and columns of ALU and fill, one cycle after the arbitration."""
        grain = acc_grain(self._variant)
        grains = scratchpad(self._variant, Memory.ACC).elements // grain
        alu_columns = Cat(self.alu_write.payload.mask[number * grain] for number in range(grains))
        sources = {
            "alu": (self.alu_write.payload.data, alu_columns),
            "fill": (filled, fill_columns),
        }
        return {
            name: (
                register(m, row, name=f"{name}_row_data"),
                register(m, columns, name=f"{name}_columns"),
            )
            for name, (row, columns) in sources.items()
        }

    def _choose_read(
        self,
        m: Module,
        bank: AccumulatorBank,
        gemm_here: Value,
        gemm_row: Value,
        here: dict[str, Value],
        store_first: Signal,
    ) -> None:
        """The row that a bank reads; `here`: requests for this bank."""
        m.d.comb += bank.read_row.eq(self._inner(self.store_read.p))
        with m.If(gemm_here):
            m.d.comb += bank.read_row.eq(self._inner(gemm_row))
        with m.Elif(here["alu"] & ~store_first):
            m.d.comb += bank.read_row.eq(self._inner(self.alu_read.payload))
        with m.Elif(here["alu2"] & ~store_first):
            m.d.comb += bank.read_row.eq(self._inner(self.alu_read2.payload))

    def _choose_write(
        self,
        m: Module,
        bank: AccumulatorBank,
        gemm_here: Value,
        gemm_row: Value,
        here: dict[str, Value],
    ) -> None:
        """The writer of a bank, and its row."""
        with m.If(gemm_here):
            m.d.comb += [
                bank.writer.eq(Writer.GEMM),
                bank.write_row.eq(self._inner(gemm_row)),
            ]
        with m.Elif(here["alu_write"]):
            m.d.comb += [
                bank.writer.eq(Writer.ALU),
                bank.write_row.eq(self._inner(self.alu_write.payload.row)),
            ]
        with m.Else():
            m.d.comb += [
                bank.writer.eq(Mux(here["fill"], Writer.FILL, Writer.NONE)),
                bank.write_row.eq(self._inner(self.fill.p.row)),
            ]

    def _arbitrate(
        self,
        m: Module,
        asks: dict[str, _Request],
        wants: dict[str, _Request],
        gemm_read: _Request,
        gemm_write: _Request,
    ) -> tuple[dict[str, Value], Signal]:
        """Return (STORE and LOAD: whether its request is refused; STORE precedes the ALU).

        Requests are compared in pairs, not bank by bank, and the ALU is told of closed banks one
        cycle ahead: every decision is two levels of logic from registers. For an urgent STORE,
        which always requests, all banks are closed to the ALU's reads.
        """
        banks = self._variant.memory.acc_banks

        def meets(bank: Value, other: _Request) -> Value:
            return other[0] & (bank == other[1])

        bank = {name: place for name, (_, place) in asks.items()}
        urgent = {name: Signal(name=f"{name}_urgent") for name in asks}
        store_first = urgent["store"]
        refused: dict[str, Value] = {
            "store": meets(bank["store"], gemm_read)
            | (
                ~store_first
                & (meets(bank["store"], wants["alu"]) | meets(bank["store"], wants["alu2"]))
            ),
            # The ALU does not write to the bank of an urgent fill, which is closed to it.
            "fill": meets(bank["fill"], gemm_write) | meets(bank["fill"], asks["alu_write"]),
        }
        waits = dict(zip(("alu", "alu2", "alu_write"), self.alu_waits, strict=True))
        holds, goes_first = [], {}
        for name, (asked, place) in asks.items():
            lost = waits[name] if name in waits else asked & refused[name]
            hold, goes_first[name] = self._patience(m, name, lost, place, urgent[name])
            holds.append(hold)
        fill_here = Mux(goes_first["fill"], 1 << bank["fill"], 0)[:banks]
        store_anywhere = goes_first["store"].replicate(banks)
        m.d.comb += [
            self.gemm_hold.eq(reduce(or_, holds)),
            self.read_closed.eq(self._announced(self.gemm_read) | store_anywhere),
            self.write_closed.eq(self._announced(self.gemm_write) | fill_here),
        ]
        return refused, store_first

    def _announced(self, port: Any) -> Value:
        """One-hot, the bank that GEMM uses in the next cycle."""
        number = bank_of(self._variant, port.row)
        return Mux(port.enable, 1 << number, 0)[: self._variant.memory.acc_banks]

    def _patience(
        self, m: Module, name: str, lost: Value, bank: Value, urgent: Signal
    ) -> tuple[Signal, Value]:
        """Count the cycles that a requester has lost, until it is `urgent`.

        Return (one-hot, the bank to set in `gemm_hold`; whether it has priority in the next cycle).
        """
        banks = self._variant.memory.acc_banks
        age = Signal(range(PATIENCE_CYCLES), name=f"{name}_age")
        expires = Signal(name=f"{name}_expires")
        hold = Signal(banks, name=f"{name}_hold")
        goes_first = lost & (urgent | expires)
        m.d.sync += urgent.eq(goes_first)
        with m.If(lost):
            m.d.sync += [
                age.eq(age + 1),
                expires.eq(age == PATIENCE_CYCLES - 2),
                hold.eq(Mux(expires, 1 << bank, 0)),
            ]
        with m.Else():
            m.d.sync += [age.eq(0), expires.eq(0), hold.eq(0)]
        return hold, goes_first

    def _answer(self, m: Module, platform: Platform, name: str, granted: Value) -> Value:
        """The row read from the granted bank, `ACC_READ_CYCLES` later."""
        outputs = [bank.read_data for bank in self.banks]
        slices = len(self.banks[0].slices)
        bits = len(outputs[0]) // slices
        before = delay(m, granted, ACC_READ_CYCLES - 1, name=f"{name}_granted")
        place = Replicated(m, platform, before, name=f"{name}_place")
        parts = []
        for number in range(slices):
            here = place.copy_for(number)
            words = [output.word_select(number, bits) for output in outputs]
            parts.append(reduce(or_, (Mux(here[k], word, 0) for k, word in enumerate(words))))
        return Cat(parts)
