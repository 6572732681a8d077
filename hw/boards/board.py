"""`Board`: what is around the FPGA: its part, the oscillator, pins, and the memory chip, if any.

`board_file` reads it from a TOML file; `top` builds the design of it, with these pins.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from daedal.common.errors import UserError
from daedal.hw.boards.pll import PllSettings, pll_settings
from daedal.hw.synth.place import DEVICES
from daedal.isa.memory_model import PRESETS
from daedal.isa.sdram_chip import SdramChip

__all__ = ["PINS", "SDRAM_PINS", "Board", "BoardSdram", "Pin"]

PINS = ("clock", "receive", "send", "button", "lights")
"""Pins of every board, as the ports of its design are called."""

SDRAM_PINS = ("clk", "cke", "csn", "rasn", "casn", "wen", "ba", "a", "dqm", "d")
"""Pins of an SDRAM. `cke` and `csn` are missing where the board ties them."""
_TIED = frozenset({"cke", "csn"})

_MOST_LIGHTS = 32

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_PORT = re.compile(r"[a-z][a-z0-9_]{0,31}")
_TITLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ()_.+-]{0,63}")
_PACKAGE = re.compile(r"[A-Z]{2,8}[0-9]{2,4}")
_SITE = re.compile(r"[A-Z]{1,2}[0-9]{1,2}")
_OPTIONS = re.compile(r"IO_TYPE=[A-Z0-9_]+( [A-Z]+=[A-Z0-9]+)*")


def _require(holds: object, message: str) -> None:
    if not holds:
        raise UserError(message)


@dataclass(frozen=True)
class Pin:
    """A pin, or several of one kind, lowest bit first.

    Attributes
    ----------
    sites
        Balls of the package.
    options
        Electrical options in Lattice's preference language.
    level
        What means pressed, lit or held: 1 or 0.
    """

    sites: tuple[str, ...]
    options: str
    level: int = 1

    def __post_init__(self) -> None:
        for site in self.sites:
            _require(_SITE.fullmatch(site), f"a site must be a ball such as G2, not {site!r:.40}")
        _require(
            _OPTIONS.fullmatch(self.options),
            "options of a pin must begin with IO_TYPE and be KEY=VALUE each, not "
            f"{self.options!r:.80}",
        )
        _require(self.level in (0, 1), f"level of a pin must be 0 or 1, not {self.level}")

    def constraints(self, port: str) -> Iterator[str]:
        """Lines of the preference language that place `port`."""
        for bit, site in enumerate(self.sites):
            name = f"{port}[{bit}]" if len(self.sites) > 1 else port
            yield f'LOCATE COMP "{name}" SITE "{site}";'
            yield f'IOBUF PORT "{name}" {self.options};'


@dataclass(frozen=True)
class BoardSdram:
    """The memory chip.

    Attributes
    ----------
    memory
        The preset of its part at the fastest clock (`isa.memory_model`).
    pins
        By their names in `SDRAM_PINS`.
    """

    memory: str
    pins: Mapping[str, Pin]

    def __post_init__(self) -> None:
        known = [name for name, model in PRESETS.items() if model.sdram is not None]
        _require(
            self.memory in known,
            f"sdram.memory must be a preset with an SDRAM, {' or '.join(known)}, not "
            f"{self.memory!r:.40}",
        )
        missing = set(SDRAM_PINS) - _TIED - set(self.pins)
        _require(not missing, f"sdram.sites must have {', '.join(sorted(missing))}")
        self.check_chip(self.chip)

    @property
    def chip(self) -> SdramChip:
        """The part that most boards of this kind have."""
        found = PRESETS[self.memory].sdram
        assert found is not None, "checked when it was made"
        return found.chip

    def check_chip(self, chip: SdramChip) -> None:
        """Refuse a chip with other pins than the board's.

        Raises
        ------
        UserError
            It has another number of data pins, masks, addresses or banks.
        """
        for name, value, pins in (
            ("data_bits", chip.data_bits, "d"),
            ("masks (data_bits / 8)", chip.data_bits // 8, "dqm"),
            ("row_bits", chip.row_bits, "a"),
            ("bank_bits", chip.bank_bits, "ba"),
        ):
            wanted = len(self.pins[pins].sites)
            _require(
                value == wanted,
                f"{name} of the SDRAM on this board must be {wanted}, not {value} (chip "
                f"{chip.name!r})",
            )


@dataclass(frozen=True)
class Board:
    """A board with an ECP5, as its file describes it.

    Attributes
    ----------
    name
        Of the board on the command line and in names of files.
    title
        Its name in sentences.
    device, package, speed_grade
        The part; the device is one of `hw.synth.place.DEVICES`.
    oscillator_mhz
        Frequency at the pin `clock`.
    pins
        By their names in `PINS`: `receive` and `send` are the serial port's, `button` resets; a
        board with few `lights` shows the first ones of the design.
    held
        Further outputs by name, which keep their `level`.
    sdram
        The memory chip; None: machines have block RAM only.

    Raises
    ------
    UserError
        A value is none that such a board has.
    """

    name: str
    title: str
    device: str
    package: str
    speed_grade: int
    oscillator_mhz: float
    pins: Mapping[str, Pin]
    held: Mapping[str, Pin] = field(default_factory=dict)
    sdram: BoardSdram | None = None

    def __post_init__(self) -> None:
        for key, pattern, what in (
            ("name", _NAME, "at most 32 small letters, digits, '-' and '_'"),
            ("title", _TITLE, "at most 64 letters, digits and spaces"),
            ("package", _PACKAGE, "one such as CABGA381"),
        ):
            value = getattr(self, key)
            _require(pattern.fullmatch(value), f"{key} must be {what}, not {value!r:.80}")
        _require(
            self.device in DEVICES,
            f"device must be one of {', '.join(DEVICES)}, not {self.device!r:.40}",
        )
        _require(
            self.speed_grade in (6, 7, 8), f"speed_grade must be 6, 7 or 8, not {self.speed_grade}"
        )
        _require(
            10 <= self.oscillator_mhz <= 400,
            f"oscillator_mhz must be 10 to 400 (the PLL takes no other), not "
            f"{self.oscillator_mhz:g}",
        )
        missing = [name for name in PINS if name not in self.pins]
        _require(not missing, f"pins must have {', '.join(missing)}")
        for name, pin in self.pins.items():
            most = _MOST_LIGHTS if name == "lights" else 1
            _require(
                1 <= len(pin.sites) <= most,
                f"pins.{name} must have {f'1 to {most} sites' if most > 1 else 'one site'}, not "
                f"{len(pin.sites)}",
            )
        for name, pin in self.held.items():
            _require(
                _PORT.fullmatch(name) and name not in PINS and not name.startswith("sdram_"),
                f"a held pin must have a name of its own in small letters, not {name!r:.40}",
            )
            _require(len(pin.sites) == 1, f"held.{name} must have one site, not {len(pin.sites)}")
        self._check_sites()

    def _check_sites(self) -> None:
        used: dict[str, str] = {}
        for port, pin in self.ports(with_sdram=True):
            for site in pin.sites:
                other = used.setdefault(site, port)
                _require(other == port, f"a site must have one pin; {site} has {other} and {port}")
            _require(len(set(pin.sites)) == len(pin.sites), f"{port} must have sites that differ")

    @property
    def oscillator_hz(self) -> int:
        """Frequency at the pin `clock`."""
        return round(self.oscillator_mhz * 1e6)

    def ports(self, *, with_sdram: bool) -> Iterator[tuple[str, Pin]]:
        """Ports of the design, and their pins."""
        yield from self.pins.items()
        yield from self.held.items()
        if self.sdram is not None and with_sdram:
            for name, pin in self.sdram.pins.items():
                yield f"sdram_{name}", pin

    def clock(self, wanted_hz: float, chip_phase: float | None = None) -> PllSettings:
        """As `pll.pll_settings`, from this board's oscillator."""
        return pll_settings(self.oscillator_hz, wanted_hz, chip_phase)

    def constraints(self, *, with_sdram: bool) -> str:
        """Pins and the oscillator's frequency, in Lattice's preference language (LPF)."""
        lines = ["BLOCK RESETPATHS;", "BLOCK ASYNCPATHS;"]
        lines.append("SYSCONFIG CONFIG_IOVOLTAGE=3.3 COMPRESS_CONFIG=ON MCCLK_FREQ=62;")
        for port, pin in self.ports(with_sdram=with_sdram):
            lines += pin.constraints(port)
        lines.append(f'FREQUENCY PORT "clock" {self.oscillator_mhz:g} MHZ;')
        return "\n".join(lines) + "\n"
