"""Delays of a routed design as a graph of pins, from the SDF file that nextpnr writes.

Input: SDF text. Output: `PinDelays`. Of each delay the slowest corner counts, in picoseconds.
Source: IEEE 1497-2001 (IOPATH, INTERCONNECT, SETUPHOLD), in the form of nextpnr 0.11.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

__all__ = ["PinDelays", "read_sdf"]

_ESCAPED = re.compile(r"\\(.)")
_SLOWEST = r"\(-?\d+:-?\d+:(-?\d+)\)"
_CELL = re.compile(r'\(CELLTYPE "(\w+)"\)\s*\(INSTANCE (\S*)\)')
_WIRE = re.compile(rf"\(INTERCONNECT (\S+) (\S+) {_SLOWEST}")
_LOGIC = re.compile(rf"\(IOPATH (?:\(\w+ )?(\w+)\)? (\w+) {_SLOWEST}")
_CHECK = re.compile(rf"\(SETUPHOLD \(posedge (\w+)\) \(posedge (\w+)\) {_SLOWEST}")

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PinDelays:
    """Pins of cells, numbered, and how long signals take between them.

    Attributes
    ----------
    pins : ``cell/port`` of each pin; cells as nextpnr calls them.
    source, target, delay_ps : (A,) int64, the arcs.
    is_wire : (A,) bool, whether an arc is routed, or lies in a cell.
    end, setup_ps : (E,) int64, pins that a clock samples, and how long before its edge.
    clock : (C,) int64, pins that bring a clock; no wire leads to them.
    """

    pins: list[str]
    source: Ints
    target: Ints
    delay_ps: Ints
    is_wire: npt.NDArray[np.bool_]
    end: Ints
    setup_ps: Ints
    clock: Ints


class _Numbers:
    """Numbers of pins, in the order in which they are met."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}

    def __call__(self, pin: str) -> int:
        return self.of.setdefault(pin, len(self.of))


def read_sdf(text: str) -> PinDelays:
    """Read the delays of all cells and wires."""
    number = _Numbers()
    arcs: list[tuple[int, int, int, bool]] = []
    checks: list[tuple[int, int]] = []
    clock_ports: dict[str, set[str]] = {}
    cells: list[tuple[str, str]] = []
    for kind, cell, body in _cells(text):
        if not cell:  # the whole design, with its wires
            arcs += [
                (number(_ESCAPED.sub(r"\1", a)), number(_ESCAPED.sub(r"\1", b)), int(ps), True)
                for a, b, ps in _WIRE.findall(body)
            ]
            continue
        cells.append((kind, cell))
        arcs += [
            (number(f"{cell}/{a}"), number(f"{cell}/{b}"), int(ps), False)
            for a, b, ps in _LOGIC.findall(body)
        ]
        for port, clock, ps in _CHECK.findall(body):
            checks.append((number(f"{cell}/{port}"), int(ps)))
            clock_ports.setdefault(kind, set()).add(clock)
    clocks = {
        number.of[pin]
        for kind, cell in cells
        for port in clock_ports.get(kind, ())
        if (pin := f"{cell}/{port}") in number.of
    }
    kept = np.array([arc for arc in arcs if arc[1] not in clocks], np.int64).reshape(-1, 4)
    ends = np.array(checks, np.int64).reshape(-1, 2)
    return PinDelays(
        pins=list(number.of),
        source=kept[:, 0],
        target=kept[:, 1],
        delay_ps=kept[:, 2],
        is_wire=kept[:, 3].astype(bool),
        end=ends[:, 0],
        setup_ps=ends[:, 1],
        clock=np.array(sorted(clocks), np.int64),
    )


def _cells(text: str) -> Iterator[tuple[str, str, str]]:
    """Type, name and the rest of each cell."""
    heads = list(_CELL.finditer(text))
    for head, following in zip_longest(heads, heads[1:]):
        end = len(text) if following is None else following.start()
        yield head[1], _ESCAPED.sub(r"\1", head[2]), text[head.end() : end]
