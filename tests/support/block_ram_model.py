"""What a block RAM of an ECP5 does, bit by bit: slow, and independent of the Verilog model."""

from dataclasses import dataclass, field

__all__ = ["BlockRam", "PortSettings"]

_LOW = {1: 0, 2: 1, 4: 2, 9: 3, 18: 4, 36: 5}
"""Address bits below a word, by its width."""

Bits = list[int | None]
"""From the lowest on; None where nobody knows."""


@dataclass(frozen=True)
class PortSettings:
    """How one port is set up; see `hdl/ecp5_cells.v`."""

    width: int
    mode: str = "NORMAL"
    registered: bool = False
    select: int = 0


@dataclass
class _Port:
    settings: PortSettings
    shown: Bits = field(default_factory=list)
    kept: Bits = field(default_factory=list)

    @property
    def out(self) -> Bits:
        return self.kept if self.settings.registered else self.shown


class BlockRam:
    """18,432 bits behind two ports A and B, which `clock` moves on by one edge."""

    def __init__(self, a: PortSettings, b: PortSettings, contents: int) -> None:
        self.ports = {"A": _Port(a), "B": _Port(b)}
        for port in self.ports.values():
            port.shown = port.kept = [0] * port.settings.width
        self.bits: Bits = [contents >> place & 1 for place in range(18432)]

    def outputs(self) -> dict[str, Bits]:
        """DOA and DOB."""
        a, b = self.ports["A"], self.ports["B"]
        wide = b.settings.width == 36
        first = b.out[:18] if wide else a.out[:18]
        second = b.out[18:] if wide else b.out
        return {"DOA": _padded(first), "DOB": _padded(second)}

    def clock(self, pins: dict[str, int]) -> bool:
        """One rising edge; True where the ports met at one word and one of them wrote."""
        cells = {name: self._cells(name, pins) for name in self.ports}
        active = {
            name: bool(pins[f"CE{name}"]) and pins[f"CS{name}"] == port.settings.select
            for name, port in self.ports.items()
        }
        writes = {
            name: self._written(name, pins)
            if active[name] and pins[f"WE{name}"] and not pins[f"RST{name}"]
            else []
            for name in self.ports
        }
        overlap = set(cells["A"]) & set(cells["B"])
        met = bool(all(active.values()) and overlap and (writes["A"] or writes["B"]))
        old = {name: [self.bits[place] for place in cells[name]] for name in self.ports}
        data = pins["DIA"] | pins["DIB"] << 18
        for name in self.ports:
            for place, bit in writes[name]:
                self.bits[place] = (data if name == "A" else pins["DIB"]) >> bit & 1
        if met and writes["A"] and writes["B"]:
            for place in {*cells["A"], *cells["B"]}:
                self.bits[place] = None
        for name, port in self.ports.items():
            other = "B" if name == "A" else "A"
            if pins[f"OCE{name}"]:
                port.kept = port.shown
            if active[name]:
                new = [self.bits[place] for place in cells[name]]
                lies = met and (bool(writes[other]) or not pins[f"WE{name}"])
                port.shown = self._next(port, bool(pins[f"WE{name}"]), old[name], new, lies)
            if pins[f"RST{name}"]:
                port.shown = port.kept = [0] * port.settings.width
        return met

    @staticmethod
    def _next(port: _Port, writing: bool, old: Bits, new: Bits, lies: bool) -> Bits:
        if lies:
            return [None] * port.settings.width
        if not writing or port.settings.mode == "READBEFOREWRITE":
            return old
        return new if port.settings.mode == "WRITETHROUGH" else port.shown

    def _cells(self, name: str, pins: dict[str, int]) -> list[int]:
        """The bits of the word that a port addresses."""
        width = self.ports[name].settings.width
        address = pins[f"AD{name}"] >> _LOW[width]
        if width >= 9:
            return list(range(address * width, (address + 1) * width))
        per_unit = 8 // width  # the ninth bit of a unit is out of reach
        first = address // per_unit * 9 + address % per_unit * width
        return list(range(first, first + width))

    def _written(self, name: str, pins: dict[str, int]) -> list[tuple[int, int]]:
        """The bits that a port writes, and which bits of its data."""
        width = self.ports[name].settings.width
        return [
            (place, bit)
            for bit, place in enumerate(self._cells(name, pins))
            if width < 18 or pins[f"AD{name}"] >> bit // 9 & 1
        ]


def _padded(bits: Bits) -> Bits:
    return [*bits, *[0] * (18 - len(bits))]
