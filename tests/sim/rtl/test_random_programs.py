"""Random valid programs: RTL memory equals functional memory, and the books balance."""

import pytest

from bench.correctness.random_runs import (
    EXTRA_VARIANTS,
    RandomRun,
    every_variant,
    run_random_programs,
)
from bench.correctness.rtl_launches import rtl_device
from daedal.hw.emit import emit_verilog
from daedal.isa.variant import load_variant, shipped_variants
from daedal.sim.rtl.device import RtlDevice
from tests.support.poisoned_memory import poison_block_ram

pytestmark = pytest.mark.rtl

TINY = load_variant("tiny")
# Tests of one variant run in one process, so that its simulator is built once.
OTHERS = [
    pytest.param("mixed", marks=pytest.mark.xdist_group("mixed-rtl")),
    pytest.param("narrow", marks=[pytest.mark.heavy(10), pytest.mark.xdist_group("narrow-rtl")]),
    pytest.param("results", marks=[pytest.mark.slow, pytest.mark.xdist_group("results-rtl")]),
]


def assert_complete(run: RandomRun, count: int) -> None:
    """No mismatch, and every goal of the table met."""
    print(run)
    run.check()
    assert run.passed == count
    assert run.missing == []


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["ideal", "ddr", "jitter"])
def test_tiny_under_cocotb(preset: str) -> None:
    run_random_programs(rtl_device(TINY, "verilator"), range(20), preset=preset).check()


@pytest.mark.heavy(10)
def test_two_hundred_fill_the_table() -> None:
    assert_complete(run_random_programs(rtl_device(TINY), range(1000, 1200)), 200)


@pytest.mark.parametrize("name", OTHERS)
def test_two_hundred_on_another_variant(name: str) -> None:
    device = rtl_device(EXTRA_VARIANTS[name])
    assert_complete(run_random_programs(device, range(200)), 200)


def test_long_programs() -> None:
    run_random_programs(rtl_device(TINY), range(5), length=120).check()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tiny", "results"])
def test_no_read_depends_on_a_colliding_write(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hw.synth` tells synthesis so; here such a read gives the complement of the word."""
    variant = every_variant()[name]
    plain = emit_verilog(variant, assertions=True)
    poison_block_ram(monkeypatch)
    poisoned = emit_verilog(variant, assertions=True)
    assert poisoned != plain
    monkeypatch.setattr("daedal.sim.rtl.device.kept_verilog", lambda *_, assertions: poisoned)
    run_random_programs(rtl_device(variant), range(300, 400)).check()


@pytest.mark.slow
@pytest.mark.parametrize("style", ["packed", "lut"])
def test_other_multipliers(style: str) -> None:
    variant = TINY.replace(f"tiny-{style}", multiplier_style=style)
    run_random_programs(rtl_device(variant), range(500, 530)).check()


def test_tiny_on_icarus(icarus: str) -> None:
    run_random_programs(rtl_device(TINY, icarus), range(3)).check()


def test_a_mismatch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong byte anywhere in memory, here the last before the guard, is found."""
    whole = RtlDevice.launch_each

    def spoiled(self, launches):
        outcomes = whole(self, launches)
        data = bytearray(outcomes[1].memory)
        data[-4097] ^= 1
        object.__setattr__(outcomes[1], "memory", bytes(data))
        return outcomes

    monkeypatch.setattr(RtlDevice, "launch_each", spoiled)
    run = run_random_programs(rtl_device(TINY), range(3))
    assert run.passed == 2
    assert run.mismatches[0].startswith("seed 1: memory differs from byte 0x")


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_variants())
def test_shipped_variants(name: str) -> None:
    """The beginning of what `bench/correctness/random_programs.py` runs."""
    run_random_programs(rtl_device(load_variant(name)), range(200)).check()


@pytest.mark.slow
@pytest.mark.parametrize("name", EXTRA_VARIANTS)
def test_variants_that_are_not_shipped(name: str) -> None:
    assert_complete(run_random_programs(rtl_device(EXTRA_VARIANTS[name]), range(500)), 500)
