"""The cycle model of an SDRAM: the cycles of the controller's RTL in each phase of the refresh."""

from dataclasses import replace

import pytest

from bench.correctness.profile_differences import differences, marked, model_profile, rotating_seeds
from bench.correctness.rtl_launches import expected_memories, placed, rtl_device
from daedal.common.errors import DeviceError
from daedal.isa.memory_model import PRESETS, MemoryModel
from daedal.isa.random_programs import RandomProgram, random_program
from daedal.isa.sdram_chip import CHIPS, SdramChip
from daedal.isa.sdram_memory import SdramMemory
from daedal.isa.sdram_slots import SlotTimes
from daedal.isa.variant import load_variant
from daedal.sim.rtl.launch import Launch

pytestmark = pytest.mark.rtl

TINY = load_variant("tiny")
BOARD = PRESETS["ulx3s"].sdram
assert BOARD is not None

SLOW = replace(
    CHIPS["W9825G6KH-6"],
    name="slow and small",
    column_bits=8,
    bank_bits=1,
    row_to_data_ns=100.0,
    precharge_ns=90.0,
    row_open_ns=300.0,
    row_cycle_ns=400.0,
    refresh_ns=300.0,
    refresh_interval_ns=4000.0,
)
"""A chip with times so long that every distance counts, rows of 32 words, two banks."""


def memory(sdram: SdramMemory, seed: int) -> MemoryModel:
    """The memory with another phase for each seed; neighbours differ by an odd number."""
    phase = 101 * seed % sdram.refresh_cycles
    return MemoryModel.of_sdram(f"phase {phase}", replace(sdram, phase_cycles=phase))


def check(launches: list[Launch]) -> None:
    """The model counts what the RTL counts, and the RTL leaves the right bytes."""
    outcomes = rtl_device(launches[0].program.variant).launch_each(launches)
    expected = expected_memories(launches)
    for launch, outcome, right in zip(launches, outcomes, expected, strict=True):
        outcome.check()
        found = differences(model_profile(launch), outcome.profile)
        assert not found, f"{launch.timing.name}: " + "; ".join(found)
        assert outcome.memory == right


def random_case(seed: int) -> RandomProgram:
    """Every third one has a mark on every instruction."""
    case = random_program(TINY, seed, length=24)
    return marked(case) if seed % 3 == 0 else case


@pytest.mark.heavy(2)
def test_random_programs_in_many_phases() -> None:
    check([placed(random_case(seed), memory(BOARD, seed)) for seed in rotating_seeds(15)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "chip",
    [CHIPS["W9825G6KH-6"], SLOW],
    ids=lambda chip: chip.name,
)
def test_other_chips(chip: SdramChip) -> None:
    sdram = SdramMemory(SlotTimes.of(chip, 1e9 / 6))
    check([placed(random_case(seed), memory(sdram, seed)) for seed in rotating_seeds(300)])


def test_the_phase_matters_and_a_run_can_be_repeated() -> None:
    """No time of a refresh is hidden: another phase gives other cycles, the same one the same."""
    case = random_program(TINY, 0, length=24)
    launches = [placed(case, memory(BOARD, seed)) for seed in (0, 1, 2, 3, 0)]
    cycles = [outcome.profile.cycles for outcome in rtl_device(TINY).launch_each(launches)]
    assert cycles[0] == cycles[-1]
    assert len(set(cycles)) > 1


def test_a_refresh_that_is_due_delays_the_start_of_a_run() -> None:
    """By one cycle less for each cycle that it fell due earlier."""
    case = random_program(TINY, 1, length=24)
    sdram = SdramMemory(SlotTimes.of(SLOW, 1e9 / 6))
    phases = [replace(sdram, phase_cycles=phase) for phase in range(10)]
    launches = [placed(case, MemoryModel.of_sdram("", item)) for item in phases]
    cycles = [model_profile(launch).cycles for launch in launches]
    assert cycles == list(range(cycles[0], cycles[0] - 10, -1))


def test_launches_of_one_simulation_have_one_kind_of_memory() -> None:
    case = random_program(TINY, 0, length=24)
    launches = [placed(case, PRESETS["ddr"]), placed(case, PRESETS["ulx3s"])]
    with pytest.raises(DeviceError, match="must have one kind of memory behind them"):
        rtl_device(TINY).launch_each(launches)
