"""The ULX3S with an ECP5-85F: its pins, and the whole design on them.

Input: `BoardSettings`. Output: Verilog (the machine included) and the constraints for place and
route. Source: the ULX3S project's constraints for boards 2.x and 3.0 (github.com/emard/ulx3s,
doc/constraints/ulx3s_v20.lpf): sites, pulls and drives.
"""

from amaranth.hdl import Cat, ClockDomain, ClockSignal, IOPort, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out, connect

from daedal.common.errors import UserError
from daedal.hw.boards.memory_slave import MemorySlave
from daedal.hw.boards.pll import Pll
from daedal.hw.boards.sdram.controller import SdramController
from daedal.hw.boards.sdram.layouts import sdram_pins
from daedal.hw.boards.sdram.pads import IN_CLOCKS, OUT_CLOCKS, SdramPads
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.boards.shell import Shell
from daedal.hw.emit import emit_component
from daedal.hw.family import Family, Platform
from daedal.hw.pipeline import register
from daedal.isa.sdram_chip import SdramChip
from daedal.isa.sdram_slots import CAPTURE_CLOCKS

__all__ = [
    "OSCILLATOR_HZ",
    "PACKAGE",
    "SPEED_GRADE",
    "TOP_MODULE",
    "Ulx3s",
    "check_chip",
    "constraints",
    "emit",
]

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

_SDRAM_SITES = {
    "clk": "F19",
    "cke": "F20",
    "csn": "P20",
    "rasn": "R20",
    "casn": "T19",
    "wen": "T20",
    "ba": "P19 N20",
    "a": "M20 M19 L20 L19 K20 K19 K18 J20 J19 H20 N19 G20 G19",
    "dqm": "U19 E20",
    "d": "J16 L18 M18 N18 P18 T18 T17 U20 E19 D20 D19 C20 E18 F18 J18 J17",
}
"""Sites of each of the chip's pins, lowest bit first."""
_SDRAM_OPTIONS = "PULLMODE=NONE DRIVE=4 SLEWRATE=FAST"


def _sdram_pins() -> dict[str, tuple[str, str]]:
    """Site and options of the chip's pins."""
    pins = {}
    for name, sites in _SDRAM_SITES.items():
        for bit, site in enumerate(sites.split()):
            suffix = f"[{bit}]" if " " in sites else ""
            pins[f"sdram_{name}{suffix}"] = (site, _SDRAM_OPTIONS)
    return pins


def check_chip(chip: SdramChip) -> None:
    """Refuse a chip with other pins than the board's.

    Raises
    ------
    UserError
        It has another number of data pins, addresses or banks.
    """
    for name, pins in (("data_bits", "d"), ("row_bits", "a"), ("bank_bits", "ba")):
        wanted, value = len(_SDRAM_SITES[pins].split()), getattr(chip, name)
        if value != wanted:
            raise UserError(
                f"{name} of the SDRAM on this board must be {wanted}, not {value} (chip "
                f"{chip.name!r})"
            )


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
    sdram_* : with SDRAM, the chip's pins; `data` are its data pins, `sdram_d`.
    """

    def __init__(self, *, settings: BoardSettings) -> None:
        self._settings = settings
        chip = settings.sdram
        self.data = None if chip is None else IOPort(chip.data_bits, name="sdram_d")
        pins = {} if chip is None else sdram_pins(chip).members
        super().__init__(
            {
                "clk_25mhz": In(1),
                "ftdi_txd": In(1),
                "ftdi_rxd": Out(1),
                "btn_fire1": In(1),
                "wifi_gpio0": Out(1),
                "led": Out(8),
                **{
                    f"sdram_{name}": Out(pins[name].shape if name in pins else 1)
                    for name in _SDRAM_SITES
                    if chip is not None and name != "d"
                },
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
            memory=self._memory(m, pll),
            num_words=settings.memory_bytes // settings.variant.bus_bytes,
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
        for name in _SDRAM_SITES:
            if name != "d":
                m.d.comb += getattr(self, f"sdram_{name}").eq(getattr(pads, name))
        return controller

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
    board = Ulx3s(settings=settings)
    pads = () if board.data is None else (board.data,)
    return emit_component(board, TOP_MODULE, title, family, pads=pads) + "\n" + machine


def constraints(settings: BoardSettings) -> str:
    """Pins and the oscillator's frequency, in Lattice's preference language (LPF)."""
    pins = _PINS if settings.sdram is None else _PINS | _sdram_pins()
    lines = ["BLOCK RESETPATHS;", "BLOCK ASYNCPATHS;"]
    lines.append("SYSCONFIG CONFIG_IOVOLTAGE=3.3 COMPRESS_CONFIG=ON MCCLK_FREQ=62;")
    for pin, (site, options) in pins.items():
        lines.append(f'LOCATE COMP "{pin}" SITE "{site}";')
        lines.append(f'IOBUF PORT "{pin}" IO_TYPE=LVCMOS33 {options};')
    lines.append(f'FREQUENCY PORT "clk_25mhz" {OSCILLATOR_HZ / 1e6:g} MHZ;')
    return "\n".join(lines) + "\n"
