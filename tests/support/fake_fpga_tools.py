"""Stand-ins for the tools that ``daedal build`` calls: they answer at once, with the same areas."""

from collections.abc import Callable, Sequence

import pytest

from daedal.hw.boards import bitstream
from daedal.hw.boards.top import TOP_MODULE as BOARD_MODULE
from daedal.hw.emit import TOP_MODULE
from daedal.hw.family import Family
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.families import CellReport
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import PlaceRequest, Routed
from daedal.hw.synth.routes import RouteCache
from daedal.hw.synth.tools import Tool
from daedal.sim.rtl import verilog

__all__ = ["MACHINE", "use_fake_fpga_tools"]

MACHINE = {"LUT4": 30_000, "TRELLIS_FF": 20_000, "MULT18X18D": 72, "DP16KD": 70}
"""Cells of every machine; tests may change them."""
_BOARD = {**MACHINE, "DP16KD": 191, "EHXPLLL": 1}


def use_fake_fpga_tools(monkeypatch: pytest.MonkeyPatch) -> list[PlaceRequest]:
    """Every seed reaches 90 MHz and one more for its number. What will have been asked to route."""
    requests: list[PlaceRequest] = []

    def synthesize(
        _self: AreaCache,
        text: str,
        family: Family,
        *,
        top: str,
        progress: Callable[[str], None],
    ) -> CellReport:
        assert family is Family.ECP5
        assert (top, text) in ((TOP_MODULE, "machine"), (BOARD_MODULE, "board"))
        progress("mapping")
        return CellReport.of(family, MACHINE if top == TOP_MODULE else _BOARD)

    def route(
        _self: RouteCache, netlist: str, wanted: Sequence[PlaceRequest], **_options: object
    ) -> list[Routed]:
        assert netlist == f"netlist of {BOARD_MODULE}"
        requests.extend(wanted)
        return [_routed(request) for request in wanted]

    monkeypatch.setattr(Tool, "require", lambda _self, _purpose: None)
    monkeypatch.setattr(AreaCache, "synthesize", synthesize)
    monkeypatch.setattr(
        AreaCache, "netlist", lambda *_arguments, top, **_options: f"netlist of {top}"
    )
    monkeypatch.setattr(RouteCache, "route", route)
    monkeypatch.setattr(bitstream, "pack_bitstream", lambda config: f"bits of {config}".encode())
    monkeypatch.setattr(verilog, "kept_verilog", lambda *_arguments, family: "machine")
    monkeypatch.setattr(verilog, "kept_board_verilog", lambda *_arguments, family: "board")
    return requests


def _routed(request: PlaceRequest) -> Routed:
    path = TimingPath(
        start="shell.machine.gemm.x", end="shell.machine.alu.y", start_clock="clk",
        end_clock="clk", modules=("shell.machine.gemm", "shell.machine.alu"), signals=("x", "y"),
        levels=4, logic_ns=3.0, routing_ns=1000 / (90 + request.seed) - 3,
    )  # fmt: skip
    fmax = {"clk": 90.0 + request.seed}
    return Routed(request, fmax, (path,), {"DP16KD": (191, 208)}, f"seed {request.seed}")
