"""The module that a cell or signal of a flattened netlist came from, derived from its name.

Input: the netlist as Yosys writes it in JSON. Flattening joins names by dots and leaves a cell of
type ``$scopeinfo`` for each module; ``autoname`` calls cells after a signal at one of their pins.
A table between two modules is therefore counted in one of them.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daedal.hw.emit import TOP_MODULE

__all__ = ["Hierarchy", "count_cells", "signal_of", "top_cells", "top_module"]

Cells = Mapping[str, Mapping[str, Any]]
"""Cells of a module by name."""

_SCOPE = "$scopeinfo"

# What autoname adds to a signal's name: types of cells, their pins and a number.
_TYPES = (
    r"TRELLIS_\w+?|LUT\d|PFUMX|L6MUX21|CCU2C|MULT18X18D|DP16KD|"
    r"MUXF[789]|CARRY[48]|FD[RCSP]E|INV|DSP48E\d"
)
_SUFFIX = re.compile(rf"_(?:{_TYPES})_[A-Z].*$")


@dataclass(frozen=True)
class Hierarchy:
    """Paths of all modules inside the top one, such as ``alu`` and ``alu.requantizer``."""

    modules: frozenset[str]

    @classmethod
    def of(cls, cells: Cells) -> "Hierarchy":
        """The modules of a netlist's cells by name."""
        return cls(frozenset(name for name, cell in cells.items() if cell["type"] == _SCOPE))

    def module_of(self, name: str) -> str:
        """Path of the module that a cell or signal lies in; the top module's is empty."""
        path = name.lstrip("\\")
        while path:
            path = path.rpartition(".")[0]
            if path in self.modules:
                return path
        return ""

    def unit_of(self, name: str) -> str:
        """The block of the top module that a cell or signal lies in; empty for its own."""
        return self.module_of(name).partition(".")[0]


def signal_of(cell: str) -> str:
    """The signal that `autoname` named a cell after; the name itself if it did not."""
    return _SUFFIX.sub("", cell.lstrip("\\"))


def top_module(netlist: Mapping[str, Any]) -> dict[str, Any]:
    """The top module, all of the design where it is flattened."""
    found: dict[str, Any]
    (found,) = (
        module
        for module in netlist["modules"].values()
        if int(module["attributes"].get("top", "0"), 2)
    )
    return found


def top_cells(netlist: Mapping[str, Any]) -> Cells:
    """Cells of the top module."""
    cells: Cells = top_module(netlist)["cells"]
    return cells


def count_cells(cells: Cells) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Cells by type, and the same by unit; the top module's own are under its name."""
    hierarchy = Hierarchy.of(cells)
    units: dict[str, Counter[str]] = {}
    for name, cell in cells.items():
        if cell["type"] != _SCOPE:
            units.setdefault(hierarchy.unit_of(name) or TOP_MODULE, Counter())[cell["type"]] += 1
    totals = sum(units.values(), Counter())
    return dict(totals), {unit: dict(sorted(units[unit].items())) for unit in sorted(units)}
