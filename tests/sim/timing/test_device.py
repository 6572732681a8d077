"""The timing device: what it gives, and what it refuses."""

import numpy as np
import pytest

from bench.correctness.profile_differences import differences, model_profile
from bench.correctness.rtl_launches import placed
from daedal.common.errors import DeviceError, ProgramError
from daedal.isa.assembly import assemble
from daedal.isa.memory_model import memory_model
from daedal.isa.microcode import expand
from daedal.isa.program import Program
from daedal.isa.random_programs import random_program
from daedal.isa.registers import CycleClass
from daedal.isa.scratchpad import Memory, scratchpad
from daedal.isa.semantics import State, execute
from daedal.isa.table import Opcode, Unit
from daedal.isa.variant import load_variant
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import TimingDevice, timing_with_values
from daedal.sim.timing.prepare import prepare

TINY = load_variant("tiny")


def program(text: str) -> Program:
    return Program(TINY, tuple(assemble(text)), bytes(range(64)), (64, 0, 64, 0))


def profile_of(text: str):
    device = TimingDevice(TINY, timing=memory_model("ideal"))
    loaded = LoadedProgram.place(program(text), device)
    return device.launch(loaded.program, loaded.bases)


MOVES = """
    LOAD memory=ACC_NARROW row=4 blocks=1 rows=1 cols=2 push=STORE mark=1 tag=7
    STORE memory=ACC base=outputs row=4 blocks=1 rows=1 cols=2 pop=LOAD
    FINISH
"""


def test_a_profile_is_whole() -> None:
    profile = profile_of(MOVES)
    assert profile.cycles is not None
    for counters in profile.units.values():
        assert sum(counters.classes.values()) == profile.cycles
    assert profile.units[Unit.LOAD].work == 2 and profile.units[Unit.STORE].work == 8
    assert profile.units[Unit.STORE].classes[CycleClass.WAIT_LOAD] > 0
    (mark,) = profile.marks
    assert (mark.tag, mark.unit, mark.instruction) == (7, Unit.LOAD, 0)
    assert sum(mark.counters.classes.values()) == mark.cycle < profile.cycles


def test_results_need_a_device_that_computes() -> None:
    alone = TimingDevice(TINY)
    address = alone.alloc(64)
    with pytest.raises(DeviceError, match="pair it with a functional one"):
        alone.read(address, 64)
    paired = LoadedProgram.place(program(MOVES), timing_with_values(TINY))
    profile = paired.device.launch(paired.program, paired.bases)
    assert profile.device == "timing" and profile.cycles is not None
    expected = b"".join(bytes([value, 0, 0, 0]) for value in range(16))
    assert paired.read_region(2) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LOAD pop=ALU\nFINISH", r"instruction 0 \(LOAD\) waits for ever"),
        ("LOAD", "a program must end with FINISH"),
        (
            "GEMM uop_begin=0 uop_end=999 extent0=1 extent1=1 extent2=1\nFINISH",
            r"micro-ops must exist; those of instruction 0 \(GEMM\) do not",
        ),
        (
            "GEMM uop_begin=0 uop_end=1 acc_base=255 extent0=2 acc_factor0=1 extent1=1 "
            "extent2=1\nFINISH",
            r"instruction 0 \(GEMM\) reaches row 256",
        ),
    ],
)
def test_programs_that_cannot_run(text: str, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        profile_of(text)


def test_random_delays_are_refused() -> None:
    device = TimingDevice(TINY, timing=memory_model("jitter"))
    loaded = LoadedProgram.place(program(MOVES), device)
    with pytest.raises(DeviceError, match="a memory without random delays, not 'jitter'"):
        device.launch(loaded.program, loaded.bases)


def test_machine_code_does_what_the_python_source_says(seed: int) -> None:
    launch = placed(random_program(TINY, seed, length=10), memory_model("ddr"))
    machine = model_profile(launch)
    for form in ("plain", "checked"):
        assert differences(model_profile(launch, form=form), machine) == []


def test_loops_expand_as_the_instruction_set_defines(seed: int) -> None:
    """Banks and rows of every step, with micro-ops as they are in program order."""
    for number in range(20):
        launch = placed(random_program(TINY, seed % 10_000 + number, length=24))
        memory = np.frombuffer(bytearray(launch.memory), dtype=np.uint8)
        plan = prepare(launch.program, launch.bases, memory, memory_model("ddr"), True)
        state = State(TINY)
        top = scratchpad(TINY, Memory.ACC).index_bits - 1
        for index, item in enumerate(launch.program.instructions):
            begin = int(plan.step_at[index])
            if item.unit in (Unit.GEMM, Unit.ALU):
                steps = expand(TINY, item, state.uops[item.unit])
                assert plan.steps[index] == len(steps)
                found = slice(begin, begin + len(steps))
                if item.unit is Unit.GEMM:
                    rows = steps.rows["acc"]
                    banks = (rows & 1) | (rows >> top & 1) << 1
                    np.testing.assert_array_equal(plan.banks[found], banks)
                else:
                    np.testing.assert_array_equal(plan.sources[found], steps.rows["src"])
                    np.testing.assert_array_equal(plan.targets[found], steps.rows["dst"])
            if item.opcode is Opcode.LOAD:
                execute(state, item, memory, launch.bases, launch.program.region_words)


ONE = "uop_end=1 extent0=1 extent1=1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("LOAD row=511 blocks=1 rows=1 cols=2", "LOAD must stay below 512 rows of scratchpad"),
        ("LOAD row=511 blocks=1 pad_top=1 pad_left=2", "LOAD must stay below 512 rows of"),
        ("LOAD memory=WGT blocks=1 rows=1 cols=1 pad_top=1", "LOAD may pad only INP, ACC"),
        ("LOAD memory=TAB blocks=1 rows=1 cols=1", "LOAD must fill a scratchpad of variant 'tiny'"),
        ("STORE base=outputs row=250 blocks=7 rows=1 cols=1", "STORE must stay below 256 rows"),
        # Without a bound on the rows, each of these would take some 10^10 bursts.
        ("LOAD blocks=511 rows=511 cols=1", "LOAD must stay below 512 rows of scratchpad"),
        ("STORE base=outputs blocks=511 rows=511 cols=1", "STORE must stay below 256 rows of"),
        (f"GEMM inp_base=511 {ONE} extent2=2 inp_factor2=1", "reaches row 512"),
        (f"GEMM mode=DEPTHWISE3 inp_base=510 {ONE} extent2=1", "reaches row 510"),
        (f"GEMM wgt_base=127 {ONE} extent2=2 wgt_factor2=1", "reaches row 128"),
        (f"ALU operation=REQUANTIZE par_base=15 {ONE} extent2=2 par_factor2=1", "reaches row 16"),
    ],
)
def test_rows_that_do_not_exist_are_refused(text: str, message: str) -> None:
    """With the sentences of the functional device, where rows are those of a transfer."""
    uops = "".join(
        f"LOAD memory=UOP_{unit} base=outputs blocks=1 rows=1 cols=1\n" for unit in ("GEMM", "ALU")
    )
    loaded = [
        LoadedProgram.place(program(f"{uops}{text}\nFINISH"), device)
        for device in (TimingDevice(TINY), FunctionalDevice(TINY, kernels=False))
    ]
    told = []
    for item in loaded:
        with pytest.raises(DeviceError) as caught:
            item.device.launch(item.program, item.bases)
        told.append(str(caught.value))
    assert message in told[0]
    if "reaches row" not in message:
        assert told[0] == told[1]


def test_a_run_has_a_bound_of_steps() -> None:
    """A machine that computes makes progress: no watchdog ends such a run."""
    long = program("ALU operation=MOV uop_end=256 extent0=511 extent1=511 extent2=511\nFINISH")
    for device in (
        TimingDevice(TINY),
        FunctionalDevice(TINY),
        FunctionalDevice(TINY, kernels=False),
    ):
        loaded = LoadedProgram.place(long, device)
        with pytest.raises(ProgramError, match="a program must take at most 4294967296 steps, not"):
            device.launch(long, loaded.bases)
