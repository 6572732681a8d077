"""The driver of the control registers on the emitted machine: the RTL behind a `Port`."""

import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import daedal
from bench.correctness.rtl_launches import rtl_device
from daedal.artifact.artifact import Artifact
from daedal.common.errors import DeviceError, ToolError
from daedal.isa.assembly import assemble
from daedal.isa.program import Program
from daedal.isa.registers import register
from daedal.isa.run_registers import START
from daedal.isa.variant import load_variant
from daedal.runtime.devices.register_device import RegisterDevice
from daedal.runtime.driver import LoadedProgram
from daedal.sim.rtl.commands import OP_BREAK, OP_READ, OP_START, OP_WAIT, OP_WRITE
from daedal.sim.rtl.intervention import RESET_CYCLES
from daedal.sim.rtl.job import Job
from daedal.sim.rtl.native import NativeSimulation, open_simulation
from daedal.sim.rtl.toolchain import require_tools
from examples.digits.data import demo_images

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"
BASE, SIZE = 0x3000, 1 << 24
NAP_CYCLES = 5000
"""Few enough that the driver looks at a running machine many times."""


class RtlPort:
    """A `Port` whose other end is a simulation; time passes with accesses and waits alone."""

    def __init__(self, simulation: NativeSimulation) -> None:
        self.simulation = simulation
        self.naps = 0
        for name, number in Job(start=START).settings().items():
            simulation.set(name, number)
        simulation.command(OP_BREAK, op_count=RESET_CYCLES, op_data=0)

    def read_registers(self, offsets: Sequence[int]) -> list[int]:
        values = []
        for offset in offsets:
            self.simulation.command(OP_READ, op_address=offset)
            values.append(self.simulation.get("result"))
        return values

    def write_registers(self, writes: Sequence[tuple[int, int]]) -> None:
        for write in writes:
            op = OP_START if write == START else OP_WRITE
            self.simulation.command(op, op_address=write[0], op_data=write[1])

    def read_memory(self, address: int, size_bytes: int) -> bytes:
        return self.simulation.read(address, size_bytes)

    def write_memory(self, address: int, data: bytes) -> None:
        self.simulation.write(address, data)

    def update_memory(self, address: int, data: bytes) -> None:
        self.write_memory(address, data)

    def wait_interrupt(self, seconds: float) -> None:
        assert seconds > 0
        self.naps += 1
        until = self.simulation.get("run_cycles") + NAP_CYCLES
        self.simulation.command(OP_WAIT, op_limit=1 << 60, op_pause=until)


@pytest.fixture(scope="module")
def digits() -> Artifact:
    return daedal.compile(DIGITS, TINY)


@pytest.fixture
def port() -> Iterator[RtlPort]:
    try:
        require_tools("native")
    except ToolError as error:
        pytest.skip(str(error))
    with open_simulation(rtl_device(TINY).build(BASE + SIZE)) as simulation:
        yield RtlPort(simulation)


def opened(port: RtlPort, **options) -> RegisterDevice:
    return RegisterDevice(port, TINY, name="board", memory_base=BASE, memory_bytes=SIZE, **options)


@pytest.mark.rtl
def test_digits_equal_the_rtl_device(digits: Artifact, port: RtlPort) -> None:
    """Bytes, cycles, counters and marks; without a reset between the runs."""
    images, _labels = demo_images(2)
    expected = daedal.simulate(digits, {"input": images}, device=rtl_device(TINY))
    found = daedal.simulate(digits, {"input": images}, device=opened(port))
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].tobytes() == tensor.tobytes()
    for ours, theirs in zip(found.profiles, expected.profiles, strict=True):
        assert ours.cycles is not None
        assert dataclasses.replace(ours, device="rtl", wall_seconds=0) == dataclasses.replace(
            theirs, wall_seconds=0
        )
    assert port.naps >= 2  # the driver has slept, and woken up
    (isr,) = port.read_registers([register("isr").offset])
    assert isr == 0


@pytest.mark.rtl
def test_errors_and_aborts_leave_a_machine_that_runs(digits: Artifact, port: RtlPort) -> None:
    images, _labels = demo_images(1)
    good = daedal.simulate(digits, {"input": images})
    device = opened(port)
    stuck = Program(TINY, tuple(assemble("STORE memory=OUT base=outputs pop=ALU\nFINISH")))
    loaded = LoadedProgram.place(stuck, device)
    with pytest.raises(DeviceError, match=r"it reported DEADLOCK of STORE at instruction 0"):
        device.launch(stuck, loaded.bases)

    impatient = opened(port, timeout_seconds=1e-9)
    with pytest.raises(DeviceError, match="it did not and was aborted") as caught:
        daedal.simulate(digits, {"input": images}, device=impatient)
    assert not hasattr(caught.value, "__notes__")
    (error,) = port.read_registers([register("error").offset])
    assert error & 0xFF == 12

    found = daedal.simulate(digits, {"input": images}, device=opened(port))
    for name, tensor in good.tensors.items():
        assert found.tensors[name].tobytes() == tensor.tobytes()


class Gone(Exception):
    """The host is no more."""


@pytest.mark.rtl
def test_a_run_that_somebody_left_is_ended(
    digits: Artifact, port: RtlPort, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host dies in the middle of a run; another one comes."""
    images, _labels = demo_images(1)
    good = daedal.simulate(digits, {"input": images})

    def die(_seconds: float) -> None:
        monkeypatch.setattr(port, "write_registers", die)
        raise Gone

    with monkeypatch.context() as patch:
        patch.setattr(port, "wait_interrupt", die)
        with pytest.raises(Gone):
            daedal.simulate(digits, {"input": images}, device=opened(port))
    monkeypatch.undo()
    assert port.read_registers([0])[0] & 1  # running
    found = daedal.simulate(digits, {"input": images}, device=opened(port))
    for name, tensor in good.tensors.items():
        assert found.tensors[name].tobytes() == tensor.tobytes()
