"""The ULX3S with an ECP5-85F: its pins, and the whole design on them.

Input: `BoardSettings`. Output: Verilog (the machine included) and the constraints for place and
route. Source: the ULX3S project's constraints for boards 2.x and 3.0 (github.com/emard/ulx3s,
doc/constraints/ulx3s_v20.lpf): sites, pulls and drives.
"""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from daedal.hw.boards.pll import Pll
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.boards.shell import Shell
from daedal.hw.emit import emit_component
from daedal.hw.family import Family, Platform
from daedal.hw.pipeline import register

__all__ = ["OSCILLATOR_HZ", "PACKAGE", "SPEED_GRADE", "TOP_MODULE", "Ulx3s", "constraints", "emit"]

TOP_MODULE = "ulx3s"
OSCILLATOR_HZ = 25_000_000
PACKAGE = "CABGA381"
SPEED_GRADE = 6

_RESET_BITS = 4
"""The machine leaves reset `2 ** _RESET_BITS` cycles after the clock is stable."""

_LED_SITES = ("B2", "C2", "C1", "D2", "D1", "E2", "E1", "H3")

_PINS = {
    "clk_25mhz": ("G2", "PULLMODE=NONE"),
    "ftdi_txd": ("M1", "PULLMODE=UP"),
    "ftdi_rxd": ("L4", "PULLMODE=UP DRIVE=4"),
    "btn_fire1": ("R1", "PULLMODE=DOWN"),
    "wifi_gpio0": ("L2", "PULLMODE=NONE DRIVE=4"),
    **{f"led[{n}]": (site, "PULLMODE=NONE DRIVE=4") for n, site in enumerate(_LED_SITES)},
}
"""Site and electrical options of every pin; all are LVCMOS33."""


class Ulx3s(wiring.Component):
    """The board's top.

    Members
    -------
    clk_25mhz : the oscillator.
    ftdi_txd, ftdi_rxd : the serial port, named from its USB chip's view: `ftdi_txd` is an input.
    btn_fire1 : while pressed, resets everything except the memory's contents.
    wifi_gpio0 : held high, as the project's examples do: low would let the ESP32 take over the
    board.
    led : 0 the clock is stable, 1 a request is being executed, 2 the machine's interrupt.
    """

    def __init__(self, *, settings: BoardSettings) -> None:
        self._settings = settings
        super().__init__(
            {
                "clk_25mhz": In(1),
                "ftdi_txd": In(1),
                "ftdi_rxd": Out(1),
                "btn_fire1": In(1),
                "wifi_gpio0": Out(1),
                "led": Out(8),
            }
        )

    def elaborate(self, platform: Platform) -> Module:
        m = Module()
        settings = self._settings
        m.submodules.pll = pll = Pll(settings=settings.clock)
        m.domains.sync = domain = ClockDomain()
        m.d.comb += [pll.input.eq(self.clk_25mhz), domain.clk.eq(pll.clock)]
        self._reset(m, domain, pll.locked)
        m.submodules.shell = shell = Shell(
            variant=settings.variant,
            memory_bytes=settings.memory_bytes,
            clock_hz=settings.clock.output_hz,
            divisor=settings.divisor,
            silence_cycles=settings.silence_cycles,
        )
        lights = Cat(~domain.rst, shell.busy, shell.interrupt)
        m.d.comb += [
            shell.rx.eq(self.ftdi_txd),
            self.ftdi_rxd.eq(shell.tx),
            self.wifi_gpio0.eq(1),
            # In registers: the pins are far from what they show.
            self.led.eq(register(m, lights, name="lights")),
        ]
        return m

    def _reset(self, m: Module, domain: ClockDomain, locked: Signal) -> None:
        """Reset from power-up until the clock is stable and the button released for some cycles."""
        m.domains.boot = boot = ClockDomain(reset_less=True, local=True)
        m.d.comb += boot.clk.eq(ClockSignal())
        good, reset = Signal(), Signal(init=1)
        m.submodules.good = FFSynchronizer(locked & ~self.btn_fire1, good, o_domain="boot")
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
    variant = settings.variant
    title = f"ULX3S with Daedal accelerator, variant {variant.name}, {variant.fingerprint}."
    return emit_component(Ulx3s(settings=settings), TOP_MODULE, title, family) + "\n" + machine


def constraints() -> str:
    """Pins and the oscillator's frequency, in Lattice's preference language (LPF)."""
    lines = ["BLOCK RESETPATHS;", "BLOCK ASYNCPATHS;"]
    lines.append("SYSCONFIG CONFIG_IOVOLTAGE=3.3 COMPRESS_CONFIG=ON MCCLK_FREQ=62;")
    for pin, (site, options) in _PINS.items():
        lines.append(f'LOCATE COMP "{pin}" SITE "{site}";')
        lines.append(f'IOBUF PORT "{pin}" IO_TYPE=LVCMOS33 {options};')
    lines.append(f'FREQUENCY PORT "clk_25mhz" {OSCILLATOR_HZ / 1e6:g} MHZ;')
    return "\n".join(lines) + "\n"
