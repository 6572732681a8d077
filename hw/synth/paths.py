"""Timing paths in the words of the design: which modules they cross, and through which signals.

Input: a path of nextpnr's report, and the modules of the netlist. Output: a `TimingPath`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.hierarchy import Hierarchy, signal_of

__all__ = ["TimingPath", "read_path"]

# Between the tables of a slice: the next bit of a carry, and multiplexers of several tables.
_INSIDE_A_SLICE = re.compile(r"FCO|OFX|FX[AB]?")


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
    def route(self) -> str:
        """``accumulators -> alu.sequencer``: the modules that it passes."""
        return " -> ".join(module or TOP_MODULE for module in self.modules)

    @property
    def sentence(self) -> str:
        """All of it but the signals in between."""
        return (
            f"{self.route}: from {self.start} to {self.end}, {self.delay_ns:.2f} ns "
            f"({self.logic_ns:.2f} logic, {self.routing_ns:.2f} routing, {self.levels} levels)"
        )


def read_path(path: Mapping[str, Any], hierarchy: Hierarchy) -> TimingPath:
    """A member of ``critical_paths`` in nextpnr's report."""
    steps = path["path"]
    cells = [signal_of(step["to"]["cell"]) for step in steps]
    modules: list[str] = []
    for cell in [signal_of(steps[0]["from"]["cell"]), *cells]:
        module = hierarchy.module_of(cell)
        if not cell.startswith("$") and module not in modules[-1:]:
            modules.append(module)
    delays = {"routing": 0.0, "logic": 0.0}
    for step in steps:
        delays["routing" if step["type"] == "routing" else "logic"] += step["delay"]
    return TimingPath(
        start=signal_of(steps[0]["from"]["cell"]),
        end=cells[-1],
        start_clock=_clock(path["from"]),
        end_clock=_clock(path["to"]),
        modules=tuple(modules),
        signals=tuple(step["net"].lstrip("\\") for step in steps if step["type"] == "routing"),
        levels=sum(
            step["type"] == "logic" and not _INSIDE_A_SLICE.fullmatch(step["to"]["port"])
            for step in steps
        ),
        logic_ns=delays["logic"],
        routing_ns=delays["routing"],
    )


def _clock(event: str) -> str:
    """``posedge clk`` is ``clk``; ``<async>`` a pin that no clock belongs to."""
    return event.removeprefix("posedge ")
