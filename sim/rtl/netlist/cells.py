"""Reads a synthesized netlist as Yosys writes it (`write_json`): cells connected by numbered nets.

Input: JSON text. Output: `Netlist`.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daedal.common.errors import ToolError

__all__ = ["Bit", "Cell", "Netlist", "Port", "read_netlist"]

Bit = int | str
"""The number of a net, or a constant: ``"0"`` or ``"1"``."""

_HIERARCHY = "$scopeinfo"  # records where a module was before flattening


@dataclass(frozen=True)
class Port:
    """A pin of the design: `direction` is ``input``, ``output`` or ``inout``; bits start at the
    lowest."""

    direction: str
    bits: tuple[Bit, ...]


@dataclass(frozen=True)
class Cell:
    """One cell: its kind is a primitive of the family, as the vendor names it."""

    name: str
    kind: str
    parameters: Mapping[str, str]
    pins: Mapping[str, tuple[Bit, ...]]

    def bit(self, pin: str, absent: str = "0") -> Bit:
        """The bit at a pin one bit wide; `absent` where the pin is left open."""
        bits = self.pins.get(pin, ())
        return bits[0] if bits else absent

    def bus(self, prefix: str, width: int) -> tuple[Bit, ...]:
        """The bits at the pins ``prefix0``, ``prefix1``, ...; open ones are ``"0"``."""
        return tuple(self.bit(f"{prefix}{number}") for number in range(width))

    def text(self, parameter: str, default: str) -> str:
        """A text parameter."""
        # Yosys appends a space to a text that looks like a number.
        return self.parameters.get(parameter, default).rstrip(" ")

    def number(self, parameter: str, default: int = 0) -> int:
        """A numeric parameter, which Yosys writes in binary."""
        digits = self.parameters.get(parameter)
        if digits is None:
            return default
        if not digits or set(digits) - set("01"):
            raise ToolError(
                f"{parameter} of a {self.kind} must be a binary number, not {digits!r} "
                f"(cell {self.name})"
            )
        return int(digits, 2)

    def require(self, parameter: str, default: str, *allowed: str) -> str:
        """A text parameter that must be one of `allowed`. Raises ToolError for any other."""
        value = self.text(parameter, default)
        if value not in allowed:
            raise ToolError(
                f"{parameter} of a {self.kind} must be {' or '.join(allowed)} to be simulated, "
                f"not {value} (cell {self.name})"
            )
        return value


@dataclass(frozen=True)
class Netlist:
    """A flat design."""

    top: str
    ports: Mapping[str, Port]
    cells: tuple[Cell, ...]


def read_netlist(text: str, top: str, *, seed: int) -> Netlist:
    """Read the module `top` from what Yosys wrote.

    Undefined bits (constants at pins, contents of memories) are drawn at random from `seed`: a
    correct design must work with any values.

    Raises
    ------
    ToolError
        The text is not a netlist, or has no such module.
    """
    rng = random.Random(seed)
    try:
        module = json.loads(text)["modules"][top]
        ports = {
            name: Port(port["direction"], tuple(port["bits"]))
            for name, port in module["ports"].items()
        }
        cells = tuple(
            _cell(name, cell, rng)
            for name, cell in module["cells"].items()
            if cell["type"] != _HIERARCHY
        )
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        raise ToolError(
            f"a netlist must be JSON from Yosys with the module {top}; this text is not "
            f"({type(error).__name__}: {error})"
        ) from None
    return Netlist(top, ports, cells)


def _cell(name: str, cell: dict[str, Any], rng: random.Random) -> Cell:
    return Cell(
        name,
        cell["type"],
        {key: _defined(str(value), rng) for key, value in cell.get("parameters", {}).items()},
        {pin: tuple(_bit(bit, rng) for bit in bits) for pin, bits in cell["connections"].items()},
    )


def _bit(bit: Bit, rng: random.Random) -> Bit:
    return bit if isinstance(bit, int) or bit in "01" else rng.choice("01")


def _defined(value: str, rng: random.Random) -> str:
    if "x" not in value or set(value) - set("01x"):
        return value
    return "".join(rng.choice("01") if digit == "x" else digit for digit in value)
