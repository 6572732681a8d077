"""The driver of the control registers against a machine that is nothing else."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import ArtifactError, DeviceError, ProgramError, UserError
from daedal.isa.assembly import assemble
from daedal.isa.latencies import PAGE_BYTES
from daedal.isa.program import Program
from daedal.isa.protocols import Device
from daedal.isa.random_programs import random_program
from daedal.isa.registers import CLASSES, DRAIN_LIMIT_CYCLES, REGISTERS, CycleClass, ErrorCode
from daedal.isa.run_registers import WATCHDOG_CYCLES, read_report
from daedal.isa.table import Unit
from daedal.isa.variant import Variant, load_variant
from daedal.runtime.devices.register_device import RegisterDevice
from daedal.runtime.driver import LoadedProgram
from daedal.sim.functional.device import FunctionalDevice
from examples.digits.data import demo_images
from tests.support.register_machine import RegisterMachine

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"


@pytest.fixture(scope="module")
def digits() -> Artifact:
    return daedal.compile(DIGITS, TINY)


def opened(machine: RegisterMachine, **options) -> RegisterDevice:
    return RegisterDevice(
        machine,
        machine.variant,
        name="board",
        memory_base=machine.base,
        memory_bytes=machine.size,
        **options,
    )


def region_bytes(program: Program, contents: dict[int, bytes], device: Device) -> list[bytes]:
    """All regions after a run."""
    loaded = LoadedProgram.place(program, device)
    for number, data in contents.items():
        loaded.write_region(number, data)
    device.launch(program, loaded.bases)
    return [loaded.read_region(number) for number in range(len(program.region_bytes))]


def test_digits_equal_functional(digits: Artifact) -> None:
    images, _labels = demo_images(3)
    expected = daedal.simulate(digits, {"input": images})
    machine = RegisterMachine(TINY)
    found = daedal.simulate(digits, {"input": images}, device=opened(machine))
    assert found.tensors.keys() == expected.tensors.keys()
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].tobytes() == tensor.tobytes()
    assert [len(layers) for layers in found.layers] == [7, 7, 7]
    writes = [name for kind, name in machine.log if kind == "write"]
    assert writes.count("control") == writes.count("isr") == 3
    assert not machine.interrupt


@pytest.mark.parametrize("seed", range(5))
def test_random_programs_leave_the_same_memory(seed: int) -> None:
    high = TINY.replace("high", address_bits=40)
    case = random_program(high, seed)
    contents = {number: bytes(data) for number, data in case.contents.items()}
    expected = region_bytes(case.program, contents, FunctionalDevice(high))
    machine = RegisterMachine(high, base=0x3_8000_0000)
    assert region_bytes(case.program, contents, opened(machine)) == expected


def test_the_profile_is_what_the_registers_and_the_ring_say(digits: Artifact) -> None:
    (launch,) = digits.launches
    program = launch.program
    loaded = LoadedProgram.place(program, opened(RegisterMachine(TINY)))
    profile = loaded.device.launch(program, loaded.bases)
    size = len(program.instructions)
    assert (profile.device, profile.cycles, profile.beats_read) == ("board", 10 * size, 1 << 33)
    assert profile.units[Unit.STORE].classes[CycleClass.BUSY] == 10 * size
    assert profile.units[Unit.FETCH].work == size
    marked = [(i, item) for i, item in enumerate(program.instructions) if item.mark]
    assert [
        (mark.instruction, mark.tag, mark.unit, mark.cycle, mark.counters.work)
        for mark in profile.marks
    ] == [(i, item.tag, item.unit, 10 * i, len(CLASSES)) for i, item in marked]
    assert profile.wall_seconds > 0


def test_instructions_are_written_once(digits: Artifact) -> None:
    machine = RegisterMachine(TINY)
    loaded = LoadedProgram.place(digits.launches[0].program, opened(machine))
    addresses = []
    for _ in range(3):
        loaded.device.launch(loaded.program, loaded.bases)
        addresses.append(machine.wide("program"))
    assert len(set(addresses)) == 1
    assert loaded.device.alloc(1) > addresses[0]


def test_a_lost_interrupt_costs_a_look(digits: Artifact) -> None:
    """The machine ends without a word; the driver never sleeps for long."""
    machine = RegisterMachine(TINY)
    machine.looks_per_run = 9
    device = opened(machine, timeout_seconds=30)
    loaded = LoadedProgram.place(digits.launches[0].program, device)
    device.launch(loaded.program, loaded.bases)
    sleeps = [seconds for kind, seconds in machine.log if kind == "wait"]
    assert len(sleeps) == 9
    assert all(0 < float(seconds) <= 0.25 for seconds in sleeps)


def test_what_is_pending_from_before_is_taken_back(digits: Artifact) -> None:
    machine = RegisterMachine(TINY)
    device = opened(machine)
    loaded = LoadedProgram.place(digits.launches[0].program, device)
    machine.values["isr"] = 1
    machine.log.clear()
    device.launch(loaded.program, loaded.bases)
    assert machine.log.index(("write", "isr")) < machine.log.index(("write", "control"))
    assert machine.values["isr"] == 0


@pytest.mark.parametrize("code", [ErrorCode.READ_SLVERR, ErrorCode.WATCHDOG, ErrorCode.ROW_RANGE])
def test_errors_of_the_machine_are_raised_and_the_next_run_is_good(
    digits: Artifact, code: ErrorCode
) -> None:
    machine = RegisterMachine(TINY)
    device = opened(machine)
    loaded = LoadedProgram.place(digits.launches[0].program, device)
    machine.error = (code, Unit.STORE, 17)
    with pytest.raises(DeviceError, match=f"it reported {code.name} of STORE at instruction 17"):
        device.launch(loaded.program, loaded.bases)
    device.launch(loaded.program, loaded.bases)


def test_a_run_that_takes_too_long_is_aborted(digits: Artifact) -> None:
    machine = RegisterMachine(TINY)
    device = opened(machine, timeout_seconds=0.02)
    loaded = LoadedProgram.place(digits.launches[0].program, device)
    machine.hangs = True
    message = r"a run on the board device must end within 0.02 seconds; it did not and was aborted"
    with pytest.raises(DeviceError, match=message):
        device.launch(loaded.program, loaded.bases)
    assert machine.log.count(("write", "abort")) == 1
    machine.hangs = False
    device.launch(loaded.program, loaded.bases)


def test_a_machine_that_does_not_stop_is_named_beside_the_reason(
    digits: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daedal.runtime.devices.register_device._ABORT_SECONDS", 0.01)
    machine = RegisterMachine(TINY)
    device = opened(machine, timeout_seconds=0.01)
    loaded = LoadedProgram.place(digits.launches[0].program, device)
    machine.hangs = machine.ignores_abort = True
    with pytest.raises(DeviceError, match="must end within") as caught:
        device.launch(loaded.program, loaded.bases)
    assert "must stop within 0.01 seconds of an abort" in caught.value.__notes__[0]


def test_an_interrupted_wait_aborts_the_run(
    digits: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = RegisterMachine(TINY)
    device = opened(machine)
    loaded = LoadedProgram.place(digits.launches[0].program, device)
    machine.hangs = True
    waits = iter(range(3))

    def interrupted(_seconds: float) -> None:
        if next(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(machine, "wait_interrupt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.launch(loaded.program, loaded.bases)
    assert machine.log[-2:] == [("write", "abort"), ("read", "control")]


def test_a_run_that_somebody_left_is_ended_first(digits: Artifact) -> None:
    machine = RegisterMachine(TINY)
    machine.hangs = True
    machine.write_registers([(0, 1)])
    device = opened(machine)
    assert machine.log.count(("write", "abort")) == 1
    machine.hangs = False
    loaded = LoadedProgram.place(digits.launches[0].program, device)
    device.launch(loaded.program, loaded.bases)


def _other_fingerprint(machine: RegisterMachine) -> None:
    machine.set_wide("fingerprint", 5)


def _no_machine(machine: RegisterMachine) -> None:
    machine.values["id"] = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_other_fingerprint, f"{TINY.fingerprint}; it answers 0000000000000005 with ID 0x44414532"),
        (_no_machine, f"it answers {TINY.fingerprint} with ID 0xffffffff"),
    ],
)
def test_another_machine_is_refused(
    change: Callable[[RegisterMachine], None], message: str
) -> None:
    machine = RegisterMachine(TINY)
    change(machine)
    with pytest.raises(DeviceError, match=re.escape(message)):
        opened(machine)
    assert not [name for kind, name in machine.log if kind == "write"]


def test_a_machine_that_was_exchanged_is_noticed(digits: Artifact) -> None:
    machine = RegisterMachine(TINY)
    device = opened(machine)
    loaded = LoadedProgram.place(digits.launches[0].program, device)
    _other_fingerprint(machine)
    with pytest.raises(DeviceError, match="it answers 0000000000000005"):
        device.launch(loaded.program, loaded.bases)


def test_registers_that_make_no_sense_are_named(
    digits: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = RegisterMachine(TINY)
    device = opened(machine)
    loaded = LoadedProgram.place(digits.launches[0].program, device)

    whole = machine.read_registers

    def garbled(offsets: list[int]) -> list[int]:
        found = dict(zip(offsets, whole(offsets), strict=True))
        return list({**found, 0x70: 0xFFFFFFFF}.values()) if 0x70 in found else [*found.values()]

    monkeypatch.setattr(machine, "read_registers", garbled)
    with pytest.raises(DeviceError, match="must name an error and a unit; it reads 0xffffffff"):
        device.launch(loaded.program, loaded.bases)


def test_programs_of_other_variants_are_refused() -> None:
    program = random_program(load_variant("vta"), 1).program
    with pytest.raises(ArtifactError, match="not on the board device of 'tiny'"):
        opened(RegisterMachine(TINY)).launch(program, (0, 0, 0, 0))


def test_regions_are_pages_within_the_memory(rng: np.random.Generator) -> None:
    machine = RegisterMachine(TINY, base=0x1000_0000, size=8 * PAGE_BYTES)
    device = opened(machine)
    first, second = device.alloc(1), device.alloc(PAGE_BYTES + 1)
    assert (first, second) == (0x1000_0000, 0x1000_1000)
    assert device.alloc(0) == 0x1000_3000
    message = r"fit its 32768 bytes of memory; 20480 more are needed and 16384 are left"
    with pytest.raises(DeviceError, match=message):
        device.alloc(4 * PAGE_BYTES + 1)
    last = device.alloc(4 * PAGE_BYTES)
    data = rng.bytes(4 * PAGE_BYTES)
    device.write(last, data)
    assert device.read(last, len(data)) == data


def test_a_time_limit_must_be_one() -> None:
    with pytest.raises(UserError, match="timeout_seconds must be above 0, not 0"):
        opened(RegisterMachine(TINY), timeout_seconds=0)


def test_memory_must_be_in_reach_of_the_bus() -> None:
    machine = RegisterMachine(TINY, base=0xFFF0_0000, size=1 << 21)
    message = "memory must lie below 0x100000000, which the 32 address bits of variant 'tiny' reach"
    with pytest.raises(DeviceError, match=f"{message}; it ends at 0x100100000"):
        opened(machine)


def test_the_settings_of_a_run_reach_the_machine(digits: Artifact) -> None:
    """Sizes of the regions in whole bus words, watchdog and drain limit."""
    program = digits.launches[0].program
    for options, wanted in (
        ({}, (WATCHDOG_CYCLES, DRAIN_LIMIT_CYCLES)),
        ({"watchdog_cycles": 70_000, "drain_limit_cycles": 9_000}, (70_000, 9_000)),
    ):
        machine = RegisterMachine(TINY)
        loaded = LoadedProgram.place(program, opened(machine, **options))
        loaded.device.launch(program, loaded.bases)
        assert (machine.values["watchdog"], machine.values["drain_limit"]) == wanted
        for number, size in enumerate(program.region_bytes):
            assert size <= machine.wide(f"size{number}") < size + TINY.bus_bytes
            assert machine.wide(f"size{number}") % TINY.bus_bytes == 0


def with_setup() -> Program:
    """Weights that stay on chip, and nothing to do."""
    items = assemble("LOAD memory=WGT blocks=1 rows=1 cols=1\nFINISH")
    return Program(TINY, tuple(items), bytes(64), setup=1)


def test_after_a_reset_the_setup_runs_again() -> None:
    """A bitstream may be loaded anew between two launches: the scratchpads are empty then."""
    machine, program = RegisterMachine(TINY), with_setup()
    device = opened(machine)
    loaded = LoadedProgram.place(program, device)
    lengths = []
    for number in range(5):
        if number == 3:
            machine.reset()
        device.launch(program, loaded.bases)
        lengths.append(machine.values["program_length"])
    assert lengths == [2, 1, 1, 2, 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda variant, bases: (bases[0], bases[1] + 4, *bases[2:]),
            "inputs must begin at a multiple of 8",
        ),
        (
            lambda variant, bases: (*bases[:3], (1 << variant.bus.address_bits) - 256),
            "workspace must lie below 0x100000000, which the 32 address bits of variant 'tiny' "
            "reach, and end at 0x100000f00; allocate them on the device",
        ),
        (lambda variant, bases: (-16, *bases[1:]), "constants must lie below"),
    ],
)
def test_addresses_that_the_machine_would_change_are_refused(
    change: Callable[[Variant, tuple[int, ...]], tuple[int, ...]], message: str
) -> None:
    """It drops the low bits of a base, and addresses wrap at the end of the address space."""
    items = tuple(assemble("FINISH"))
    program = Program(TINY, items, region_bytes=(4096, 4096, 4096, 4096))
    for device in (opened(RegisterMachine(TINY)), FunctionalDevice(TINY)):
        bases = tuple(device.alloc(4096) for _ in range(4))
        device.launch(program, bases)
        with pytest.raises(ProgramError) as caught:
            device.launch(program, change(TINY, bases))
        assert message in str(caught.value)


def test_counters_that_have_wrapped_are_left_out(digits: Artifact) -> None:
    """Those of units have 32 bits, so that they say nothing of a run of more than 2^32 cycles."""
    values = {item.name: 7 for item in REGISTERS} | {"marks_written": 0, "error": 0}
    for high, known in ((0, True), (1, False)):
        report = read_report({**values, "cycles_hi": high}, b"", device="board", wall_seconds=1)
        assert report.profile.cycles == 7 + (high << 32)
        assert bool(report.profile.units) == known
