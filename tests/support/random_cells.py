"""Random netlists of small ECP5 cells, as Yosys writes them, and the same as Verilog instances."""

import json
from typing import Any

import numpy as np

__all__ = ["NUM_INPUTS", "RandomCells"]

NUM_INPUTS = 12
_FIRST_NET = 2  # 0 and 1 are constants in Yosys' netlists


class RandomCells:
    """Cells of all small kinds; the pins of each come from inputs, constants and earlier cells.

    `num_outputs` nets are shown: all that the cells drive.
    """

    def __init__(self, rng: np.random.Generator, num_cells: int) -> None:
        self._rng = rng
        self._cells: dict[str, dict[str, Any]] = {}
        self.clock = _FIRST_NET
        self.inputs = list(range(_FIRST_NET + 1, _FIRST_NET + 1 + NUM_INPUTS))
        self._nets = list(self.inputs)
        makers = [self._lut, self._pfumx, self._l6mux, self._carry, self._flip_flop, self._memory]
        for number in range(num_cells):
            makers[number % len(makers)]()

    @property
    def driven(self) -> list[int]:
        """The nets that cells drive."""
        return self._nets[NUM_INPUTS:]

    @property
    def num_outputs(self) -> int:
        """How many they are."""
        return len(self.driven)

    def json(self) -> str:
        """The netlist."""
        ports = {
            "clk": {"direction": "input", "bits": [self.clock]},
            "x": {"direction": "input", "bits": self.inputs},
            "y": {"direction": "output", "bits": self.driven},
        }
        return json.dumps({"modules": {"dut": {"ports": ports, "cells": self._cells}}})

    def instances(self) -> str:
        """Verilog with an instance of each cell, for models that somebody else wrote."""
        wires = [f"wire n{net};" for net in [self.clock, *self._nets]]
        lines = [
            f"module dut(input clk, input [{NUM_INPUTS - 1}:0] x, "
            f"output [{self.num_outputs - 1}:0] y);",
            *wires,
            f"assign n{self.clock} = clk;",
            f"assign {_bus(self.inputs)} = x;",
            f"assign y = {_bus(self.driven)};",
        ]
        for name, cell in self._cells.items():
            settings = ", ".join(
                f".{key}({_setting(value)})" for key, value in cell["parameters"].items()
            )
            pins = ", ".join(f".{pin}({_bus(bits)})" for pin, bits in cell["connections"].items())
            lines.append(f"{cell['type']} #({settings}) {name} ({pins});")
        return "\n".join([*lines, "endmodule\n"])

    def _add(
        self, kind: str, settings: dict[str, str], pins: dict[str, list[int | str]], **outputs: int
    ) -> None:
        connections: dict[str, list[int | str]] = dict(pins)
        for pin, width in outputs.items():
            first = self._nets[-1] + 1
            new = list(range(first, first + width))
            self._nets += new
            connections[pin] = list(new)
        name = f"cell{len(self._cells)}"
        self._cells[name] = {"type": kind, "parameters": settings, "connections": connections}

    def _bits(self, *pins: str, width: int = 1) -> dict[str, list[int | str]]:
        """A random bit for each pin: mostly of late cells, now and then a constant."""

        def one() -> int | str:
            if self._rng.random() < 0.1:
                return str(self._rng.choice(["0", "1"]))
            window = self._nets[-40:] if self._rng.random() < 0.7 else self.inputs
            return int(self._rng.choice(window))

        return {pin: [one() for _ in range(width)] for pin in pins}

    def _digits(self, count: int) -> str:
        return "".join(self._rng.choice(["0", "1"], count))

    def _lut(self) -> None:
        self._add("LUT4", {"INIT": self._digits(16)}, self._bits(*"ABCD"), Z=1)

    def _pfumx(self) -> None:
        self._add("PFUMX", {}, self._bits("ALUT", "BLUT", "C0"), Z=1)

    def _l6mux(self) -> None:
        self._add("L6MUX21", {}, self._bits("D0", "D1", "SD"), Z=1)

    def _carry(self) -> None:
        settings = {"INIT0": self._digits(16), "INIT1": self._digits(16)}
        settings |= {"INJECT1_0": "NO", "INJECT1_1": "NO"}
        pins = self._bits("CIN", *(pin + half for pin in "ABCD" for half in "01"))
        self._add("CCU2C", settings, pins, S0=1, S1=1, COUT=1)

    def _flip_flop(self) -> None:
        settings = {
            "GSR": "DISABLED",
            "CEMUX": str(self._rng.choice(["1 ", "CE", "INV"])),
            "CLKMUX": "CLK",
            "LSRMUX": str(self._rng.choice(["LSR", "INV"])),
            "REGSET": str(self._rng.choice(["RESET", "SET"])),
            "SRMODE": "LSR_OVER_CE",
        }
        pins = self._bits("DI", "CE", "LSR")
        self._add("TRELLIS_FF", settings, {"CLK": [self.clock], **pins}, Q=1)

    def _memory(self) -> None:
        settings = {"INITVAL": self._digits(64), "WCKMUX": "WCK", "WREMUX": "WRE"}
        pins = {**self._bits("DI", "WAD", "RAD", width=4), **self._bits("WRE")}
        self._add("TRELLIS_DPR16X4", settings, {"WCK": [self.clock], **pins}, DO=4)


def _bus(bits: list[Any]) -> str:
    texts = [f"n{bit}" if isinstance(bit, int) else f"1'b{bit}" for bit in reversed(bits)]
    return f"{{{', '.join(texts)}}}"


def _setting(value: str) -> str:
    digits = not set(value) - set("01") and len(value) > 1
    return f"{len(value)}'b{value}" if digits else f'"{value.rstrip()}"'
