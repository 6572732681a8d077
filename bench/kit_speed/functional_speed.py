"""Seconds of the functional simulator for one ResNet-18, and nanoseconds per product of it.

The whole network is one program that `compiler` made: loads, products, ALU and stores, so the
nanoseconds are of everything that a product brings with it. The same kernels are compiled as if
this processor had no VNNI, and as if it had no AVX-512, to show what an older one would do. The
numpy definition is timed on one of the unit streams, to show what the kernels gain.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from bench.networks.resnet18 import resnet18
from bench.networks.unit_streams import unit_streams
from bench.speed import Speed, measure
from daedal.compiler.model import compile_model
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.table import LOOPS, Opcode
from daedal.isa.variant import Variant
from daedal.native.cpu import host_cpu
from daedal.sim.functional.device import FunctionalDevice

__all__ = ["measure_functional", "products_of"]

STREAM = "double-buffered, GEMM the busiest"

LEVELS = {"": (), ", no VNNI": ("avx512vnni", "avxvnni"), ", AVX2": ("avx512f", "avxvnni")}
"""Features that the machine code does without."""

BARS = {"": 2.2, ", no VNNI": 4.0}
"""For one ResNet-18, 0.06 s and 0.11 s, in calibrations of 27.5 ms as on the machine
that it was set for (3.65 GHz)."""

SLOWER_BAR = 2.0
"""Times the seconds that the same processor takes with VNNI."""


def products_of(program: Program) -> int:
    """Products of rows that its GEMM instructions make."""

    def count(item: Instruction) -> int:
        loops = [getattr(item, f"extent{level}") for level in range(LOOPS)]
        return int(np.prod(loops)) * max(0, item.uop_end - item.uop_begin)

    return sum(count(item) for item in program.instructions if item.opcode is Opcode.GEMM)


class _Launches:
    """One program on one device, as often as asked; the random data keeps its values."""

    def __init__(self, program: Program, **options: Any) -> None:
        self._program = program
        self._device = FunctionalDevice(program.variant, **options)
        self._bases = [self._device.alloc(size) for size in program.region_bytes]
        self._device.write(self._bases[0], program.constants)
        rng = np.random.default_rng(18)
        self._device.write(self._bases[1], rng.bytes(program.region_bytes[1]))

    def launch(self) -> tuple[float, float]:
        """Wall and processor seconds of one run."""
        wall, processor = time.perf_counter(), time.process_time()
        self._device.launch(self._program, self._bases)
        return time.perf_counter() - wall, time.process_time() - processor


def measure_functional(variant: Variant, report: Callable[[str], Any]) -> list[Speed]:
    """Speeds of kernels and definition on `variant`.

    The bars of the whole network are about processor time; wall clock is shown with it: where
    others use the machine, the two tell that apart from a slower simulator.
    """
    report("compiling ResNet-18")
    artifact = compile_model(resnet18(np.random.default_rng(18)).SerializeToString(), variant)
    launches = {
        level: _Launches(artifact.program, without_features=features)
        for level, features in LEVELS.items()
    }
    taken: dict[str, list[tuple[float, float]]] = {level: [] for level in launches}
    for network in launches.values():
        network.launch()  # compiles the kernels, or reads them from the cache

    def seconds(level: str) -> float:
        taken[level].append(launches[level].launch())
        return taken[level][-1][1]

    report("measuring ResNet-18")
    columns, calibrations = measure([partial(seconds, level) for level in launches])
    values = dict(zip(launches, columns, strict=True))
    workload = f"ResNet-18, {products_of(artifact.program):,} products"
    has_vnni = not host_cpu().features.isdisjoint(LEVELS[", no VNNI"])
    speeds = []
    for level, processor in values.items():
        name, bar = f"functional{level}", BARS.get(level)
        if not level and not has_vnni:
            bar = BARS[", no VNNI"]
        walls = tuple(wall for wall, _ in taken[level])
        speeds += [
            Speed(name, workload, "s of processor", processor, calibrations, bar, True, True),
            Speed(name, workload, "s", walls, calibrations, None, True),
        ]
    slower = tuple(a / b for a, b in zip(values[", no VNNI"], values[""], strict=True))
    without = Speed(
        "functional, no VNNI",
        workload,
        "times the seconds with it",
        slower,
        calibrations,
        SLOWER_BAR,
        less_is_better=True,
        absolute=True,
    )
    return [*speeds, without, *_stream_speeds(variant)]


def _stream_speeds(variant: Variant) -> Sequence[Speed]:
    """Kernels beside the definition, on a stream that the definition finishes in seconds."""
    (program,) = (item.program for item in unit_streams(variant) if item.name == STREAM)
    products = products_of(program)
    runs = {
        "functional": _Launches(program),
        "functional, numpy": _Launches(program, kernels=False),
    }
    for run in runs.values():
        run.launch()
    timers = [
        lambda run=run: 1e9 * run.launch()[1] / products  # type: ignore[misc]
        for run in runs.values()
    ]
    values, calibrations = measure(timers)
    return [
        Speed(name, STREAM, "ns of processor a product", taken, calibrations, None, True, True)
        for name, taken in zip(runs, values, strict=True)
    ]
