"""Local constant drivers, so that nextpnr's router need not route constants across an ECP5.

Input: a netlist as Yosys writes it. Output: an equivalent netlist in which no pin needs a constant
from far away.

nextpnr writes most constants into the cell that reads them. For two kinds of pins it cannot (its
ecp5/pack.cc): addresses of memories in tables, and control pins of multipliers. All of these are
sinks of two chip-wide nets, each driven by one table. Constants are not timing-critical, so the
router routes them last, when the wires are occupied, and searches half the chip for each.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from daedal.hw.synth.hierarchy import Cells, top_module

__all__ = ["share_addresses", "shared_addresses", "with_near_constants"]

_SMALL_MEMORY = "TRELLIS_DPR16X4"
_MULTIPLIER = "MULT18X18D"
_CONSTANTS = ("0", "1")
_ROUTED = re.compile(r"(CLK|CE|RST|SOURCE|SIGNED)\w+")
"""Pins of a multiplier whose constants are routed."""
_SITE = re.compile(r"X(\d+)/Y(\d+)/MULT18_(\d+)")


def shared_addresses(netlist: str) -> str:
    """`share_addresses` of the top module of a netlist in JSON."""
    design = json.loads(netlist)
    share_addresses(top_module(design)["cells"])
    return json.dumps(design)


def share_addresses(cells: Cells) -> None:
    """Let address bits that a memory in tables does not need follow one that it does, in place.

    A memory of at most eight words leaves high bits of its addresses constant, the same for reads
    and writes. If these are tied to another address bit, each word still has a unique place.
    Memories that begin with other values than zeros, whose places matter, stay as they are.
    """
    for cell in cells.values():
        if cell["type"] != _SMALL_MEMORY or "1" in cell["parameters"].get("INITVAL", ""):
            continue
        read, write = (cell["connections"][name] for name in ("RAD", "WAD"))
        idle = [k for k in range(len(read)) if read[k] == write[k] and read[k] in _CONSTANTS]
        live = [k for k in range(len(read)) if k not in idle]
        if idle and live:
            for k in idle:
                read[k], write[k] = read[live[-1]], write[live[-1]]
            if "0" in cell["parameters"].get("INITVAL", ""):
                # Words that cannot be addressed may be undefined.
                cell["parameters"]["INITVAL"] = "0" * 64


def with_near_constants(design: Mapping[str, Any], plan: Mapping[str, str]) -> dict[str, Any]:
    """`design` with tables for the constants of multipliers, those of four neighbours together.

    Parameters
    ----------
    design : a netlist, which is left as it is.
    plan : sites by names of cells, as `floorplans` gives them. Multipliers without one keep what
        they have. Four from one corner on are one block of the chip, with common control pins.
    """
    top = top_module(design)
    cells, names = dict(top["cells"]), dict(top["netnames"])
    buses = [port["bits"] for port in top["ports"].values()]
    buses += [bits for cell in cells.values() for bits in cell["connections"].values()]
    free = 1 + max(bit for bits in buses for bit in bits if isinstance(bit, int))
    nets: dict[tuple[str, int, int], int] = defaultdict(lambda: free + len(nets))
    for name, site in plan.items():
        if cells[name]["type"] != _MULTIPLIER:
            continue
        found = _SITE.fullmatch(site)
        assert found is not None
        column, row, number = map(int, found.groups())
        pins = cells[name]["connections"]
        near = {
            pin: [nets[bit, column - number, row] if bit in _CONSTANTS else bit for bit in bits]
            for pin, bits in pins.items()
            if _ROUTED.fullmatch(pin)
        }
        cells[name] = cells[name] | {"connections": pins | near}
    for (value, column, row), net in nets.items():
        name = f"near_{value}_X{column}_Y{row}"
        cells[name] = {
            "type": "LUT4",
            "parameters": {"INIT": value * 16},
            "attributes": {},
            "port_directions": {**dict.fromkeys("ABCD", "input"), "Z": "output"},
            "connections": {**{pin: ["0"] for pin in "ABCD"}, "Z": [net]},
        }
        names[name] = {"bits": [net], "attributes": {}}
    changed = top | {"cells": cells, "netnames": names}
    modules = {
        name: changed if module is top else module for name, module in design["modules"].items()
    }
    return {**design, "modules": modules}
