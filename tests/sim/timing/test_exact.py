"""The cycle model counts what the RTL counts: to the cycle, in every class, at every mark."""

from dataclasses import replace

import pytest

from bench.correctness.profile_differences import differences, marked, model_profile, rotating_seeds
from bench.correctness.random_runs import EXTRA_VARIANTS
from bench.correctness.rtl_launches import placed, rtl_device
from daedal.isa.memory_model import MemoryModel, memory_model
from daedal.isa.random_programs import random_program
from daedal.isa.table import LoadMemory, Opcode
from daedal.isa.variant import load_variant, shipped_variants
from daedal.sim.rtl.launch import Launch

pytestmark = pytest.mark.rtl

TINY = load_variant("tiny")


def with_bursts(timing: MemoryModel, reads: int, writes: int) -> MemoryModel:
    """A memory that takes so many bursts at a time."""
    return replace(timing, name="few", max_read_bursts=reads, max_write_bursts=writes)


def check(launches: list[Launch]) -> None:
    variant = launches[0].program.variant
    outcomes = rtl_device(variant).launch_each(launches)
    for number, (launch, outcome) in enumerate(zip(launches, outcomes, strict=True)):
        outcome.check()
        model, rtl = model_profile(launch), outcome.profile
        if variant.units.counters:
            found = differences(model, rtl)
        else:
            assert rtl.marks == ()
            found = [
                f"{name}: {getattr(model, name)}, not {getattr(rtl, name)}"
                for name in ("cycles", "beats_read", "beats_written")
                if getattr(model, name) != getattr(rtl, name)
            ]
        assert not found, f"program {number} on {launch.timing.name}: " + "; ".join(found)


@pytest.mark.parametrize("preset", ["ideal", "ddr", "slow"])
def test_random_programs(preset: str) -> None:
    cases = [random_program(TINY, seed, length=24) for seed in rotating_seeds(30)]
    check([placed(case, memory_model(preset)) for case in cases])


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["ideal", "ddr", "slow"])
@pytest.mark.parametrize("every", [False, True])
def test_weights_of_4_bits(preset: str, every: bool) -> None:
    """Their LOADs take half the words, and the same cycles per word."""
    cases = [random_program(EXTRA_VARIANTS["narrow"], seed) for seed in rotating_seeds(60)]
    cases = [marked(case) if every else case for case in cases]
    programs = [item for case in cases for item in case.program.instructions]
    loads = [item for item in programs if item.opcode is Opcode.LOAD]
    assert any(item.memory == LoadMemory.WGT_NARROW for item in loads)
    check([placed(case, memory_model(preset)) for case in cases])


@pytest.mark.parametrize("preset", ["ideal", "slow"])
def test_a_mark_on_every_instruction(preset: str) -> None:
    cases = [marked(random_program(TINY, seed, length=24)) for seed in rotating_seeds(10)]
    check([placed(case, memory_model(preset)) for case in cases])


@pytest.mark.parametrize("every", [False, True])
def test_stores_behind_a_slow_bus(every: bool) -> None:
    """STORE asks for the next row when its buffer has room, while the row that made room is a word
    that waits for the bus. In this program the ALU wants the same bank in those cycles."""
    case = random_program(TINY, 11420, length=24)
    check([placed(marked(case) if every else case, memory_model("slow"))])


@pytest.mark.slow
@pytest.mark.parametrize("every", [False, True])
def test_a_machine_without_counters(every: bool) -> None:
    """Its marks are not written: they take no cycles, and no words on the bus."""
    variant = EXTRA_VARIANTS["bare"]
    assert not variant.units.counters
    cases = [random_program(variant, seed, length=24) for seed in rotating_seeds(15)]
    cases = [marked(case) for case in cases] if every else cases
    launches = [placed(case, memory_model(("ddr", "slow")[i % 2])) for i, case in enumerate(cases)]
    check(launches)
    for launch in launches:
        *instructions, _ = launch.program.instructions
        assert len(model_profile(launch).marks) == sum(item.mark for item in instructions)


@pytest.mark.parametrize("bursts", [1, 3])
def test_a_memory_that_takes_fewer_bursts_than_the_machine_asks_for(bursts: int) -> None:
    few = with_bursts(memory_model("ddr"), bursts, bursts)
    cases = [random_program(TINY, seed, length=24) for seed in rotating_seeds(10)]
    check([placed(case, few) for case in cases])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("mixed", marks=pytest.mark.xdist_group("mixed-rtl")),
        pytest.param("results", marks=[pytest.mark.slow, pytest.mark.xdist_group("results-rtl")]),
    ],
)
def test_another_variant(name: str) -> None:
    variant = EXTRA_VARIANTS[name]
    cases = [random_program(variant, seed, length=24) for seed in rotating_seeds(10)]
    check([placed(case, memory_model("ddr")) for case in cases])


@pytest.mark.slow
@pytest.mark.parametrize("name", shipped_variants())
def test_every_shipped_variant(name: str) -> None:
    """Every third launch has a mark on every instruction; some memories take few bursts."""
    variant = load_variant(name)
    launches = []
    for seed in rotating_seeds(300):
        case = random_program(variant, seed, length=24)
        timing = memory_model(("ideal", "ddr", "slow")[seed // 3 % 3])
        if seed % 5 == 0:
            timing = with_bursts(timing, 1 + seed % 3, 1 + seed // 5 % 3)
        launches.append(placed(marked(case) if seed % 3 == 0 else case, timing))
    check(launches)


@pytest.mark.parametrize(
    ("seed", "timing", "cycles"),
    [
        (300_368, memory_model("ddr"), 1_739),
        (300_375, with_bursts(memory_model("ideal"), 1, 1), 1_266),
    ],
    ids=["ddr", "ideal"],
)
def test_marks_of_two_words(seed: int, timing: MemoryModel, cycles: int) -> None:
    """On a bus of 256 bits. `cycles` are the RTL's, which takes long to build."""
    case = random_program(load_variant("wide"), seed, length=24)
    assert model_profile(placed(marked(case), timing)).cycles == cycles
