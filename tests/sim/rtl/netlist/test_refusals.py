"""Netlists that cannot be simulated are refused in a sentence; nothing is guessed."""

import json
from typing import Any

import pytest

from daedal.common.errors import ToolError
from daedal.sim.rtl.netlist.verilog import netlist_verilog


def netlist(kind: str, parameters: dict[str, str], pins: dict[str, list[Any]]) -> str:
    """A design `top` of one cell ``it``; net 2 is its clock."""
    cell = {"type": kind, "parameters": parameters, "connections": pins}
    ports = {"clk": {"direction": "input", "bits": [2]}}
    return json.dumps({"modules": {"top": {"ports": ports, "cells": {"it": cell}}}})


FLIP_FLOP = {"CLK": [2], "DI": [3], "LSR": ["0"], "Q": [4]}
REFUSED = {
    "another family's": (
        ("SB_LUT4", {}, {"O": [3]}),
        "cells of a netlist must be CCU2C, DP16KD, .* to be simulated, not SB_LUT4",
    ),
    "a reset without an edge": (
        ("TRELLIS_FF", {"SRMODE": "ASYNC"}, {**FLIP_FLOP, "LSR": [5]}),
        r"SRMODE of a TRELLIS_FF must be LSR_OVER_CE to be simulated, not ASYNC \(cell it\)",
    ),
    "a falling edge": (
        ("TRELLIS_FF", {"CLKMUX": "INV"}, FLIP_FLOP),
        "CLKMUX of a TRELLIS_FF must be CLK to be simulated, not INV",
    ),
    "no clock": (
        ("TRELLIS_FF", {}, FLIP_FLOP | {"CLK": ["0"]}),
        r"CLK of a TRELLIS_FF must have a clock, not a constant \(cell it\)",
    ),
    "no table": (
        ("LUT4", {"INIT": "17"}, {"A": [3], "Z": [4]}),
        r"INIT of a LUT4 must be a binary number, not '17' \(cell it\)",
    ),
    "a carry from nowhere": (
        ("CCU2C", {"INIT0": "0" * 16, "INIT1": "0" * 16}, {"S0": [4]}),
        "INJECT1_0 of a CCU2C must be NO to be simulated, not YES",
    ),
    "two clocks": (
        ("DP16KD", {}, {"CLKA": [2], "CLKB": [3]}),
        r"both ports of a DP16KD must have one clock to be simulated, not 2 \(cell it\)",
    ),
    "a width that is none": (
        ("DP16KD", {"DATA_WIDTH_A": "1000"}, {"CLKA": [2]}),
        "a DP16KD must be 1, 2, 4, 9, 18 or 36 bits wide, not 8",
    ),
    "wide writes at port B": (
        ("DP16KD", {"DATA_WIDTH_B": "100100"}, {"CLKB": [2], "WEB": [5]}),
        "port B of a DP16KD that is 36 bits wide must only read: WEB must be 0",
    ),
    "half a register": (
        ("DP16KD", {"DATA_WIDTH_B": "100100", "REGMODE_B": "OUTREG"}, {"CLKB": [2]}),
        r"must have both output registers or none, and one enable for them, .*\(cell it\)",
    ),
    "a register with two enables": (
        (
            "DP16KD",
            {"DATA_WIDTH_B": "100100", "REGMODE_A": "OUTREG", "REGMODE_B": "OUTREG"},
            {"CLKB": [2], "OCEA": ["0"], "OCEB": ["1"]},
        ),
        "must have both output registers or none, and one enable",
    ),
    "a block RAM's reset": (
        ("DP16KD", {"RESETMODE": "ASYNC"}, {"CLKA": [2], "RSTA": [5]}),
        "RESETMODE of a DP16KD must be SYNC to be simulated, not ASYNC",
    ),
    "a cascade": (
        ("MULT18X18D", {}, {"SOURCEA": ["1"]}),
        "SOURCEA of a MULT18X18D must be 0 to be simulated: no cascades",
    ),
    "signs that change": (
        ("MULT18X18D", {}, {"SIGNEDB": [5]}),
        r"SIGNEDB of a MULT18X18D must be constant to be simulated \(cell it\)",
    ),
    "a clock's other outputs": (
        ("EHXPLLL", {}, {"CLKI": [2], "CLKOS": [3], "INTLOCK": [4], "PHASEDIR": []}),
        r"no pins but CLKI, .*, LOCK to be simulated, not INTLOCK \(cell it\)",
    ),
    "a pad's reset": (
        ("ODDRX1F", {}, {"SCLK": [2], "D0": ["1"], "D1": ["1"], "Q": [4], "RST": [5]}),
        r"RST of a ODDRX1F must be 0 to be simulated \(cell it\)",
    ),
    "a pad without a clock": (
        ("ODDRX1F", {}, {"SCLK": ["1"], "D0": ["1"], "D1": ["1"], "Q": [4], "RST": ["0"]}),
        r"SCLK of a ODDRX1F must have a clock, not a constant \(cell it\)",
    ),
    "a data pad inside": (
        ("TRELLIS_IO", {"DIR": "BIDIR"}, {"B": [2], "I": [3], "O": [4], "T": [5]}),
        r"B of a TRELLIS_IO must be a pin of the design \(cell it\)",
    ),
    "a pad of one direction": (
        ("TRELLIS_IO", {"DIR": "OUTPUT"}, {"B": [2], "I": [3]}),
        r"DIR of a TRELLIS_IO must be BIDIR to be simulated, not OUTPUT \(cell it\)",
    ),
    "a multiplier's two clocks": (
        (
            "MULT18X18D",
            {"REG_INPUTA_CLK": "CLK0", "REG_OUTPUT_CLK": "CLK1"},
            {"CLK0": [2], "CLK1": [3]},
        ),
        r"a MULT18X18D must have one clock to be simulated, not 2 \(cell it\)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    cell, message = REFUSED[name]
    with pytest.raises(ToolError, match=message):
        netlist_verilog(netlist(*cell), "top")


@pytest.mark.parametrize("text", ["", "[]", '{"modules": {}}', '{"modules": {"top": 3}}'])
def test_no_netlist(text: str) -> None:
    with pytest.raises(ToolError, match="must be JSON from Yosys with the module top"):
        netlist_verilog(text, "top")


def test_what_is_undefined_is_drawn() -> None:
    """Each seed its own choice, always the same."""
    pins = {"A": [2], "B": ["x"], "C": ["x"], "D": ["x"], "Z": [4]}
    text = netlist("LUT4", {"INIT": "0110100110010110"}, pins)
    found = {netlist_verilog(text, "top", seed=seed).count("=~n2;") for seed in range(8)}
    assert found == {0, 1}, "an exclusive or of three such bits with A"
    assert netlist_verilog(text, "top", seed=3) == netlist_verilog(text, "top", seed=3)
