"""Cycles per second of the RTL simulators on whole networks and on a stream of products.

A workload is a list of launches, made once; every simulator runs the same ones and must count the
same cycles. Seconds are those between start and interrupt: no build, no loading of memory.
"""

import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.calibration import calibrate
from bench.correctness.recorded_launches import Recorder, random_inputs
from bench.left_out import LeftOut
from bench.networks.starvation import networks_there
from bench.networks.unit_streams import unit_streams
from bench.speed import Speed, measure
from daedal.compiler.model import compile_model
from daedal.isa.variant import Variant
from daedal.runtime.executor import Executor
from daedal.sim.rtl.device import RtlDevice
from daedal.sim.rtl.launch import Launch

__all__ = ["measure_build", "measure_rtl", "rtl_workloads"]

BARS = {"native": 6_900.0, "verilator": 2_750.0}
"""250,000 and 100,000 cycles per second, in cycles per calibration of 27.5 ms as on
the machine that it was set for (3.65 GHz); ``verilator`` is under cocotb."""

BUILD_BAR = 6_500.0
"""180 s, in such calibrations."""
BUILD_CORES = 2

NUM_INPUTS = {"digits": 16, "ResNet-8": 1}
STREAM = "double-buffered, GEMM the busiest"

Report = Callable[[str], Any]


def rtl_workloads(variant: Variant, left_out: LeftOut) -> dict[str, list[Launch]]:
    """The networks that are there, on random inputs, and the unit stream with most products."""
    rng = np.random.default_rng(6)
    workloads = {}
    for name, path in networks_there(left_out):
        recorder = Recorder(variant)
        executor = Executor(compile_model(path, variant), recorder)
        for _ in range(NUM_INPUTS[name]):
            executor.run(random_inputs(executor, rng))
        workloads[name] = recorder.launches
    (stream,) = (item for item in unit_streams(variant) if item.name == STREAM)
    bases, end = [], 0
    for size in stream.program.region_bytes:
        bases.append(end)
        end += -(-size // 4096) * 4096
    launch = Launch(stream.program, tuple(bases), stream.program.constants.ljust(end, b"\0"))
    workloads[STREAM] = [launch]
    return workloads


def measure_rtl(
    variant: Variant, report: Report, left_out: LeftOut
) -> tuple[list[Speed], list[str]]:
    """Speeds of every simulator on every workload, and a sentence wherever cycles differ.

    The bars are about wall clock. Beside each, without a bar, is the speed per second of processor
    time, start-up and loading included: what others do on the machine hardly touches it.
    """
    devices = {name: RtlDevice(variant, simulator=name, report=report) for name in BARS}
    speeds, differences = [], []
    for workload, launches in rtl_workloads(variant, left_out).items():
        for device in devices.values():
            device.build(max(launch.size_bytes for launch in launches))
        report(f"measuring {workload}")
        runs: dict[str, list[_Run]] = {name: [] for name in devices}

        def run(name: str, launches: list[Launch], runs: dict[str, list[_Run]]) -> float:
            runs[name].append(_Run.of(devices[name], launches))
            return runs[name][-1].per_second

        contestants = [partial(run, name, launches, runs) for name in devices]
        values, calibrations = measure(contestants)
        for name, taken in zip(devices, values, strict=True):
            busy = tuple(one.per_processor_second for one in runs[name])
            speeds.append(Speed(name, workload, "cycles/s", taken, calibrations, BARS[name]))
            unit = "cycles/s of processor"
            speeds.append(Speed(name, workload, unit, busy, calibrations, on_processor=True))
        if len({one.cycles for done in runs.values() for one in done}) != 1:
            differences.append(f"{workload}: the simulators must count the same cycles: {runs}")
    return speeds, differences


@dataclass(frozen=True)
class _Run:
    """One pass over a workload: cycles of each launch, and the seconds they took."""

    cycles: tuple[int, ...]
    wall_seconds: float
    processor_seconds: float

    @classmethod
    def of(cls, device: RtlDevice, launches: Sequence[Launch]) -> "_Run":
        before = time.process_time() + _children_seconds()
        profiles = [outcome.profile for outcome in device.launch_each(launches)]
        processor = time.process_time() + _children_seconds() - before
        wall = sum(profile.wall_seconds for profile in profiles)
        return cls(tuple(profile.cycles or 0 for profile in profiles), wall, processor)

    @property
    def per_second(self) -> float:
        return sum(self.cycles) / self.wall_seconds

    @property
    def per_processor_second(self) -> float:
        return sum(self.cycles) / self.processor_seconds


def measure_build(variant: Variant, report: Report) -> Speed:
    """Seconds to emit and build the native simulator from nothing.

    Processor time, so that what others do on the machine is left out: all of this process (which
    emits), and half of its children's, as two compilers run side by side.
    """
    calibration = calibrate()
    with tempfile.TemporaryDirectory(prefix="daedal-") as folder:
        own, children = time.process_time(), _children_seconds()
        RtlDevice(variant, simulator="native", cache_dir=Path(folder), report=report).build()
        own, children = time.process_time() - own, _children_seconds() - children
    return Speed(
        "native",
        f"emit and build, {BUILD_CORES} cores",
        "s",
        (own + children / BUILD_CORES,),
        (calibration,),
        BUILD_BAR,
        less_is_better=True,
        on_processor=True,
    )


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
