"""Faults end in an error that names unit and instruction, in bounded time; the next run is good."""

import dataclasses

import pytest

from bench.correctness.rtl_launches import expected_memories, placed, rtl_device
from daedal.isa.instruction import Instruction, unit_mask
from daedal.isa.memory_model import memory_model
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.registers import ErrorCode, register
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.table import (
    GemmMode,
    LoadMemory,
    Opcode,
    Unit,
    instruction_bytes,
    instruction_layout,
)
from daedal.isa.variant import load_variant
from daedal.sim.rtl.job import Faults, Job, RawResult
from daedal.sim.rtl.launch import Launch, launch_job, launch_outcome
from daedal.sim.rtl.run import run_jobs

pytestmark = pytest.mark.rtl

TINY = load_variant("tiny")
SIZE = 0x4000
FINISH = Instruction.of(Opcode.FINISH)
WATCHDOG_CYCLES = 500
BOUND_CYCLES = 8000
"""Watchdog, then the bound on draining (`hw.control.supervisor`), and some program around them."""


def load(**fields: int) -> Instruction:
    values = {"memory": LoadMemory.INP, "blocks": 1, "rows": 1, "cols": 64, "base": 1}
    return Instruction.of(Opcode.LOAD, **{**values, **fields})


def store(**fields: int) -> Instruction:
    values = {"blocks": 1, "rows": 1, "cols": 64, "base": 2}
    return Instruction.of(Opcode.STORE, **{**values, **fields})


def faulty(*instructions: Instruction, **options) -> Launch:
    """A launch of `instructions` with four pages of memory behind four equal base registers."""
    program = Program(TINY, instructions, region_bytes=(SIZE,) * 4)
    options = {"timing": memory_model("ddr"), "watchdog_cycles": WATCHDOG_CYCLES, **options}
    return Launch(program, (0, 0, 0, 0), bytes(SIZE), cycle_limit=4 * BOUND_CYCLES, **options)


def then_recover(bad: Job) -> tuple[Launch, list[Job]]:
    """Jobs: `bad`, and a good program on the same machine without a reset between them."""
    good = placed(random_program(TINY, 3), memory_model("ddr"), cycle_limit=100_000)
    warm = launch_job(good)  # scratchpads hold the same before and after: the good one, twice
    acknowledge = (register("isr").offset, 1)  # the harness waits for the interrupt's next edge
    after = dataclasses.replace(
        warm, writes=(acknowledge, *warm.writes), faults=Faults(), reset_before=False
    )
    return good, [warm, bad, after]


def run_on_both(jobs: list[Job], size_bytes: int, tmp_path) -> list[RawResult]:
    """Results of `jobs` under cocotb, which the native simulator gives too, cycle for cycle."""
    cocotb, native = (
        run_jobs(rtl_device(TINY, simulator).build(size_bytes), jobs, work_dir=tmp_path)
        for simulator in ("verilator", "native")
    )
    for one, other in zip(cocotb, native, strict=True):
        assert dataclasses.replace(one, seconds=0.0) == dataclasses.replace(other, seconds=0.0)
    return native


def outcomes(bad: Launch, job: Job | None, tmp_path):
    good, jobs = then_recover(job or launch_job(bad))
    results = run_on_both(jobs, good.size_bytes, tmp_path)
    ended = launch_outcome(bad, results[1], "rtl")
    recovered = launch_outcome(good, results[2], "rtl")
    assert results[1].cycles < BOUND_CYCLES
    recovered.check()
    assert recovered.memory == expected_memories([good, good])[1]
    return ended


def seen(outcome) -> tuple[ErrorCode, Unit, int]:
    return outcome.error, outcome.unit, outcome.instruction


@pytest.mark.parametrize("response", ["SLVERR", "DECERR"])
@pytest.mark.parametrize("beat", [0, 31, 63])
def test_a_bad_read_names_the_load(response: str, beat: int, tmp_path) -> None:
    faults = Faults(first_byte=8 * beat, last_byte=8 * beat + 7, read_response=response)
    bad = faulty(load(offset_beats=512), load(), FINISH, faults=faults)
    assert seen(outcomes(bad, None, tmp_path)) == (ErrorCode[f"READ_{response}"], Unit.LOAD, 1)


@pytest.mark.parametrize("response", ["SLVERR", "DECERR"])
def test_a_bad_write_names_the_store(response: str, tmp_path) -> None:
    faults = Faults(first_byte=0x100, last_byte=0x107, write_response=response)
    bad = faulty(store(offset_beats=512), store(), FINISH, faults=faults)
    assert seen(outcomes(bad, None, tmp_path)) == (ErrorCode[f"WRITE_{response}"], Unit.STORE, 1)


@pytest.mark.parametrize("transfer", [load, store])
def test_a_row_outside_its_region_names_the_instruction(transfer, tmp_path) -> None:
    """Its second row; the bus drains, and the next program runs."""
    beyond = transfer(rows=2, cols=32, offset_beats=SIZE // 8 - 64, row_stride_beats=33)
    ended = outcomes(faulty(transfer(), beyond, FINISH), None, tmp_path)
    assert seen(ended) == (ErrorCode.MEMORY_RANGE, beyond.unit, 1)


def test_a_bad_fetch_names_fetch(tmp_path) -> None:
    bad = faulty(load(), load(), FINISH)
    at = bad.program_address + instruction_bytes(TINY)
    faults = Faults(first_byte=at, last_byte=at + 7, read_response="SLVERR")
    bad = dataclasses.replace(bad, faults=faults)
    assert seen(outcomes(bad, None, tmp_path)) == (ErrorCode.READ_SLVERR, Unit.FETCH, 1)


@pytest.mark.parametrize("channel", ["ar", "r", "aw", "w", "b"])
def test_a_silent_slave_ends_in_the_watchdog(channel: str, tmp_path) -> None:
    """Nothing answers any more: the end is bounded. The memory model needs a reset afterwards."""
    faults = Faults(stop_channels=(channel,), stop_after_beats=40)
    bad = faulty(
        load(push=unit_mask([Unit.STORE])),
        store(pop=unit_mask([Unit.LOAD])),
        store(push=unit_mask([Unit.LOAD])),
        load(pop=unit_mask([Unit.STORE])),
        FINISH,
        faults=faults,
    )
    good = placed(random_program(TINY, 3), memory_model("ddr"), cycle_limit=100_000)
    jobs = [launch_job(good), launch_job(bad), launch_job(good)]
    results = run_on_both(jobs, good.size_bytes, tmp_path)
    ended = launch_outcome(bad, results[1], "rtl")
    assert results[1].cycles < BOUND_CYCLES
    assert ended.error is ErrorCode.WATCHDOG
    recovered = launch_outcome(good, results[2], "rtl")
    recovered.check()
    assert recovered.memory == expected_memories([good, good])[1]


def test_a_deadlock_names_the_waiting_unit(tmp_path) -> None:
    wait = store(pop=unit_mask([Unit.GEMM]))
    bad = faulty(load(), wait, load(), FINISH)
    assert seen(outcomes(bad, None, tmp_path)) == (ErrorCode.DEADLOCK, Unit.STORE, 1)


def test_a_full_queue_behind_a_deadlock_is_found_too(tmp_path) -> None:
    wait = store(pop=unit_mask([Unit.ALU]))
    more = [store(cols=1) for _ in range(3 * TINY.units.queue_depth)]
    bad = faulty(load(), wait, *more, FINISH)
    assert seen(outcomes(bad, None, tmp_path)) == (ErrorCode.DEADLOCK, Unit.STORE, 1)


def test_tokens_left_are_an_error(tmp_path) -> None:
    bad = faulty(load(push=unit_mask([Unit.ALU])), FINISH)
    assert seen(outcomes(bad, None, tmp_path)) == (ErrorCode.TOKENS_LEFT, Unit.FETCH, 1)


def test_too_many_tokens_are_an_error(tmp_path) -> None:
    give = load(blocks=0, push=unit_mask([Unit.ALU]))
    largest = (1 << TINY.units.token_bits) - 1
    bad = faulty(*[give] * (largest + 1), FINISH)
    assert seen(outcomes(bad, None, tmp_path)) == (ErrorCode.TOKEN_OVERFLOW, Unit.LOAD, largest)


def test_a_program_without_finish_is_an_error(tmp_path) -> None:
    bad = faulty(load(), load())
    assert seen(outcomes(bad, None, tmp_path))[:2] == (ErrorCode.NO_FINISH, Unit.FETCH)


def test_rows_out_of_range_are_an_error(tmp_path) -> None:
    row = scratchpad(TINY, Memory.INP).depth_rows - 63
    bad = faulty(load(), load(row=row), FINISH)
    assert seen(outcomes(bad, None, tmp_path)) == (ErrorCode.ROW_RANGE, Unit.LOAD, 1)


def multiply(**fields: int) -> Instruction:
    """One product; an empty micro-op memory names row 0 of everything."""
    values = {"uop_end": 1, "extent0": 1, "extent1": 1, "extent2": 1}
    return Instruction.of(Opcode.GEMM, **{**values, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"inp_base": scratchpad(TINY, Memory.INP).depth_rows - 2},
        {"inp_base": 1, "inp_factor2": 3, "extent2": 171},
        {"wgt_base": TINY.array.block_out - 2},
        {"wgt_base": 3 * TINY.array.block_out, "wgt_factor1": 1, "extent1": 7},
    ],
)
def test_three_taps_of_which_one_is_not_there_are_an_error(
    fields: dict[str, int], tmp_path
) -> None:
    good = multiply(mode=GemmMode.DEPTHWISE3)
    zeros = load(memory=LoadMemory.UOP_GEMM, cols=256, push=unit_mask([Unit.GEMM]))
    first = good.replace(pop=unit_mask([Unit.LOAD]))
    bad = faulty(zeros, first, good.replace(**fields), good, FINISH)
    assert seen(outcomes(bad, None, tmp_path)) == (ErrorCode.ROW_RANGE, Unit.GEMM, 2)


def test_an_unknown_mode_is_an_error(tmp_path) -> None:
    zeros = load(memory=LoadMemory.UOP_GEMM, cols=256, push=unit_mask([Unit.GEMM]))
    bad = faulty(zeros, multiply(pop=unit_mask([Unit.LOAD])), multiply(), FINISH)
    mode = instruction_layout(TINY, Opcode.GEMM)["mode"]
    ended = outcomes(bad, patched(bad, 2, Opcode.GEMM | 3 << mode.offset), tmp_path)
    assert seen(ended) == (ErrorCode.ILLEGAL_INSTRUCTION, Unit.GEMM, 2)


def patched(launch: Launch, index: int, word: int) -> Job:
    """The job of `launch` with the first 32 bits of an instruction replaced."""
    job = launch_job(launch)
    at = launch.program_address + index * instruction_bytes(TINY)
    return dataclasses.replace(job, image=(*job.image, (at, word.to_bytes(4, "little"))))


@pytest.mark.parametrize("opcode", [0, 6, 15])
def test_an_unknown_opcode_is_an_error(opcode: int, tmp_path) -> None:
    bad = faulty(load(), load(), FINISH)
    ended = outcomes(bad, patched(bad, 1, opcode), tmp_path)
    assert seen(ended) == (ErrorCode.ILLEGAL_INSTRUCTION, Unit.FETCH, 1)


def test_an_instruction_that_waits_for_its_own_unit_is_an_error(tmp_path) -> None:
    bad = faulty(load(), load(), FINISH)
    ended = outcomes(bad, patched(bad, 1, Opcode.LOAD | 1 << 4 + Unit.LOAD), tmp_path)
    assert seen(ended) == (ErrorCode.ILLEGAL_INSTRUCTION, Unit.LOAD, 1)
