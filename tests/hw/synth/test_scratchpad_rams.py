"""The forms of RAMs are those of the gateware; halving pays while a RAM is deeper than a block."""

import re

import pytest
from amaranth.back import verilog

from daedal.hw.memory.accumulators import Accumulators
from daedal.hw.memory.scratchpad import MicroOpMemory, OutScratchpad, Scratchpad
from daedal.hw.synth.scratchpad_rams import UNITS_OF_SCRATCHPADS, halving_frees, ram_count, ram_form
from daedal.isa.scratchpad import Memory
from daedal.isa.table import Unit
from daedal.isa.variant import Variant, load_variant, shipped_variants

_RAM = re.compile(r"^ *reg \[(\d+):0\] \S+ \[(\d+):0\];", re.MULTILINE)


def component(variant: Variant, name: str) -> object:
    """The block of the machine that holds a scratchpad."""
    if name == "acc":
        return Accumulators(variant=variant)
    if name == "out":
        return OutScratchpad(variant=variant)
    if name.endswith("_uop"):
        unit = {"gemm_uop": Unit.GEMM, "alu_uop": Unit.ALU}[name]
        return MicroOpMemory(variant=variant, unit=unit)
    return Scratchpad(variant=variant, memory=Memory(name))


@pytest.mark.parametrize("name", ["tiny", "int4", pytest.param("batch4", marks=pytest.mark.slow)])
@pytest.mark.parametrize("pad", UNITS_OF_SCRATCHPADS)
def test_forms_are_those_of_the_gateware(name: str, pad: str) -> None:
    variant = load_variant(name)
    text = verilog.convert(component(variant, pad), name="top", emit_src=False)
    rams = {(int(rows) + 1, int(bits) + 1) for bits, rows in _RAM.findall(text)}
    assert rams == {ram_form(variant, pad)}


def test_results_that_gemm_multiplies_have_two_copies() -> None:
    """Counted in the emitted text."""
    tiny = load_variant("tiny")
    for variant, copies in ((tiny, 1), (tiny.replace(None, gemm_reads_out=True), 2)):
        text = verilog.convert(component(variant, "out"), name="top", emit_src=False)
        assert len(_RAM.findall(text)) == ram_count(variant, "out") == 4 * copies
        assert ram_form(variant, "out") == ram_form(tiny, "out")


@pytest.mark.parametrize("name", shipped_variants())
def test_every_scratchpad_has_a_form(name: str) -> None:
    variant = load_variant(name)
    for pad in UNITS_OF_SCRATCHPADS:
        assert min(ram_form(variant, pad)) >= 1
        assert hasattr(variant.memory, f"{pad}_bytes")


def test_halving_pays_down_to_the_depth_of_a_block() -> None:
    vta = load_variant("vta")  # 1,024 rows of weights, columns of 64 bits: blocks of 512 rows
    assert halving_frees(vta, "wgt")
    assert not halving_frees(vta.replace(None, wgt_bytes=131_072), "wgt")
    # Columns of 16 bits: a block has 1,024 rows.
    narrow = load_variant("tiny").replace(None, out_bytes=8_192)
    assert ram_form(narrow, "out") == (1_024, 16)
    assert not halving_frees(narrow, "out")
    assert halving_frees(narrow.replace(None, out_bytes=16_384), "out")
