"""The worst paths of a routed design, one between any two modules.

Input: `PinDelays`. Output: `TimingPath`s. nextpnr reports only one path per clock; optimizing a
design needs the next ones, too.
"""

from collections.abc import Iterator

import numpy as np

from daedal.hw.synth.hierarchy import Hierarchy, signal_of
from daedal.hw.synth.paths import TimingPath, is_level, modules_of
from daedal.hw.synth.sdf import Ints, PinDelays

__all__ = ["worst_paths"]

_NEVER = -(1 << 40)


def worst_paths(
    delays: PinDelays, hierarchy: Hierarchy, clock: str, num_paths: int = 20
) -> list[TimingPath]:
    """Slowest paths, worst first, no two of them between the same two modules.

    Only the slowest path to each end is considered: a path is left out if a slower one from
    another start has the same end. All registers must be clocked by `clock`; clock skew is taken as
    zero, as nextpnr does.
    """
    arrival, arc_before = _arrivals(delays)
    root = _roots(delays, arc_before)
    total = arrival[delays.end] + delays.setup_ps
    found: dict[tuple[str, str], TimingPath] = {}
    for check in np.argsort(-total, kind="stable"):
        end = int(delays.end[check])
        if total[check] < 0 or len(found) == num_paths:
            break
        pair = (
            hierarchy.module_of(_signal(delays, int(root[end]))),
            hierarchy.module_of(_signal(delays, end)),
        )
        if pair not in found:
            setup = int(delays.setup_ps[check])
            found[pair] = _path(delays, arc_before, end, setup, hierarchy, clock)
    return list(found.values())


def _arrivals(delays: PinDelays) -> tuple[Ints, Ints]:
    """Latest arrival at each pin after the clock's edge, and the arc it comes by; -1 if none."""
    order = np.argsort(delays.target, kind="stable")
    source, target, delay = (
        array[order] for array in (delays.source, delays.target, delays.delay_ps)
    )
    pins, first = np.unique(target, return_index=True)
    arrival = np.full(len(delays.pins), _NEVER, np.int64)
    arrival[delays.clock] = 0
    # As often as the longest chain has arcs: each time, all pins at once.
    for _ in range(len(delays.pins)):
        latest = np.maximum.reduceat(arrival[source] + delay, first) if len(first) else first
        latest = np.where(latest < 0, _NEVER, latest)
        if not (latest > arrival[pins]).any():
            break
        arrival[pins] = np.maximum(arrival[pins], latest)
    arc_before = np.full(len(delays.pins), -1, np.int64)
    tight = (arrival[source] + delay == arrival[target]) & (arrival[target] > _NEVER)
    arc_before[target[tight]] = order[tight]
    return arrival, arc_before


def _roots(delays: PinDelays, arc_before: Ints) -> Ints:
    """The pin that each pin's latest path begins at: the clock of a register."""
    before = np.where(arc_before < 0, np.arange(len(arc_before)), delays.source[arc_before])
    while True:
        further = before[before]
        if (further == before).all():
            return before
        before = further


def _path(
    delays: PinDelays, arc_before: Ints, end: int, setup_ps: int, hierarchy: Hierarchy, clock: str
) -> TimingPath:
    arcs = list(_arcs_to(delays, arc_before, end))[::-1]
    wires = [arc for arc in arcs if delays.is_wire[arc]]
    inside = [arc for arc in arcs if not delays.is_wire[arc]]
    cells = [_signal(delays, int(delays.source[arcs[0]]))]
    cells += [_signal(delays, int(delays.target[arc])) for arc in arcs]
    return TimingPath(
        start=cells[0],
        end=cells[-1],
        start_clock=clock,
        end_clock=clock,
        modules=modules_of(cells, hierarchy),
        signals=tuple(_signal(delays, int(delays.source[arc])) for arc in wires),
        # The first takes the clock to the register's output.
        levels=sum(is_level(_port(delays, int(delays.target[arc]))) for arc in inside[1:]),
        logic_ns=(sum(int(delays.delay_ps[arc]) for arc in inside) + setup_ps) / 1000,
        routing_ns=sum(int(delays.delay_ps[arc]) for arc in wires) / 1000,
    )


def _arcs_to(delays: PinDelays, arc_before: Ints, end: int) -> Iterator[int]:
    """Arcs of the latest path to `end`, from its last one."""
    pin = end
    while arc_before[pin] >= 0:
        arc = int(arc_before[pin])
        yield arc
        pin = int(delays.source[arc])


def _signal(delays: PinDelays, pin: int) -> str:
    return signal_of(delays.pins[pin].rpartition("/")[0])


def _port(delays: PinDelays, pin: int) -> str:
    return delays.pins[pin].rpartition("/")[2]
