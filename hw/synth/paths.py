"""Timing paths in terms of the design: the modules and signals that they pass.

Input: a path of nextpnr's report, and the modules of the netlist. Output: a `TimingPath`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.hierarchy import Hierarchy, signal_of

__all__ = ["TimingPath", "is_level", "modules_of", "read_path"]

# Between the tables of a slice: the next bit of a carry, and multiplexers of several tables.
_INSIDE_A_SLICE = re.compile(r"FCO|OFX|FX[AB]?")

# Cells that place and route added: constants, and ends of carry chains.
_ADDED = ("$nextpnr", "$PACKER")


@dataclass(frozen=True)
class TimingPath:
    """One path between registers, or from or to a pin.

    `start` and `end` are signals, or names of hard blocks; `modules` those that it passes, in
    order. `logic_ns` includes the clock-to-output and setup times of the ends. `levels` counts
    look-up tables, carry chains and multipliers in between.
    """

    start: str
    end: str
    start_clock: str
    end_clock: str
    modules: tuple[str, ...]
    signals: tuple[str, ...]
    levels: int
    logic_ns: float
    routing_ns: float

    @property
    def delay_ns(self) -> float:
        """From the clock edge at the start to the one at the end."""
        return self.logic_ns + self.routing_ns

    @property
    def ends(self) -> tuple[str, str, str, str]:
        """Clocks and modules of both ends."""
        return self.start_clock, self.end_clock, self.modules[0], self.modules[-1]

    @property
    def route(self) -> str:
        """``accumulators -> alu.sequencer``: the modules that it passes."""
        return " -> ".join(module or TOP_MODULE for module in self.modules)

    @property
    def sentence(self) -> str:
        """All of it but the signals in between."""
        levels = "1 level" if self.levels == 1 else f"{self.levels} levels"
        return (
            f"{self.route}: from {self.start} to {self.end}, {self.delay_ns:.2f} ns "
            f"({self.logic_ns:.2f} logic, {self.routing_ns:.2f} routing, {levels})"
        )


def read_path(path: Mapping[str, Any], hierarchy: Hierarchy) -> TimingPath:
    """A member of ``critical_paths`` in nextpnr's report."""
    steps = path["path"]
    cells = [signal_of(step[side]["cell"]) for step in steps for side in ("from", "to")]
    delays = {"routing": 0.0, "logic": 0.0}
    for step in steps:
        delays["routing" if step["type"] == "routing" else "logic"] += step["delay"]
    return TimingPath(
        start=cells[0],
        end=cells[-1],
        start_clock=_clock(path["from"]),
        end_clock=_clock(path["to"]),
        modules=modules_of(cells, hierarchy),
        signals=tuple(step["net"].lstrip("\\") for step in steps if step["type"] == "routing"),
        levels=sum(step["type"] == "logic" and is_level(step["to"]["port"]) for step in steps),
        logic_ns=delays["logic"],
        routing_ns=delays["routing"],
    )


def modules_of(names: Iterable[str], hierarchy: Hierarchy) -> tuple[str, ...]:
    """Modules in the order in which a path passes cells of these names, without repetitions.

    Cells that place and route added lie in none.
    """
    modules: list[str] = []
    for name in names:
        module = hierarchy.module_of(name)
        if not name.startswith(_ADDED) and module not in modules[-1:]:
            modules.append(module)
    return tuple(modules)


def is_level(port: str) -> bool:
    """Whether a path that leaves a cell at this port has passed a level of logic there."""
    return not _INSIDE_A_SLICE.fullmatch(port)


def _clock(event: str) -> str:
    """``posedge clk`` is ``clk``; ``<async>`` a pin that no clock belongs to."""
    return event.rpartition(" ")[2]
