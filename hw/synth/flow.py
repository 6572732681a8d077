"""A variant on an FPGA: from its Verilog to area and, with open-source place and route, to Fmax.

Input: a variant, its Verilog, and how to place it. Output: an `Implementation`. The steps are
`estimate` (Yosys) and `place` (nextpnr); both are kept in a folder.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from daedal.common.errors import CapacityError
from daedal.hw.emit import TOP_MODULE
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.families import DEVICES, HARD_LIMIT, RESOURCES, CellReport, Family
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.hw.synth.routes import RouteCache
from daedal.hw.synth.shortfall import Shortfall, shortfalls
from daedal.hw.synth.tools import NEXTPNR
from daedal.isa.variant import Variant

__all__ = ["PLACED", "Implementation", "implement"]

PLACED = frozenset({Family.ECP5})
"""Families with open place and route; of the others there is an estimate of the area."""

_DENSE = 0.5
"""Of the device's look-up tables: more are placed by wire alone, even if a request is
`timing_driven`. Such a placement has a fifth more wire, which a dense design may have no room for
(ADR 45)."""


@dataclass(frozen=True)
class Implementation:
    """A variant on the device of its family.

    `routes` has a result for each seed that was routed; none if the design does not fit.
    `asked_mhz` is the clock that it has to reach, None for any. `limit` is the share of the hard
    blocks that may be used; `overflow` is what the placer needed of each resource that the device
    has too few of. `given_up` are the seeds whose routing took much longer than that of others.
    """

    variant: Variant
    report: CellReport
    routes: tuple[Routed, ...] = ()
    asked_mhz: float | None = None
    limit: float = HARD_LIMIT
    overflow: dict[str, int] = field(default_factory=dict)
    given_up: tuple[int, ...] = ()

    @property
    def best(self) -> Routed | None:
        """The fastest of the seeds."""
        return max(self.routes, key=lambda routed: routed.slowest_mhz, default=None)

    @property
    def used(self) -> dict[str, float]:
        """What it takes by resource: as routed where it was, as mapped otherwise."""
        if self.best is not None:
            return dict(self.best.resources)
        return {name: getattr(self.report, name) for name in RESOURCES} | self.overflow

    @property
    def available(self) -> dict[str, int]:
        """What the device has by resource."""
        return {name: getattr(DEVICES[self.report.family], name) for name in RESOURCES}

    @property
    def shortfalls(self) -> list[Shortfall]:
        """Resources of which the device has too few; empty if the design fits."""
        return shortfalls(self.variant, self.report, self.limit, self.overflow)

    @property
    def missed(self) -> str | None:
        """Asked, reached and the worst path in a sentence, where the clock was missed."""
        if self.best is None or self.asked_mhz is None:
            return None
        reached = self.best.slowest_mhz
        if reached >= self.asked_mhz:
            return None
        tried = f"the best of {len(self.routes)} seeds" if len(self.routes) > 1 else "one seed"
        return (
            f"the clock must reach {self.asked_mhz:g} MHz, not {reached:.2f} MHz ({tried}); the "
            f"worst path is {self.best.worst.sentence}"
        )

    @property
    def succeeded(self) -> bool:
        """Whether it fits and is as fast as asked."""
        return not self.shortfalls and self.missed is None


def implement(
    variant: Variant,
    verilog: str,
    family: Family,
    folder: Path,
    *,
    top: str = TOP_MODULE,
    requests: Sequence[PlaceRequest] = (),
    asked_mhz: float | None = None,
    until_met: bool = False,
    num_processes: int = 1,
    progress: Callable[[str], None] = lambda _text: None,
) -> Implementation:
    """Map `verilog`, the text of `variant`, and route it once for each of `requests`.

    With `until_met`, stop when one of them reaches `asked_mhz`: the others are not routed. A dense
    design is placed by wire, whatever the requests say.

    A design that exceeds the device is not routed. An estimate alone is limited to `HARD_LIMIT`;
    routing shows whether more fits.

    Raises
    ------
    ToolError
        A tool is missing, or failed.
    UserError
        The folder of kept answers cannot be written.
    """
    if requests:
        NEXTPNR.require("place and route")  # said before the minutes that mapping takes
    areas = AreaCache(folder)
    report = areas.synthesize(verilog, family, top=top, progress=progress)
    limit = 1.0 if requests else HARD_LIMIT
    if not requests or not report.fits(limit):
        return Implementation(variant, report, (), asked_mhz, limit)
    if report.lut > _DENSE * DEVICES[family].lut:
        requests = [replace(request, timing_driven=False) for request in requests]
    netlist = areas.netlist(verilog, family, top=top, progress=progress)
    enough_mhz = asked_mhz if until_met and asked_mhz is not None else math.inf
    try:
        routes = RouteCache(folder).route(
            netlist,
            requests,
            num_processes=num_processes,
            enough_mhz=enough_mhz,
            progress=progress,
        )
    except CapacityError as error:
        return Implementation(variant, report, (), asked_mhz, limit, {error.resource: error.needed})
    done = {routed.request.seed for routed in routes}
    met = any(routed.slowest_mhz >= enough_mhz for routed in routes)
    given_up = () if met else tuple(item.seed for item in requests if item.seed not in done)
    return Implementation(variant, report, tuple(routes), asked_mhz, limit, given_up=given_up)
