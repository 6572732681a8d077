"""Per-layer profiles: differences of marks, and cycles that sum to the last store."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daedal.artifact.artifact import Launch, Layer
from daedal.isa.instruction import Instruction
from daedal.isa.profile import MarkRecord, Profile, UnitCounters
from daedal.isa.program import Program
from daedal.isa.registers import CLASSES, CycleClass
from daedal.isa.table import GemmMode, LoadMemory, Opcode, Unit
from daedal.isa.variant import load_variant
from daedal.runtime.layers import LAYER_UNITS, LayerProfile, layer_profiles, layer_tags
from tests.support.profiles import random_launch

VTA = load_variant("vta")


def mark(tag: int, unit: Unit, cycle: int, busy: int) -> MarkRecord:
    classes = dict.fromkeys(CLASSES, 0) | {
        CycleClass.BUSY: busy,
        CycleClass.IDLE: cycle - busy,
    }
    return MarkRecord(tag, unit, 0, cycle, UnitCounters(classes, busy))


def load(cols: int, **values: int) -> Instruction:
    """A LOAD of so many rows of INP, 16 bytes each."""
    return Instruction.of(Opcode.LOAD, memory=LoadMemory.INP, blocks=1, rows=1, cols=cols, **values)


def store(cols: int, **values: int) -> Instruction:
    """A STORE of so many rows of OUT, 16 bytes each."""
    return Instruction.of(Opcode.STORE, blocks=1, rows=1, cols=cols, **values)


PROGRAM = Program(
    VTA,
    (
        load(3),
        load(5, mark=1, tag=1),
        store(2),
        store(2, mark=1, tag=1),
        load(7, mark=1, tag=2),
        store(1, mark=1, tag=2),
        load(9),
        Instruction.of(Opcode.FINISH),
    ),
)


def two_layers(*marks: MarkRecord) -> tuple[LayerProfile, LayerProfile]:
    """The profiles of a convolution and of a pool, from the marks of a run of 300 cycles."""
    layers = (
        Layer(1, "a", "conv", 25600, "a", 200),
        Layer(2, "b", "max_pool", 0, "b", 480),
    )
    launch = Launch(PROGRAM, (), (), layers)
    first, second = layer_profiles(launch, Profile("rtl", 300, marks=marks))
    return first, second


def test_layers_are_differences_of_marks() -> None:
    first, second = two_layers(
        mark(1, Unit.GEMM, 180, 100),
        mark(1, Unit.STORE, 200, 20),
        mark(2, Unit.ALU, 230, 7),
        mark(2, Unit.STORE, 260, 50),
    )
    assert (first.cycles, second.cycles) == (200, 60)
    assert first.share == 25600 / (200 * 256)
    assert (first.products, second.products) == (100, 0)
    assert second.units[Unit.ALU].work == 7
    assert sum(second.units[Unit.STORE].classes.values()) == 60


def test_counts_of_interleaved_layers_add_up() -> None:
    """ALU and STORE work for both layers in turn; the second one adds 20 cycles."""
    first, second = two_layers(
        mark(1, Unit.ALU, 80, 10),
        mark(1, Unit.STORE, 100, 20),
        mark(2, Unit.ALU, 120, 17),
        mark(2, Unit.STORE, 150, 25),
        mark(1, Unit.ALU, 230, 30),
        mark(1, Unit.STORE, 240, 50),
        mark(2, Unit.ALU, 250, 40),
        mark(2, Unit.STORE, 260, 55),
    )
    assert (first.cycles, second.cycles) == (240, 20)
    assert (first.units[Unit.ALU].work, second.units[Unit.ALU].work) == (23, 17)
    assert (first.units[Unit.STORE].work, second.units[Unit.STORE].work) == (45, 10)
    assert (first.units[Unit.STORE].cycles, second.units[Unit.STORE].cycles) == (190, 70)


def test_rooflines_bytes_and_reuse() -> None:
    """100 products of 256; 8 bytes a cycle. Bytes are those of the layer's own instructions."""
    first, second = two_layers(mark(1, Unit.STORE, 200, 20), mark(2, Unit.STORE, 260, 50))
    assert (first.bytes_read, first.bytes_written) == (8 * 16, 4 * 16)
    assert (second.bytes_read, second.bytes_written) == (7 * 16, 16)
    assert (first.ideal_cycles, first.memory_cycles, first.roofline_cycles) == (100, 24, 100)
    # The first moves fewer than its 200 bytes, the second fewer than its 480: the others are on
    # chip.
    assert (first.bytes_needed, second.bytes_needed) == (192, 128)
    assert (second.ideal_cycles, second.roofline_cycles) == (0, 16)
    assert (first.roofline_share, second.roofline_share) == (0.5, 16 / 60)
    assert first.reuse == 25600 / 192 and second.reuse == 0
    assert first.traffic == 192 / 200


def test_bytes_that_move_twice_are_not_needed() -> None:
    (first, _) = two_layers(mark(1, Unit.STORE, 200, 20), mark(2, Unit.STORE, 260, 50))
    once = replace(first, layer=replace(first.layer, bytes_once=100))
    assert (once.bytes_needed, once.memory_cycles, once.traffic) == (100, 12.5, 1.92)


def test_a_layer_that_overlaps_the_one_before_is_at_its_roofline() -> None:
    """It took fewer cycles than its products, as it began while the first one was storing."""
    first, second = two_layers(mark(2, Unit.STORE, 210, 50), mark(1, Unit.STORE, 260, 20))
    assert (first.cycles, first.roofline_cycles, first.roofline_share) == (50, 100, 1)
    assert (second.cycles, second.roofline_share) == (210, 16 / 210)


def test_the_roof_of_a_mode() -> None:
    """Depthwise modes take one or three taps of each of 8 channels, dense products 64."""
    tiny = load_variant("tiny")

    def gemm(tag: int, mode: GemmMode) -> Instruction:
        return Instruction.of(Opcode.GEMM, mode=mode, mark=1, tag=tag)

    program = Program(
        tiny,
        (
            gemm(0, GemmMode.DEPTHWISE),
            gemm(1, GemmMode.DEPTHWISE),
            gemm(1, GemmMode.DEPTHWISE3),
            gemm(2, GemmMode.DENSE),
            Instruction.of(Opcode.FINISH),
        ),
    )
    layers = tuple(Layer(tag, "a", "conv", 4800, "a", 200) for tag in range(4))
    marks = tuple(mark(tag, Unit.STORE, 1000 * (tag + 1), 20) for tag in range(4))
    found = layer_profiles(Launch(program, (), (), layers), Profile("rtl", 4000, marks=marks))
    assert [item.mode_macs_per_cycle for item in found] == [8, 24, 64, 64]
    assert [item.roofline_cycles for item in found] == [600, 200, 75, 75]
    assert {item.share for item in found} == {4800 / 64 / 1000}


def test_layer_of_each_instruction() -> None:
    assert layer_tags(PROGRAM) == [1, 1, 1, 1, 2, 2, None, None]


def test_no_marks_no_layers() -> None:
    assert layer_profiles(Launch(Program(VTA, ()), (), (), ()), Profile("functional")) == []


@given(seed=st.integers(0, 2**32 - 1))
def test_every_cycle_of_every_unit_is_in_one_class(seed: int) -> None:
    """Layers and what comes behind the last one add up to the launch, class by class."""
    launch = random_launch(np.random.default_rng(seed))
    layers = layer_profiles(launch.artifact, launch.plain)
    assert launch.plain.cycles is not None
    for unit in LAYER_UNITS:
        whole = launch.plain.units[unit]
        for kind in CLASSES:
            spent = sum(item.units[unit].classes[kind] for item in layers)
            rest = whole.classes[kind] - spent
            assert rest == 0 if kind is not CycleClass.IDLE else rest >= 0
        assert whole.cycles == launch.plain.cycles
        for item in layers:
            counted = item.units[unit]
            shares = [counted.classes[kind] / counted.cycles for kind in CLASSES if counted.cycles]
            assert not shares or abs(sum(shares) - 1) < 1e-9
    assert sum(item.cycles for item in layers) <= launch.plain.cycles
