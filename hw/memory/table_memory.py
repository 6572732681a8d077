"""TAB: the tables that LOOKUP reads, behind the lanes of REQUANTIZE.

Input: fills from LOAD, results of REQUANTIZE. Output: entries of a table at those results.
"""

from amaranth.hdl import Cat, Module, Mux, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from daedal.hw.contracts import contract
from daedal.hw.family import Platform
from daedal.hw.interfaces import fill_signature, lookup_signature
from daedal.hw.memory.row_memory import RowMemory
from daedal.hw.memory.scratchpad import collides_with, register_write
from daedal.hw.pipeline import delay, register
from daedal.hw.primitives.replicated import Replicated
from daedal.isa.latencies import RAM_READ_CYCLES
from daedal.isa.scratchpad import TABLE_ENTRIES, TABLE_ENTRY_BITS, Memory, scratchpad
from daedal.isa.table import LoadMemory
from daedal.isa.variant import Variant

__all__ = ["TableMemory"]


class TableMemory(wiring.Component):
    """All tables once for each lane: every lane reads another entry in the same cycle.

    A row of a lane's RAM is a bus word: LOAD writes one in each cycle and is never stalled. The
    entry is selected from the word in the cycle after the RAM's output register.

    Members
    -------
    fill : takes the fills addressed to this memory and never waits; others are ignored.
    lookup : `interfaces.lookup_signature`, one group of lanes per cycle, `LOOKUP_CYCLES` later.

    `lanes` are the RAMs; all hold the same.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        pad, bus_bits = scratchpad(variant, Memory.TAB), variant.bus.data_bits
        super().__init__(
            {
                "fill": In(fill_signature(variant)),
                "lookup": In(lookup_signature(variant)),
            }
        )
        self.lanes = [
            RowMemory(
                depth=pad.depth_rows * pad.row_beats(variant), columns=1, column_bits=bus_bits
            )
            for _ in range(variant.units.requantize_lanes)
        ]

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        pad = scratchpad(self._variant, Memory.TAB)
        beat_bits = (pad.row_beats(self._variant) - 1).bit_length()

        # First of the two write registers before the RAMs, as in the other scratchpads.
        fill = self.fill.p
        hit = self.fill.valid & (fill.memory == LoadMemory.TAB)
        hit = register(m, hit, name="fills", reset_less=False)
        fill = register(m, fill, name="fill")
        write = self.lanes[0].write.signature.create(path=("write",))
        m.d.comb += [
            self.fill.ready.eq(1),
            write.enable.eq(hit),
            write.row[0].eq(Cat(fill.beat[:beat_bits], fill.row[: pad.index_bits])),
            write.data.eq(fill.data),
        ]
        outside = fill.row[pad.index_bits :].any() if len(fill.row) > pad.index_bits else 0
        contract(m, platform, ~(hit & outside), "LOAD must not fill a row that is not there")
        register_write(m, write, *(rows.write for rows in self.lanes))
        early = delay(m, self.lookup.enable, RAM_READ_CYCLES - 1, name="looks_up")
        enable = Replicated(m, platform, early, name="selects_entry")
        for number, rows in enumerate(self.lanes):
            m.submodules[f"lane{number}"] = rows
            self._look_up(m, number, enable.copy_for(number))
        return m

    def _look_up(self, m: Module, number: int, enable: Value) -> None:
        """One lane: its RAM, and the select; `enable` comes with the RAM's output."""
        read = self.lanes[number].read
        result = self.lookup.results[number]
        place = result.as_unsigned()
        number_bits = (TABLE_ENTRIES - 1).bit_length()
        assert len(place) >= number_bits, "a result has the number of an entry"
        word_bits = (len(read.data) // TABLE_ENTRY_BITS - 1).bit_length()
        m.d.comb += [
            read.enable.eq(self.lookup.enable),
            read.row.eq(Cat(place[word_bits:number_bits], self.lookup.table)),
        ]
        late = delay(m, place, RAM_READ_CYCLES, name=f"lane{number}_place")
        entry = read.data.word_select(late[:word_bits], TABLE_ENTRY_BITS).as_signed()
        value = register(m, Mux(enable, entry, late.as_signed()), name=f"lane{number}_value")
        m.d.comb += self.lookup.values[number].eq(value)

    def collides(self) -> Value:
        """Whether a word being read at a lane's RAM is written in this cycle."""
        return Cat(collides_with(rows) for rows in self.lanes).any()
