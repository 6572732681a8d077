"""The design on a board: clock, reset, lights, the shell around the machine, and its memory.

Input: `BoardSettings`, whose `board` says which pins there are. Output: Verilog (the machine
included).
"""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, IOPort, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect

from daedal.hw.boards.memory_slave import MemorySlave
from daedal.hw.boards.pll import Pll
from daedal.hw.boards.sdram.controller import SdramController
from daedal.hw.boards.sdram.pads import IN_CLOCKS, OUT_CLOCKS, SdramPads
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.boards.shell import Shell
from daedal.hw.emit import emit_component
from daedal.hw.family import Family, Platform
from daedal.hw.pipeline import register
from daedal.isa.sdram_slots import CAPTURE_CLOCKS

__all__ = ["TOP_MODULE", "BoardTop", "emit"]

TOP_MODULE = "daedal_board"

_RESET_BITS = 4
"""The machine leaves reset `2 ** _RESET_BITS` cycles after the clock is stable."""


class BoardTop(wiring.Component):
    """All that is in a board's FPGA.

    Members
    -------
    clock : the oscillator.
    receive, send : the serial port.
    button : while pressed, resets everything except the contents of on-chip memory; SDRAM is
        tested anew.
    lights : 0 the clock is stable, 1 a request is being executed, 2 the machine's interrupt,
        3 memory is being tested, 4 memory has failed its test.
    sdram_* : with SDRAM, the chip's pins; `data` are its data pins, `sdram_d`.

    Outputs that the board wants held have their names in its file. All levels are the board's.
    """

    def __init__(self, *, settings: BoardSettings) -> None:
        self._settings = settings
        self._board = board = settings.board
        chip = settings.sdram
        self._sdram_pins = {} if chip is None or board.sdram is None else board.sdram.pins
        self.data = None if chip is None else IOPort(chip.data_bits, name="sdram_d")
        super().__init__(
            {
                "clock": In(1),
                "receive": In(1),
                "send": Out(1),
                "button": In(1),
                "lights": Out(len(board.pins["lights"].sites)),
                **{name: Out(1) for name in board.held},
                **{
                    f"sdram_{name}": Out(len(pin.sites))
                    for name, pin in self._sdram_pins.items()
                    if name != "d"
                },
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        settings = self._settings
        m.submodules.pll = pll = Pll(settings=settings.clock)
        m.domains.sync = domain = ClockDomain()
        m.d.comb += [pll.input.eq(self.clock), domain.clk.eq(pll.clock)]
        self._reset(m, domain, pll.locked)
        m.submodules.shell = shell = Shell(
            variant=settings.variant,
            memory=self._memory(m, pll),
            clock_hz=settings.clock.output_hz,
            divisor=settings.divisor,
            silence_cycles=settings.silence_cycles,
            num_tested=settings.num_tested,
        )
        lights = Signal.like(self.lights, name="lights_on")  # the first ones, if there are fewer
        m.d.comb += lights.eq(
            Cat(~domain.rst, shell.busy, shell.interrupt, shell.testing, shell.faulty)
        )
        m.d.comb += [
            shell.rx.eq(self.receive),
            self.send.eq(shell.tx),
            *(getattr(self, name).eq(pin.level) for name, pin in self._board.held.items()),
        ]
        # In registers: the pins are far from what they show.
        shown = register(m, lights, name="shown")
        m.d.comb += self.lights.eq(shown if self._board.pins["lights"].level else ~shown)
        return m

    def _memory(self, m: Module, pll: Pll) -> MemorySlave | SdramController:
        """On-chip memory, or the SDRAM's controller, connected to its pins."""
        settings, times = self._settings, self._settings.slot_times
        if settings.sdram is None or self.data is None or times is None:
            num_words = settings.memory_bytes // settings.variant.bus_bytes
            return MemorySlave(variant=settings.variant, num_words=num_words)
        m.domains.pins = pins = ClockDomain(reset_less=True)
        controller = SdramController(
            variant=settings.variant,
            times=times,
            capture_clocks=CAPTURE_CLOCKS + OUT_CLOCKS + IN_CLOCKS,
        )
        m.submodules.pads = pads = SdramPads(chip=settings.sdram, data=self.data)
        connect(m, controller.sdram, pads.controller)
        m.d.comb += [pins.clk.eq(pll.pins_clock), pads.chip_clock.eq(pll.chip_clock)]
        for name in self._sdram_pins:
            if name != "d":
                m.d.comb += getattr(self, f"sdram_{name}").eq(getattr(pads, name))
        return controller

    def _reset(self, m: Module, domain: ClockDomain, locked: Signal) -> None:
        """Reset from power-up until the clock is stable and the button released for some cycles."""
        m.domains.boot = boot = ClockDomain(reset_less=True, local=True)
        m.d.comb += boot.clk.eq(ClockSignal())
        good, reset = Signal(), Signal(init=1)
        released = ~self.button if self._board.pins["button"].level else self.button
        m.submodules.good = FFSynchronizer(locked & released, good, o_domain="boot")
        m.d.comb += domain.rst.eq(reset)
        count = Signal(_RESET_BITS)
        m.d.boot += reset.eq(~count.all())
        with m.If(~good):
            m.d.boot += count.eq(0)
        with m.Elif(~count.all()):
            m.d.boot += count.eq(count + 1)


def emit(settings: BoardSettings, machine: str, family: Family | None = None) -> str:
    """The whole design as Verilog, top module `TOP_MODULE`.

    `machine` is the variant's Verilog, and `family` what it was emitted for (`hw.emit`).
    """
    variant, title = settings.variant, settings.board.title
    heading = f"{title} with Daedal accelerator, variant {variant.name}, {variant.fingerprint}."
    board = BoardTop(settings=settings)
    pads = () if board.data is None else (board.data,)
    return emit_component(board, TOP_MODULE, heading, family, pads=pads) + "\n" + machine
