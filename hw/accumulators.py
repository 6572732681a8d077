"""Banked accumulators: GEMM, ALU, STORE and LOAD share them, each bank one read and one write.

Input: `accumulator_ports`. Output: rows two cycles after each accepted read. The bank of a row is
its top bit (the virtual thread, by convention of the compiler) and its lowest bits.
"""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring

from daedal.hw.interfaces import accumulator_ports
from daedal.hw.row_memory import RowMemory
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant

__all__ = ["PATIENCE_CYCLES", "Accumulators", "acc_grain", "bank_of"]

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

    Reads return what was written up to the cycle before. No unit may depend on a row that is
    written in the cycle in which it is read (GEMM forwards, tokens and the ALU's interlock order
    the rest). `banks` are the RAMs.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        super().__init__(accumulator_ports(variant))
        pad, grain = scratchpad(variant, Memory.ACC), acc_grain(variant)
        self.banks = [
            RowMemory(
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
        for_acc = Signal()
        m.d.comb += for_acc.eq(
            (fill.memory == LoadMemory.ACC) | (fill.memory == LoadMemory.ACC_NARROW)
        )
        fill_valid = self.fill.valid & for_acc
        fill_bank = bank_of(variant, fill.row)
        alu_bank = bank_of(variant, self.alu_write.p.row)
        alu_mask = Cat(self.alu_write.p.mask[number * grain] for number in range(grains))

        gemm_read_bank = bank_of(variant, self.gemm_read.row)
        gemm_write_bank = bank_of(variant, self.gemm_write.row)
        asks = {
            **{name: (port.valid, read_bank[name]) for name, port in readers.items()},
            "alu_write": (self.alu_write.valid, alu_bank),
            "fill": (fill_valid, fill_bank),
        }
        ready, urgent = self._arbitrate(
            m,
            asks,
            (self.gemm_read.enable, gemm_read_bank),
            (self.gemm_write.enable, gemm_write_bank),
        )
        outputs = []
        for number in range(banks):
            m.submodules[f"bank{number}"] = ram = self.banks[number]
            read, write = ram.read, ram.write

            def inner(row: Value) -> Value:
                return row[low_bits : pad.index_bits - 1]

            # Where nobody gets the bank, any row may be read or stand at the write port: what
            # chooses it need not wait for the decision, whose outcome is the same.
            here = {name: valid & (bank == number) for name, (valid, bank) in asks.items()}
            gemm_reads = self.gemm_read.enable & (gemm_read_bank == number)
            m.d.comb += [
                read.enable.eq(1),
                read.row.eq(inner(self.store_read.p)),
            ]
            with m.If(gemm_reads):
                m.d.comb += read.row.eq(inner(self.gemm_read.row))
            with m.Elif(here["alu"] & ~(urgent["store"] & here["store"])):
                m.d.comb += read.row.eq(inner(self.alu_read.p))
            with m.Elif(here["alu2"] & ~(urgent["store"] & here["store"])):
                m.d.comb += read.row.eq(inner(self.alu_read2.p))

            write_row = Signal(pad.index_bits - 1 - low_bits, name=f"write_row_{number}")
            m.d.comb += [write.row[column].eq(write_row) for column in range(grains)]
            gemm_writes = self.gemm_write.enable & (gemm_write_bank == number)
            with m.If(gemm_writes):
                m.d.comb += [
                    write_row.eq(inner(self.gemm_write.row)),
                    write.data.eq(self.gemm_write.data),
                    write.enable.eq(~0),
                ]
            with m.Elif(here["alu_write"] & ~(urgent["fill"] & here["fill"])):
                m.d.comb += [
                    write_row.eq(inner(self.alu_write.p.row)),
                    write.data.eq(self.alu_write.p.data),
                    write.enable.eq(alu_mask),
                ]
            with m.Else():
                m.d.comb += [
                    write_row.eq(inner(fill.row)),
                    write.data.eq(fill_data),
                    write.enable.eq(Mux(here["fill"], fill_mask, 0)),
                ]
            outputs.append(read.data)

        # Fills for other memories are none of ours: ready says only "would be taken".
        m.d.comb += [
            self.alu_write.ready.eq(ready["alu_write"]),
            self.fill.ready.eq(ready["fill"] | ~for_acc),
        ]
        for name, port in readers.items():
            m.d.comb += port.ready.eq(ready[name])
            granted = Cat(
                port.valid & ready[name] & (read_bank[name] == number) for number in range(banks)
            )
            self._answer(m, name, granted, outputs, answers[name])
        gemm_bank = Signal.like(gemm_read_bank)
        gemm_bank_out = Signal.like(gemm_read_bank)
        m.d.sync += [gemm_bank.eq(gemm_read_bank), gemm_bank_out.eq(gemm_bank)]
        with m.Switch(gemm_bank_out):
            for number, output in enumerate(outputs):
                with m.Case(number):
                    m.d.comb += self.gemm_read.data.eq(output)
        return m

    def _arbitrate(
        self,
        m: Module,
        asks: dict[str, tuple[Value, Value]],
        gemm_read: tuple[Value, Value],
        gemm_write: tuple[Value, Value],
    ) -> tuple[dict[str, Value], dict[str, Signal]]:
        """Who is taken if it asks, and who goes before the ALU.

        Requests are compared in pairs, not bank by bank: every decision is two levels of logic
        from the requests. For an urgent STORE the ALU's reads stand back from all banks.
        """
        urgent = {name: Signal(name=f"{name}_urgent") for name in asks}

        def meets(one: tuple[Value, Value], other: tuple[Value, Value]) -> Value:
            return one[0] & other[0] & (one[1] == other[1])

        alu, alu2, store = asks["alu"], asks["alu2"], asks["store"]
        write, fill = asks["alu_write"], asks["fill"]
        refused = {
            "alu": meets(alu, gemm_read) | (alu[0] & store[0] & urgent["store"]),
            "alu2": meets(alu2, gemm_read) | (alu2[0] & store[0] & urgent["store"]),
            "store": meets(store, gemm_read)
            | (~urgent["store"] & (meets(store, alu) | meets(store, alu2))),
            "alu_write": meets(write, gemm_write) | (urgent["fill"] & meets(write, fill)),
            "fill": meets(fill, gemm_write) | (~urgent["fill"] & meets(fill, write)),
        }
        holds = [
            self._patience(m, name, refused[name], bank, urgent[name])
            for name, (_, bank) in asks.items()
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
        self, m: Module, name: str, granted: Value, outputs: list[Value], answer: Any
    ) -> None:
        """Route the bank that a request was granted to its answer, two cycles later."""
        first = Signal(len(outputs), name=f"{name}_first")
        second = Signal(len(outputs), name=f"{name}_second")
        m.d.sync += [first.eq(granted), second.eq(first)]
        m.d.comb += answer.valid.eq(second.any())
        with m.Switch(second):
            for number, output in enumerate(outputs):
                with m.Case(1 << number):
                    m.d.comb += answer.data.eq(output)

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
