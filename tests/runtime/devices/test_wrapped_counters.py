"""Runs of more cycles than the units' counters hold: every device leaves those counters out."""

from collections.abc import Callable
from pathlib import Path

import pytest

import daedal
from daedal.artifact.artifact import Artifact
from daedal.common.errors import UserError
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.registers import COUNTER_BITS, MARK_BYTES
from daedal.isa.run_registers import REPORT_REGISTERS
from daedal.isa.variant import load_variant
from daedal.runtime.devices.register_device import RegisterDevice
from daedal.runtime.devices.uart import uart_device
from daedal.runtime.devices.uio import UioDevice
from daedal.runtime.driver import LoadedProgram
from daedal.runtime.profiler.measure import measure
from daedal.runtime.profiler.network_profile import network_profile
from daedal.sim.rtl.job import RawResult
from daedal.sim.rtl.launch import Launch, launch_outcome
from tests.support.register_machine import RegisterMachine
from tests.support.serial_board import serial_board
from tests.support.uio_machine import UioMachine

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"
LONG = 1 << COUNTER_BITS


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return daedal.compile(DIGITS, TINY, from_tensors=["input_q"], to_tensors=["conv1_q"])


def opened(machine: RegisterMachine) -> RegisterDevice:
    size = machine.size
    return RegisterDevice(machine, TINY, name="board", memory_base=machine.base, memory_bytes=size)


def on_registers(program: Program, waited: int, *_: object) -> Profile:
    machine = RegisterMachine(TINY)
    machine.waited_cycles = waited
    device = opened(machine)
    return device.launch(program, LoadedProgram.place(program, device).bases)


def on_uart(program: Program, waited: int, *_: object) -> Profile:
    machine = RegisterMachine(TINY, base=0, size=1 << 16)
    machine.waited_cycles = waited
    with serial_board(machine) as board:
        device = uart_device(TINY, port=board.path)
        return device.launch(program, LoadedProgram.place(program, device).bases)


def on_uio(program: Program, waited: int, folder: Path, patch: pytest.MonkeyPatch) -> Profile:
    with UioMachine(TINY, folder) as board:
        patch.setattr("daedal.runtime.devices.dma_buffer.write_attribute", board.take_attribute)
        board.machine.waited_cycles = waited
        device = UioDevice(TINY, **board.options)
        return device.launch(program, LoadedProgram.place(program, device).bases)


def on_rtl(program: Program, waited: int, *_: object) -> Profile:
    """What the harness read from the registers of a run that nobody can wait for."""
    machine = RegisterMachine(TINY, base=0)
    machine.waited_cycles = waited
    device = opened(machine)
    device.launch(program, LoadedProgram.place(program, device).bases)
    launch = Launch(program, (0, 0, 0, 0), b"")
    registers = tuple(machine.values[name] for name in REPORT_REGISTERS)
    ring = machine.read_memory(machine.wide("marks"), launch.num_marks * MARK_BYTES)
    raw = RawResult(waited, False, registers, (b"", ring), None, 0.5)
    return launch_outcome(launch, raw, "rtl").profile


@pytest.mark.parametrize("run", [on_registers, on_uart, on_uio, on_rtl])
def test_counters_that_wrapped_are_left_out(
    run: Callable[..., Profile], artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (launch,) = artifact.launches
    own = 10 * len(launch.program.instructions)
    for waited in (LONG - 1 - own, LONG - own):
        folder = tmp_path / str(waited)
        folder.mkdir()
        profile = run(launch.program, waited, folder, monkeypatch)
        assert profile.cycles == waited + own
        assert bool(profile.units) == bool(profile.marks) == (profile.cycles < LONG)


def test_a_profile_names_the_launch_whose_counters_wrapped(artifact: Artifact) -> None:
    machine = RegisterMachine(TINY)
    good = measure(artifact, opened(machine), memory="ddr")
    assert len(good.layers) == len(artifact.launches[0].layers)
    machine.waited_cycles = LONG
    with pytest.raises(UserError) as caught:
        measure(artifact, opened(machine), memory="ddr")
    cycles = LONG + good.cycles
    assert str(caught.value) == (
        "a profile needs launches of fewer than 4,294,967,296 cycles, at which the counters of the "
        f"board device wrap; launch 1 took {cycles:,}: profile a smaller network, or choose timing"
    )


def test_units_of_several_launches_are_those_of_all(artifact: Artifact) -> None:
    """One of them wrapped: no sum of the others is shown as that of all."""
    program = artifact.launches[0].program
    short, long = on_registers(program, 0), on_registers(program, LONG)
    assert Profile.total([short, short]).units
    for launches in ([short, long], [long, short]):
        total = Profile.total(launches)
        assert not total.units and total.cycles == LONG + 2 * (short.cycles or 0)
        with pytest.raises(UserError, match=f"; launch {launches.index(long) + 1} took"):
            network_profile(artifact, launches, memory="ddr")
