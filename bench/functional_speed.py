"""Seconds of the functional simulator for one ResNet-18, and nanoseconds per product of it.

The whole network is one program that `compiler` made: loads, products, ALU and stores, so the
nanoseconds are of everything that a product brings with it. The numpy definition is timed on one
of the unit streams beside it, to show what the kernels gain.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.resnet18 import resnet18
from bench.speed import Speed, measure
from bench.unit_streams import unit_streams
from daedal.compiler.model import compile_model
from daedal.isa.instruction import Instruction
from daedal.isa.program import Program
from daedal.isa.table import LOOPS, Opcode
from daedal.isa.variant import Variant
from daedal.sim.functional.device import FunctionalDevice

__all__ = ["measure_functional", "products_of"]

STREAM = "double-buffered, GEMM the busiest"

SECONDS_BAR = 0.27
"""Yardstick Y7, for one ResNet-18 on one core."""

PRODUCT_BAR_NS = 37.0
"""The same per product of 16 x 16; Y7's network has 6.6 million of them."""


def products_of(program: Program) -> int:
    """Products of rows that its GEMM instructions make."""

    def count(item: Instruction) -> int:
        loops = [getattr(item, f"extent{level}") for level in range(LOOPS)]
        return int(np.prod(loops)) * max(0, item.uop_end - item.uop_begin)

    return sum(count(item) for item in program.instructions if item.opcode is Opcode.GEMM)


class _Launches:
    """One program on one device, as often as asked; the random data keeps its values."""

    def __init__(self, program: Program, *, kernels: bool = True) -> None:
        self._program = program
        self._device = FunctionalDevice(program.variant, kernels=kernels)
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

    The bar of the whole network is about wall clock, and about processor time beside it: where
    others use the machine, the two tell that apart from a slower simulator.
    """
    report("compiling ResNet-18")
    artifact = compile_model(resnet18(np.random.default_rng(18)).SerializeToString(), variant)
    network = _Launches(artifact.program)
    network.launch()  # compiles the kernels, or reads them from the cache
    taken: list[tuple[float, float]] = []

    def seconds() -> float:
        taken.append(network.launch())
        return taken[-1][1]

    report("measuring ResNet-18")
    (values,), calibrations = measure([seconds])
    walls = tuple(wall for wall, _ in taken)
    name, workload = "functional", "ResNet-18"
    products = products_of(artifact.program)
    per_product = tuple(1e9 * value / products for value in values)
    speeds = [
        Speed(name, workload, "s of processor", values, calibrations, SECONDS_BAR, True),
        Speed(name, workload, "s", walls, calibrations, SECONDS_BAR, True),
        Speed(
            name,
            f"{workload}, {products:,} products",
            "ns of processor a product",
            per_product,
            calibrations,
            PRODUCT_BAR_NS,
            True,
        ),
    ]
    return speeds + _stream_speeds(variant)


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
        Speed(name, STREAM, "ns of processor a product", taken, calibrations, None, True)
        for name, taken in zip(runs, values, strict=True)
    ]
