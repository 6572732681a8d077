"""Banked accumulators: GEMM, ALU, STORE and LOAD share them, each bank one read and one write.

Input: `accumulator_ports`. Output: rows `ACC_READ_CYCLES` after each accepted read. The bank of a
row is its top bit (the virtual thread, by convention of the compiler) and its lowest bits.
"""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from daedal.hw.accumulator_bank import BANK_CYCLES, AccumulatorBank, Writer
from daedal.hw.interfaces import accumulator_ports
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.copies import copies
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant

__all__ = ["ACC_READ_CYCLES", "PATIENCE_CYCLES", "Accumulators", "acc_grain", "bank_of"]

ACC_READ_CYCLES = BANK_CYCLES + 2
"""From an accepted read to its row: the bank's registers, the RAM's and its output's."""

PATIENCE_CYCLES = 4
"""A request that lost so many cycles takes one slot of its bank away from GEMM."""


def bank_of(variant: Variant, row: Value) -> Value:
    """Bank number of an accumulator row: {top bit, low bits}."""
    low_bits = variant.memory.acc_banks.bit_length() - 2
    top = scratchpad(variant, Memory.ACC).index_bits - 1
    return Cat(row[:low_bits], row[top])


def acc_grain(variant: Variant) -> int:
    """Elements of a row that share a write enable: as fine as the narrowest writer.

    That is a bus word of LOAD or a group of lanes.
    """
    return min(
        variant.bus.data_bits // scratchpad(variant, Memory.ACC).memory_bits or 1,
        variant.units.alu_lanes,
        variant.units.requantize_lanes,
    )


_Request = tuple[Value, Value]
"""Whether somebody asks, and for which bank."""


class Accumulators(wiring.Component):
    """Accumulator rows in banks; arbitration per bank and cycle.

    GEMM always goes first. Of the others the ALU goes before STORE (reads) and before LOAD
    (writes), until one has waited `PATIENCE_CYCLES`: then it precedes the ALU, and in the next
    cycle `gemm_hold` withholds a product of that bank from the one after it. GEMM's reads and
    writes follow its issue after fixed times, so the freed slot comes that much later; with
    repeated holds every wait is bounded.

    Reads return what was accepted up to the cycle before. No unit may depend on a row that is
    accepted for writing in the cycle in which its read is (GEMM forwards, tokens and the ALU's
    interlock order the rest). `banks` hold the RAMs.
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

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        variant = self._variant
        pad = scratchpad(variant, Memory.ACC)
        banks = variant.memory.acc_banks
        low_bits = banks.bit_length() - 2
        grain = acc_grain(variant)
        grains = pad.elements // grain

        readers = {"alu": self.alu_read, "alu2": self.alu_read2, "store": self.store_read}
        answers = {"alu": self.alu_data, "alu2": self.alu_data2, "store": self.store_data}
        read_bank = {name: bank_of(variant, port.payload) for name, port in readers.items()}
        fill_data, fill_mask = self._widen_fill(m, grain)
        fill = self.fill.p
        alu_bank = bank_of(variant, self.alu_write.payload.row)

        gemm_read, gemm_write = (
            (
                register(m, port.enable, name=f"{name}_now", reset_less=False),
                register(m, port.row, name=f"{name}_row"),
            )
            for name, port in (("gemm_read", self.gemm_read), ("gemm_write", self.gemm_write))
        )
        gemm_read_bank, gemm_write_bank = (
            bank_of(variant, row) for _, row in (gemm_read, gemm_write)
        )
        asks = {
            **{name: (port.valid, read_bank[name]) for name, port in readers.items()},
            "alu_write": (self.alu_write.valid, alu_bank),
            "fill": (self.fill.valid & fill.into_acc, bank_of(variant, fill.row)),
        }
        wants = {
            "alu": (self.alu_wants[0], read_bank["alu"]),
            "alu2": (self.alu_wants[1], read_bank["alu2"]),
        }
        refused, store_first = self._arbitrate(
            m, asks, wants, (gemm_read[0], gemm_read_bank), (gemm_write[0], gemm_write_bank)
        )
        # What stands beside the decision: who writes says in the next cycle what.
        alu_columns = Cat(self.alu_write.payload.mask[number * grain] for number in range(grains))
        sources = {
            "alu": (self.alu_write.payload.data, alu_columns),
            "fill": (fill_data, fill_mask),
        }
        held = {
            name: (
                register(m, row, name=f"{name}_row_data"),
                register(m, columns, name=f"{name}_columns"),
            )
            for name, (row, columns) in sources.items()
        }

        def inner(row: Value) -> Value:
            return row[low_bits : pad.index_bits - 1]

        outputs = []
        for number, bank in enumerate(self.banks):
            m.submodules[f"bank{number}"] = bank
            # Where nobody gets the bank, any row may be read: what chooses it need not wait for
            # the decision, whose outcome is the same.
            here = {
                name: some & (place == number) for name, (some, place) in (asks | wants).items()
            }
            m.d.comb += bank.read_row.eq(inner(self.store_read.p))
            with m.If(gemm_read[0] & (gemm_read_bank == number)):
                m.d.comb += bank.read_row.eq(inner(gemm_read[1]))
            with m.Elif(here["alu"] & ~store_first):
                m.d.comb += bank.read_row.eq(inner(self.alu_read.payload))
            with m.Elif(here["alu2"] & ~store_first):
                m.d.comb += bank.read_row.eq(inner(self.alu_read2.payload))

            with m.If(gemm_write[0] & (gemm_write_bank == number)):
                m.d.comb += [
                    bank.writer.eq(Writer.GEMM),
                    bank.write_row.eq(inner(gemm_write[1])),
                ]
            with m.Elif(here["alu_write"]):
                m.d.comb += [
                    bank.writer.eq(Writer.ALU),
                    bank.write_row.eq(inner(self.alu_write.payload.row)),
                ]
            with m.Else():
                m.d.comb += [
                    bank.writer.eq(Mux(here["fill"], Writer.FILL, Writer.NONE)),
                    bank.write_row.eq(inner(fill.row)),
                ]
            m.d.comb += bank.gemm_data.eq(self.gemm_write.data)
            for name, (row, columns) in held.items():
                m.d.comb += [
                    getattr(bank, f"{name}_data").eq(row),
                    getattr(bank, f"{name}_columns").eq(columns),
                ]
            outputs.append(bank.read_data)

        # Fills for other memories are none of ours: ready says only "would be taken".
        m.d.comb += [
            self.store_read.ready.eq(~refused["store"]),
            self.fill.ready.eq(~refused["fill"] | ~fill.into_acc),
        ]
        for name, port in readers.items():
            taken = port.valid & ~refused[name] if name == "store" else port.valid
            granted = Cat(taken & (read_bank[name] == number) for number in range(banks))
            chosen = self._answer(m, platform, name, granted, outputs)
            valid = delay(m, taken, ACC_READ_CYCLES, name=f"{name}_answers", reset_less=False)
            m.d.comb += [answers[name].valid.eq(valid), answers[name].data.eq(chosen)]
        reads = Cat(gemm_read_bank == number for number in range(banks))
        m.d.comb += self.gemm_read.data.eq(self._answer(m, platform, "gemm", reads, outputs))
        return m

    def _arbitrate(
        self,
        m: Module,
        asks: dict[str, _Request],
        wants: dict[str, _Request],
        gemm_read: _Request,
        gemm_write: _Request,
    ) -> tuple[dict[str, Value], Signal]:
        """(Whom of STORE and LOAD a bank is refused, STORE goes before the ALU).

        Requests are compared in pairs, not bank by bank, and what the ALU may do is said a cycle
        ahead: every decision is two levels of logic from registers. For an urgent STORE, which
        always asks, the ALU's reads stand back from all banks.
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
            # The ALU writes nothing where a fill is urgent.
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
        """One-hot, the bank that GEMM takes in the next cycle."""
        number = bank_of(self._variant, port.row)
        return Mux(port.enable, 1 << number, 0)[: self._variant.memory.acc_banks]

    def _patience(
        self, m: Module, name: str, lost: Value, bank: Value, urgent: Signal
    ) -> tuple[Signal, Value]:
        """Count lost cycles of one requester, up to `urgent`.

        (One-hot, the bank to name in `gemm_hold`; whether it goes first in the next cycle).
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

    def _answer(
        self, m: Module, platform: Any, name: str, granted: Value, outputs: list[Value]
    ) -> Value:
        """The row of the bank that a request was granted, `ACC_READ_CYCLES` later."""
        slices = len(self.banks[0].slices)
        bits = len(outputs[0]) // slices
        before = delay(m, granted, ACC_READ_CYCLES - 1, name=f"{name}_granted")
        places = copies(m, platform, before, slices, name=f"{name}_place")
        parts = []
        for number, place in enumerate(places):
            words = [output.word_select(number, bits) for output in outputs]
            parts.append(reduce(or_, (Mux(place[k], word, 0) for k, word in enumerate(words))))
        return Cat(parts)

    def _widen_fill(self, m: Module, grain: int) -> tuple[Value, Value]:
        """A fill as a full row of accumulators and its write enables, one per `grain` elements."""
        variant = self._variant
        pad = scratchpad(variant, Memory.ACC)
        fill = self.fill.p
        rows, masks = [], []
        for bits in (pad.memory_bits, variant.array.input_bits):
            count = variant.bus.data_bits // bits
            elements = [fill.data.word_select(k, bits).as_signed() for k in range(count)]
            word = Cat(_resize(value, pad.element_bits) for value in elements)
            rows.append(word.replicate(pad.elements // count))
            beats = pad.elements // count
            beat = fill.beat[: (beats - 1).bit_length()]
            enables = (1 << (count // grain)) - 1
            masks.append(
                Mux(
                    fill.pad,
                    (1 << (pad.elements // grain)) - 1,
                    (enables << (beat * (count // grain)))[: pad.elements // grain],
                )
            )
        narrow = fill.memory == LoadMemory.ACC_NARROW
        row, mask = Signal(pad.row_bits), Signal(pad.elements // grain)
        m.d.comb += [
            row.eq(Mux(narrow, rows[1], rows[0])),
            mask.eq(Mux(narrow, masks[1], masks[0])),
        ]
        return row, mask


def _resize(value: Value, bits: int) -> Value:
    """A signed value cut or sign-extended to `bits` bits."""
    if len(value) >= bits:
        return value[:bits]
    return Cat(value, value[-1].replicate(bits - len(value)))
