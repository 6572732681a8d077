"""Random valid programs: RTL memory equals functional memory, and the books balance."""

import pytest

from daedal.hw.emit import emit_verilog
from daedal.isa.memory_model import memory_model
from daedal.isa.profile import Profile
from daedal.isa.registers import ErrorCode
from daedal.isa.table import Opcode, Unit
from daedal.isa.variant import load_variant
from daedal.sim.rtl.launch import Launch
from tests.support.poisoned_memory import poison_block_ram
from tests.support.random_programs import random_program
from tests.support.rtl import expected_memories, placed, rtl_device

pytestmark = pytest.mark.rtl

TINY = load_variant("tiny")


def check(variant, seeds, preset: str, simulator: str = "verilator", length: int = 24) -> None:
    """Run the programs of `seeds` in one simulator process and compare every byte."""
    launches = [
        placed(random_program(variant, seed, length=length), memory_model(preset, seed))
        for seed in seeds
    ]
    outcomes = rtl_device(variant, simulator).launch_each(launches)
    memories = expected_memories(launches)
    for seed, launch, outcome, expected in zip(seeds, launches, outcomes, memories, strict=True):
        told = f"seed {seed}: {outcome.error.name} {outcome.unit.name} {outcome.instruction}"
        assert outcome.error is ErrorCode.NONE, told
        if outcome.memory != expected:
            first = next(
                i for i, pair in enumerate(zip(outcome.memory, expected)) if len({*pair}) > 1
            )
            raise AssertionError(f"seed {seed}: memory differs from byte {first:#x} on")
        check_books(launch, outcome.profile)


def check_books(launch: Launch, profile: Profile) -> None:
    """Every cycle of every unit is in one class; work and marks are the program's."""
    for unit, counters in profile.units.items():
        assert sum(counters.classes.values()) == profile.cycles, unit
    # FINISH is not dispatched: it stays in FETCH.
    assert profile.units[Unit.FETCH].work == len(launch.program.instructions) - 1
    marked = [
        (index, item.tag, item.unit)
        for index, item in enumerate(launch.program.instructions)
        if item.opcode is not Opcode.FINISH and item.mark
    ]
    seen = sorted((mark.instruction, mark.tag, mark.unit) for mark in profile.marks)
    assert seen == marked
    for mark in profile.marks:
        assert sum(mark.counters.classes.values()) == mark.cycle <= profile.cycles


@pytest.mark.parametrize("preset", ["ideal", "ddr", "jitter"])
def test_tiny_on_verilator(preset: str) -> None:
    check(TINY, range(20), preset)


def test_fifty_with_jitter() -> None:
    check(TINY, range(100, 150), "jitter")


def test_long_programs() -> None:
    check(TINY, range(5), "jitter", length=120)


def test_no_read_depends_on_a_colliding_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """`hw.synth` tells synthesis so; here such a read gives the complement of the word."""
    plain = emit_verilog(TINY)
    poison_block_ram(monkeypatch)
    poisoned = emit_verilog(TINY)
    assert poisoned != plain
    monkeypatch.setattr("daedal.sim.rtl.device.kept_verilog", lambda *_: poisoned)
    check(TINY, range(300, 400), "jitter")


@pytest.mark.parametrize("style", ["packed", "lut"])
def test_other_multipliers(style: str) -> None:
    check(TINY.replace(multiplier_style=style), range(500, 530), "jitter")


def test_tiny_on_icarus() -> None:
    check(TINY, range(3), "jitter", simulator="icarus")


@pytest.mark.slow
def test_a_thousand() -> None:
    for begin in range(0, 1000, 100):
        check(TINY, range(1000 + begin, 1100 + begin), "jitter")
