"""The native simulator beside cocotb: same cycles, bytes and books, and its life in a process."""

import _thread
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import placed, rtl_device
from daedal.common.errors import DeviceError, ToolError
from daedal.isa.memory_model import memory_model
from daedal.isa.random_programs import random_program
from daedal.isa.registers import ID_VALUE, register
from daedal.isa.variant import load_variant
from daedal.sim.rtl.build import Built, build_protocol_simulator, build_simulator
from daedal.sim.rtl.commands import OP_BREAK, OP_READ
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.intervention import RESET_CYCLES
from daedal.sim.rtl.job import Faults, Job
from daedal.sim.rtl.launch import Launch, Outcome, launch_job
from daedal.sim.rtl.native import NativeSimulation, open_simulation
from daedal.sim.rtl.run import run_jobs
from examples.digits.data import demo_images
from tests.sim.rtl.conftest import CACHE, WORDS, available

pytestmark = pytest.mark.rtl

TINY = load_variant("tiny")
DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits_qdq.onnx"
START = Job(start=(0, 1))


@pytest.fixture
def native() -> RtlDevice:
    return rtl_device(TINY, available("native"))


@pytest.fixture
def native_standin(standin_verilog: str) -> Built:
    return build_simulator(
        standin_verilog,
        data_bits=64,
        addr_bits=32,
        words=WORDS,
        cache_dir=CACHE,
        simulator=available("native"),
    )


def endless() -> Job:
    """The stand-in waits for its first word for ever."""
    writes = ((20, 8), (24, 32))
    return replace(
        START, writes=writes, faults=Faults(stop_channels=("r",)), cycle_limit=1_000_000_000_000
    )


def timeless(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Outcomes without the only thing that may differ: wall clock."""
    return [replace(item, profile=replace(item.profile, wall_seconds=0.0)) for item in outcomes]


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["ideal", "ddr", "jitter"])
def test_random_programs_give_the_same_under_cocotb(native: RtlDevice, preset: str) -> None:
    """Memory, cycles, every counter, every mark, of 50 programs on one machine each."""
    launches = [
        placed(random_program(TINY, seed), memory_model(preset, seed)) for seed in range(2000, 2050)
    ]
    found = timeless(native.launch_each(launches))
    assert found == timeless(rtl_device(TINY, "verilator").launch_each(launches))
    assert len({item.profile.cycles for item in found}) > 40
    assert all(item.profile.marks for item in found[:5])


@pytest.mark.slow
def test_interruptions_give_the_same_under_cocotb(native: RtlDevice, tmp_path: Path) -> None:
    """Aborts and resets in the middle: what was open, where it ended, what is left."""
    jobs = []
    for number in range(12):
        case, at = random_program(TINY, 2300 + number), 40 * number + 1
        jobs += [launch_job(placed(case, abort_at=at)), launch_job(placed(case, reset_at=at))]
    size_bytes = max(address + len(data) for job in jobs for address, data in job.image)
    found, expected = (
        [
            replace(result, seconds=0.0)
            for result in run_jobs(device.build(size_bytes), jobs, work_dir=tmp_path)
        ]
        for device in (native, rtl_device(TINY, "verilator"))
    )
    assert found == expected
    assert sum(result.was_reset for result in found) > 5
    assert sum(bursts.total for result in found for bursts in result.open_bursts) > 5


@pytest.mark.slow
def test_digits_give_the_same_under_cocotb(native: RtlDevice) -> None:
    """Each image is a launch, and each launch a machine of its own."""
    artifact = daedal.compile(DIGITS, TINY)
    images, labels = demo_images(2)
    found, expected = (
        daedal.simulate(artifact, {"input": images}, device=device)
        for device in (native, rtl_device(TINY, "verilator"))
    )
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(found.tensors[name], tensor)
    assert (found.outputs["probabilities"].argmax(axis=1) == labels).all()
    assert [replace(item, wall_seconds=0.0) for item in found.profiles] == [
        replace(item, wall_seconds=0.0) for item in expected.profiles
    ]


def test_two_machines_run_at_the_same_time(native: RtlDevice, native_standin: Built) -> None:
    """Two simulations of one library, and one of another, none of which disturbs the others."""
    launches = [placed(random_program(TINY, seed)) for seed in range(2100, 2120)]
    alone = timeless(native.launch_each(launches))
    found: dict[int, list[Outcome]] = {}

    def work(number: int) -> None:
        device = rtl_device(TINY, "native")
        found[number] = timeless(device.launch_each(launches))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    with pytest.raises(DeviceError, match=r"longer than 0\.2 seconds and was ended"):
        run_jobs(native_standin, [endless()], work_dir=Path(), limit_seconds=0.2)
    for thread in threads:
        thread.join()
    assert found == {0: alone, 1: alone}


def test_simulations_of_one_thread_may_overlap(native: RtlDevice) -> None:
    """Whichever ends first, the others go on, and end."""
    built = native.build()
    outer, inner = (open_simulation(built) for _ in range(2))
    with outer as first:
        with inner as second:
            identities = [_identity(item) for item in (first, second, first, second)]
        identities.append(_identity(first))
    assert identities == [ID_VALUE] * 5


def _identity(simulation: NativeSimulation) -> int:
    for name, number in START.settings().items():
        simulation.set(name, number)
    simulation.command(OP_BREAK, op_count=RESET_CYCLES, op_data=0)
    simulation.command(OP_READ, op_address=register("id").offset)
    return simulation.get("result")


@pytest.fixture
def control_c() -> Iterator[None]:
    """Control-C interrupts, though a shell's background job is started with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("control_c")
def test_control_c_ends_a_run_and_the_next_is_well(native_standin: Built) -> None:
    """Without progress, without a limit: between two slices of cycles."""
    timer = threading.Timer(0.5, _thread.interrupt_main)
    began = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run_jobs(native_standin, [endless()], work_dir=Path(), pause_cycles=1 << 40)
    assert 0.4 < time.monotonic() - began < 10
    (result,) = run_jobs(native_standin, [replace(START, writes=((24, 1),))], work_dir=Path())
    assert not result.timed_out


def test_a_model_that_ends_the_simulation_does_not_end_this_process(
    standin_verilog: str, tmp_path: Path
) -> None:
    stops = "  always @(posedge ap_clk) if (start) $finish;\nendmodule"
    built = build_simulator(
        standin_verilog.replace("endmodule", stops, 1),
        data_bits=64,
        addr_bits=32,
        words=WORDS,
        cache_dir=CACHE,
        simulator=available("native"),
    )
    with pytest.raises(DeviceError, match=r"the simulation failed; it said: .*: \$finish"):
        run_jobs(built, [START], work_dir=tmp_path)


def test_a_library_starts_from_zero_every_time(native: RtlDevice) -> None:
    """A launch leaves nothing in scratchpads for the next; the launches of one call do."""
    first, second = (placed(random_program(TINY, seed)) for seed in (2200, 2201))
    fresh = timeless(native.launch_each([second]))
    native.launch_each([first])
    assert timeless(native.launch_each([second])) == fresh


def test_what_is_not_native_is_refused(standin_verilog: str, tmp_path: Path) -> None:
    sizes = {"data_bits": 64, "addr_bits": 32, "words": 1024, "cache_dir": tmp_path}
    with pytest.raises(ToolError, match="native records no waveforms; choose verilator or icarus"):
        build_simulator(standin_verilog, **sizes, simulator=available("native"), waves=True)
    with pytest.raises(ToolError, match="under cocotb must be verilator or icarus, not 'native'"):
        build_protocol_simulator(standin_verilog, **sizes, simulator="native")
    assert {path.suffix for path in tmp_path.iterdir()} == {".lock"}


def test_the_device_takes_the_native_one_unless_waves_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def build(_verilog: str, *, simulator: str, waves: bool, **_sizes: object) -> Built:
        asked.append((simulator, waves))
        return Built(Path(), simulator, "harness", waves, 0.0)

    monkeypatch.setattr("daedal.sim.rtl.device.build_simulator", build)
    monkeypatch.setattr("daedal.sim.rtl.device.kept_verilog", lambda *_, assertions: "")
    monkeypatch.setattr("daedal.sim.rtl.device.require_tools", lambda _simulator: None)
    RtlDevice(TINY).build()
    RtlDevice(TINY, wave=(0, 10)).build()
    RtlDevice(TINY, simulator="icarus").build()
    assert asked == [("native", False), ("verilator", True), ("icarus", False)]


def test_a_launch_that_does_not_end_is_reported(native: RtlDevice) -> None:
    launch: Launch = replace(placed(random_program(TINY, 3)), cycle_limit=50)
    with pytest.raises(DeviceError, match="the interrupt must come within 50 cycles; it did not"):
        native.launch_each([launch])
