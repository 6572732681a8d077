"""The AXI4-Lite slave with the register map of `isa.registers`.

Input: the pins, and what the machine reports. Output: run settings, start and abort pulses, and the
interrupt.
"""

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.bus.axi import axi4_lite_pins
from daedal.hw.control.counters import counts_layout
from daedal.hw.family import Platform
from daedal.hw.layouts import INDEX_BITS, word_address_bits
from daedal.hw.parts.select import select_one
from daedal.isa.registers import (
    CLASSES,
    CONTROL_ADDRESS_BITS,
    DRAIN_LIMIT_CYCLES,
    ID_VALUE,
    REGISTERS,
    counter_offset,
    register,
)
from daedal.isa.table import BASES, Unit
from daedal.isa.variant import Variant

__all__ = ["WATCHDOG_DEFAULT_CYCLES", "Control"]

WATCHDOG_DEFAULT_CYCLES = 1 << 20
"""The watchdog's value after reset: a machine that was never configured does not hang either."""

_WORD_BITS = 3
_GROUP_WORDS = 1 << _WORD_BITS

_COUNTERS = ("cycles", "beats_read", "beats_written")
"""64-bit counters: pairs of registers that may change between the two reads."""


class Control(wiring.Component):
    """Registers behind AXI4-Lite.

    AW and W may come in any order; a write takes effect when both have arrived, and BVALID rises in
    the next cycle. A read is answered three cycles after AR. One write and one read may be
    outstanding, and every access is answered OKAY: unknown registers read 0 and ignore writes.
    Write strobes are honoured. During a run, writes to addresses, lengths, watchdog and limit are
    ignored.

    As in AP_CTRL, the end of a run sets `isr` only while `ier` is set, and reading `control` clears
    done. `interrupt` is a level: `isr & ier & gie`. Reading the low half of a 64-bit counter
    latches its high half in the same cycle, for the next read of the high half; one counter is
    latched at a time.

    Members
    -------
    axi pins : as `axi.axi4_lite_pins` names them, without prefix.
    start, abort : pulses, in the cycle after the write.
    program, marks : bus word addresses; base{n} in `base_address`.
    region_words : size{n} in whole bus words.
    running : a run is active or requested. finished : pulse, the run ended.
    error_code, error_unit, error_index : why, latched by the supervisor.
    cycles, beats_read, beats_written, counts[u], marks_written : what `counters` and `marks` count.

    Source: UG1399, "S_AXILITE Control Register Map"; IHI 0022, B1.1.
    """

    def __init__(self, *, variant: Variant) -> None:
        self._variant = variant
        word_bits = word_address_bits(variant)
        self._skipped = variant.word_offset_bits
        members: dict[str, wiring.Member] = {
            **axi4_lite_pins(CONTROL_ADDRESS_BITS, ""),
            "interrupt": Out(1),
            "start": Out(1),
            "abort": Out(1),
            "program": Out(word_bits),
            "program_length": Out(32),
            "watchdog": Out(32),
            "drain_limit": Out(32),
            "base_address": Out(data.ArrayLayout(word_bits, len(BASES))),
            "region_words": Out(data.ArrayLayout(word_bits, len(BASES))),
            "marks": Out(word_bits),
            "marks_capacity": Out(32),
            "marks_written": In(32),
            "running": In(1),
            "finished": In(1),
            "error_code": In(8),
            "error_unit": In(3),
            "error_index": In(INDEX_BITS),
            "counts": In(counts_layout()).array(len(Unit)),
            "cycles": In(64),
            "beats_read": In(64),
            "beats_written": In(64),
        }
        super().__init__(members)

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        done, gie, ier, isr = Signal(), Signal(), Signal(), Signal()
        settings = {
            item.name: Signal(32, name=item.name)
            for item in REGISTERS
            if item.writable and item.name not in ("control", "gie", "ier", "isr", "abort")
        }
        for name, init in (
            ("watchdog", WATCHDOG_DEFAULT_CYCLES),
            ("drain_limit", DRAIN_LIMIT_CYCLES),
        ):
            settings[name] = Signal(32, init=init, name=name)
        self._drive_settings(m, settings)
        m.d.comb += self.interrupt.eq(isr & ier & gie)

        address, word, strobes, write = self._accept_write(m)
        hits = {
            item.name: write & (address == item.offset // 4) for item in REGISTERS if item.writable
        }
        bit0 = word[0] & strobes[0]
        m.d.sync += [
            self.start.eq(hits["control"] & bit0 & ~self.running),
            self.abort.eq(hits["abort"] & bit0),
        ]
        for name, flag in (("gie", gie), ("ier", ier)):
            with m.If(hits[name] & strobes[0]):
                m.d.sync += flag.eq(word[0])
        with m.If(self.finished & ier):
            m.d.sync += isr.eq(1)
        with m.Elif(hits["isr"] & bit0):
            m.d.sync += isr.eq(~isr)
        for name, value in settings.items():
            with m.If(hits[name] & ~self.running):
                for lane in range(4):
                    with m.If(strobes[lane]):
                        m.d.sync += value[8 * lane : 8 * lane + 8].eq(word[8 * lane : 8 * lane + 8])

        status = Cat(self.running, done, ~self.running, done)
        values = self._readable(settings, status, gie, ier, isr)
        seen = self._answer_reads(m, values)
        with m.If(self.finished):
            m.d.sync += done.eq(1)
        with m.Elif(seen | self.start):
            m.d.sync += done.eq(0)
        return m

    def _drive_settings(self, m: Module, settings: dict[str, Signal]) -> None:
        def words(name: str):
            return Cat(settings[f"{name}_lo"], settings[f"{name}_hi"])[
                self._skipped : self._variant.bus.address_bits
            ]

        m.d.comb += [
            self.program.eq(words("program")),
            self.marks.eq(words("marks")),
            self.program_length.eq(settings["program_length"]),
            self.watchdog.eq(settings["watchdog"]),
            self.drain_limit.eq(settings["drain_limit"]),
            self.marks_capacity.eq(settings["marks_capacity"]),
        ]
        for number in range(len(BASES)):
            m.d.comb += [
                self.base_address[number].eq(words(f"base{number}")),
                self.region_words[number].eq(words(f"size{number}")),
            ]

    def _accept_write(self, m: Module):
        """Collect AW and W; return word address, data, strobes and the write pulse."""
        have_address, have_word = Signal(), Signal()
        address = Signal(CONTROL_ADDRESS_BITS - 2)
        word, strobes = Signal(32), Signal(4)
        write = Signal()
        m.d.comb += [
            self.awready.eq(~have_address & ~self.bvalid),
            self.wready.eq(~have_word & ~self.bvalid),
            write.eq(have_address & have_word & ~self.bvalid),
        ]
        with m.If(self.awvalid & self.awready):
            m.d.sync += [have_address.eq(1), address.eq(self.awaddr[2:])]
        with m.If(self.wvalid & self.wready):
            m.d.sync += [have_word.eq(1), word.eq(self.wdata), strobes.eq(self.wstrb)]
        with m.If(write):
            m.d.sync += [have_address.eq(0), have_word.eq(0), self.bvalid.eq(1)]
        with m.If(self.bvalid & self.bready):
            m.d.sync += self.bvalid.eq(0)
        return address, word, strobes, write

    def _readable(self, settings, status, gie, ier, isr) -> dict[int, object]:
        """Value of every register by word number."""
        named = {
            **settings,
            "control": status,
            "gie": gie,
            "ier": ier,
            "isr": isr,
            "id": Const(ID_VALUE, 32),
            "marks_written": self.marks_written,
            "error": Cat(self.error_code, self.error_unit),
            "error_instruction": self.error_index,
        }
        pairs = {
            "fingerprint": Const(int(self._variant.fingerprint, 16), 64),
            **{name: getattr(self, name) for name in _COUNTERS},
        }
        for name, value in pairs.items():
            named[f"{name}_lo"], named[f"{name}_hi"] = value[:32], value[32:]
        words = {register(name).offset // 4: value for name, value in named.items()}
        for unit in Unit:
            for number, kind in enumerate((*CLASSES, None)):
                words[counter_offset(unit, kind) // 4] = self.counts[unit][number]
        return words

    def _answer_reads(self, m: Module, values: dict[int, object]):
        """Serve AR and R; return the pulse of a read of `control`.

        The read mux has two registered stages, first within groups of words, then among groups: a
        mux of seventy words in one cycle would be the critical path of the machine. Its selects are
        one-hot, decoded when the address arrives.
        """
        numbers = sorted({word // _GROUP_WORDS for word in values})
        which_word, which_group = Signal(_GROUP_WORDS), Signal(len(numbers))
        busy, chosen, status = Signal(), Signal(), Signal()
        m.d.comb += self.arready.eq(~busy)
        address = self.araddr[2:]
        with m.If(self.arvalid & self.arready):
            m.d.sync += [
                busy.eq(1),
                which_word.eq(Cat(address[:_WORD_BITS] == word for word in range(_GROUP_WORDS))),
                which_group.eq(Cat(address[_WORD_BITS:] == number for number in numbers)),
                status.eq(address == register("control").offset // 4),
            ]
        groups = []
        for number in numbers:
            first = number * _GROUP_WORDS
            group = Signal(32, name=f"group{number}", reset_less=True)
            members = [values.get(first + word, Const(0, 32)) for word in range(_GROUP_WORDS)]
            m.d.sync += group.eq(select_one(which_word, members))
            groups.append(group)
        kept, is_kept = Signal(32, reset_less=True), Signal()
        with m.If(busy & ~chosen):
            m.d.sync += [chosen.eq(1), is_kept.eq(0)]

            def asked(half: str) -> Value:
                """One bit per counter: this half of it is read."""
                words = [register(f"{name}_{half}").offset // 4 for name in _COUNTERS]
                return Cat(
                    which_word[word % _GROUP_WORDS]
                    & which_group[numbers.index(word // _GROUP_WORDS)]
                    for word in words
                )

            self._keep_high(m, asked("lo"), asked("hi"), kept, is_kept, which_group)
        with m.If(chosen & ~self.rvalid):
            shown = select_one(Cat(which_group, is_kept), [*groups, kept])
            m.d.sync += [self.rvalid.eq(1), self.rdata.eq(shown)]
        with m.If(self.rvalid & self.rready):
            m.d.sync += [self.rvalid.eq(0), busy.eq(0), chosen.eq(0)]
        # Done is cleared in the cycle in which its group is sampled, so that the end of a run one
        # cycle later is not lost.
        return busy & ~chosen & status

    def _keep_high(
        self,
        m: Module,
        low: Value,
        high: Value,
        kept: Signal,
        is_kept: Signal,
        which_group: Signal,
    ) -> None:
        """Latch the high half when the low half is read; return it instead of a group's value."""
        owner = Signal(len(_COUNTERS))
        with m.If(low.any()):
            halves = [getattr(self, name)[32:] for name in _COUNTERS]
            m.d.sync += [kept.eq(select_one(low, halves)), owner.eq(low)]
        with m.If((high & owner).any()):
            m.d.sync += [owner.eq(0), is_kept.eq(1), which_group.eq(0)]
