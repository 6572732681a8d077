"""Registers between the controller's clock and the chip's pins, which have twice that clock.

Input: the commands of a slot, and the word it writes. Output: the pins; words that were read.
"""

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.boards.sdram.layouts import command_layout, sdram_pins
from daedal.hw.family import Platform
from daedal.hw.pipeline import delay, register
from daedal.isa.sdram_chip import BURST_COLUMNS, SdramChip
from daedal.isa.sdram_slots import CAPTURE_CLOCKS, captured_clocks

__all__ = ["SdramPhy"]

_RAS, _CAS, _WE = 4, 2, 1
# Command pins as RAS, CAS, WE, active low. Source: JEDEC standard 21-C, 3.11.5.1.
_NOP, _READ, _WRITE = 0b111, 0b101, 0b100
_PRECHARGE, _ACTIVATE, _REFRESH, _MODE = 0b010, 0b011, 0b001, 0b000

_ALL_BANKS_BIT = 10
"""A10 during PRECHARGE."""


class SdramPhy(wiring.Component):
    """Two clock domains: `sync`, and `pins` with twice its clock, in phase.

    Only the registers at the pins, one or two more stages of the input, and a bit that tells the
    two clocks of a cycle apart are in `pins`; no path in or into that domain has more than one
    look-up table.

    Parameters
    ----------
    chip
        Widths and CAS latency.
    capture_clocks
        From the CAS latency to a column in the input registers: 0 to 4, as the board's clocks lie
        and registers in the pads demand.

    Members
    -------
    decides : ``In(1)``
        The next cycle is the first of a slot.
    command : ``In(command_layout(chip))``
        Steady for a slot.
    write_word, write_strobes : a bus word, one bit for each byte; steady for a slot.
    read_word : ``Out``; a word, `read_cycles` after the slot of its READ began, for one cycle.
    sdram : ``Out(sdram_pins(chip))``
    """

    def __init__(self, *, chip: SdramChip, capture_clocks: int = CAPTURE_CLOCKS) -> None:
        if not 0 <= capture_clocks <= 4:
            raise ValueError(f"capture_clocks must be 0 to 4, not {capture_clocks!r}")
        self._chip = chip
        self._first_clock = captured_clocks(chip, capture_clocks)
        bits = BURST_COLUMNS * chip.data_bits
        super().__init__(
            {
                "decides": In(1),
                "command": In(command_layout(chip)),
                "write_word": In(bits),
                "write_strobes": In(bits // 8),
                "read_word": Out(bits),
                "sdram": Out(sdram_pins(chip)),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        # `late`: this clock is the second of its cycle.
        beat, seen, late = Signal(), Signal(), Signal()
        m.d.sync += beat.eq(~beat)
        m.d.pins += [seen.eq(beat), late.eq(beat != seen)]
        begins = register(m, self.decides, name="begins", reset_less=False)
        self._commands(m, begins, late)
        self._write(m, begins, late)
        self._read(m)
        return m

    def _commands(self, m: Module, begins: Signal, late: Signal) -> None:
        """Stage in `sync`: the commands of the two clocks of a cycle, and one address."""
        command, sdram = self.command, self.sdram
        first, second = Signal(3, init=_NOP), Signal(3, init=_NOP)
        bank = Signal.like(sdram.ba, name="bank", reset_less=True)
        address = Signal.like(sdram.a, name="address", reset_less=True)
        m.d.sync += [first.eq(_NOP), second.eq(_NOP)]
        with m.If(begins):
            m.d.sync += [
                bank.eq(command.data_bank),
                address.eq(command.column * BURST_COLUMNS),
            ]
            with m.If(command.read):
                m.d.sync += first.eq(_READ)
            with m.If(command.write):
                m.d.sync += first.eq(_WRITE)
        with m.Else():
            m.d.sync += [
                bank.eq(command.row_bank),
                address.eq(Mux(command.precharge, command.every << _ALL_BANKS_BIT, command.row)),
            ]
            with m.If(command.precharge):
                m.d.sync += first.eq(_PRECHARGE)
            for chosen, code in (
                (command.activate, _ACTIVATE),
                (command.refresh, _REFRESH),
                (command.mode, _MODE),
            ):
                with m.If(chosen):
                    m.d.sync += second.eq(code)
        m.d.pins += [
            Cat(sdram.we_n, sdram.cas_n, sdram.ras_n).eq(Mux(late, second, first)),
            sdram.ba.eq(bank),
            sdram.a.eq(address),
        ]

    def _write(self, m: Module, begins: Signal, late: Signal) -> None:
        """Half a word in each cycle, a column in each clock."""
        sdram = self.sdram
        writes = register(m, self.command.write, name="writes", reset_less=False)
        half = register(m, _half(self.write_word, begins), name="half")
        masked = Mux(self.command.write, ~_half(self.write_strobes, begins), 0)
        mask = register(m, masked, name="mask")
        m.d.pins += [
            sdram.dq_oe.eq(writes),
            sdram.dq_o.eq(Mux(late, *_columns(half)[::-1])),
            sdram.dqm.eq(Mux(late, *_columns(mask)[::-1])),
        ]

    def _read(self, m: Module) -> None:
        """Pairs of columns into `sync`; one more stage where a burst begins between two cycles."""
        came = Signal.like(self.sdram.dq_i, name="came", reset_less=True)
        before = Signal.like(came, name="before", reset_less=True)
        m.d.pins += [came.eq(self.sdram.dq_i), before.eq(came)]
        pair = Cat(before, came)
        if self._first_clock % 2:
            earlier = Signal.like(came, name="earlier", reset_less=True)
            m.d.pins += earlier.eq(before)
            pair = Cat(earlier, before)
        later_half = register(m, pair, name="later_half")
        m.d.comb += self.read_word.eq(Cat(delay(m, later_half, 1, name="earlier_half"), later_half))


def _columns(half: Value) -> tuple[Value, Value]:
    """The two columns of half a word."""
    return half[: len(half) // 2], half[len(half) // 2 :]


def _half(word: Value, begins: Value) -> Value:
    """The half that a cycle of a slot moves."""
    return Mux(begins, word[: len(word) // 2], word[len(word) // 2 :])
