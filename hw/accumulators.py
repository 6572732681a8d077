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
        read_bank = {name: bank_of(variant, port.p) for name, port in readers.items()}
        fill_data, fill_mask = self._widen_fill(m, grain)
        fill = self.fill.p
        fill_valid = self.fill.valid & fill.into_acc
        fill_bank = bank_of(variant, fill.row)
        alu_bank = bank_of(variant, self.alu_write.p.row)

        gemm_read_bank = bank_of(variant, self.gemm_read.row)
        gemm_write_bank = bank_of(variant, self.gemm_write.row)
        asks = {
            **{name: (port.valid, read_bank[name]) for name, port in readers.items()},
            "alu_write": (self.alu_write.valid, alu_bank),
            "fill": (fill_valid, fill_bank),
        }
        wants = {
            "alu": (self.alu_wants[0], read_bank["alu"]),
            "alu2": (self.alu_wants[1], read_bank["alu2"]),
        }
        ready, urgent = self._arbitrate(
            m,
            asks,
            wants,
            (self.gemm_read.enable, gemm_read_bank),
            (self.gemm_write.enable, gemm_write_bank),
        )
        # What stands beside the decision: who writes says in the next cycle what.
        alu_columns = Cat(self.alu_write.p.mask[number * grain] for number in range(grains))
        sources = {
            "alu": (self.alu_write.p.data, alu_columns),
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
            with m.If(self.gemm_read.enable & (gemm_read_bank == number)):
                m.d.comb += bank.read_row.eq(inner(self.gemm_read.row))
            with m.Elif(here["alu"] & ~urgent["store"]):
                m.d.comb += bank.read_row.eq(inner(self.alu_read.p))
            with m.Elif(here["alu2"] & ~urgent["store"]):
                m.d.comb += bank.read_row.eq(inner(self.alu_read2.p))

            with m.If(self.gemm_write.enable & (gemm_write_bank == number)):
                m.d.comb += [
                    bank.writer.eq(Writer.GEMM),
                    bank.write_row.eq(inner(self.gemm_write.row)),
                ]
            with m.Elif(here["alu_write"] & ~(urgent["fill"] & here["fill"])):
                m.d.comb += [
                    bank.writer.eq(Writer.ALU),
                    bank.write_row.eq(inner(self.alu_write.p.row)),
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
            self.alu_write.ready.eq(ready["alu_write"]),
            self.fill.ready.eq(ready["fill"] | ~fill.into_acc),
        ]
        for name, port in readers.items():
            m.d.comb += port.ready.eq(ready[name])
            granted = Cat(
                port.valid & ready[name] & (read_bank[name] == number) for number in range(banks)
            )
            answer = answers[name]
            chosen = self._answer(m, platform, name, granted, outputs)
            valid = delay(
                m,
                port.valid & ready[name],
                ACC_READ_CYCLES,
                name=f"{name}_answers",
                reset_less=False,
            )
            m.d.comb += [answer.valid.eq(valid), answer.data.eq(chosen)]
        reads = Cat(gemm_read_bank == number for number in range(banks))
        m.d.comb += self.gemm_read.data.eq(self._answer(m, platform, "gemm", reads, outputs))
        return m

    def _arbitrate(
        self,
        m: Module,
        asks: dict[str, tuple[Value, Value]],
        wants: dict[str, tuple[Value, Value]],
        gemm_read: tuple[Value, Value],
        gemm_write: tuple[Value, Value],
    ) -> tuple[dict[str, Value], dict[str, Signal]]:
        """Who is taken if it asks, and who goes before the ALU.

        Requests are compared in pairs, not bank by bank, and whether one would be taken does not
        wait for its own `valid`: every decision is two levels of logic from registers. For an
        urgent STORE, which always asks, the ALU's reads stand back from all banks.
        """
        urgent = {name: Signal(name=f"{name}_urgent") for name in asks}

        def meets(bank: Value, other: tuple[Value, Value]) -> Value:
            return other[0] & (bank == other[1])

        bank = {name: place for name, (_, place) in asks.items()}
        write, fill = asks["alu_write"], asks["fill"]
        refused = {
            "alu": meets(bank["alu"], gemm_read) | urgent["store"],
            "alu2": meets(bank["alu2"], gemm_read) | urgent["store"],
            "store": meets(bank["store"], gemm_read)
            | (
                ~urgent["store"]
                & (meets(bank["store"], wants["alu"]) | meets(bank["store"], wants["alu2"]))
            ),
            "alu_write": meets(bank["alu_write"], gemm_write)
            | (urgent["fill"] & (write[1] == fill[1])),
            "fill": meets(bank["fill"], gemm_write)
            | (~urgent["fill"] & meets(bank["fill"], write)),
        }
        holds = [
            self._patience(m, name, asked & refused[name], place, urgent[name])
            for name, (asked, place) in asks.items()
        ]
        m.d.comb += self.gemm_hold.eq(holds[0] | holds[1] | holds[2] | holds[3] | holds[4])
        return {name: ~value for name, value in refused.items()}, urgent

    def _patience(self, m: Module, name: str, lost: Value, bank: Value, urgent: Signal) -> Signal:
        """Count lost cycles of one requester; one-hot, the bank to name in `gemm_hold`."""
        banks = self._variant.memory.acc_banks
        age = Signal(range(PATIENCE_CYCLES), name=f"{name}_age")
        expires = Signal(name=f"{name}_expires")
        hold = Signal(banks, name=f"{name}_hold")
        with m.If(lost):
            m.d.sync += [
                age.eq(age + 1),
                expires.eq(age == PATIENCE_CYCLES - 2),
                urgent.eq(urgent | expires),
                hold.eq(Mux(expires, 1 << bank, 0)),
            ]
        with m.Else():
            m.d.sync += [age.eq(0), expires.eq(0), urgent.eq(0), hold.eq(0)]
        return hold

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
