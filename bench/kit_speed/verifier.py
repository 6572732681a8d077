"""Seconds of the program verifier for whole networks.

    python bench/kit_speed/verifier.py [--json F]

ResNet-18 as the compiler makes it, on the variant and on one with a quarter of its scratchpads:
smaller tiles give the instructions that a whole network may well have. Medians of three on one
core, a calibration kernel beside each. Exit status 1 when a bar is missed.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.json_file import write_json
from bench.kit_speed.sim_speed import speed_table
from bench.networks.resnet18 import resnet18
from bench.speed import Speed, measure, on_one_core
from daedal.compiler.model import compile_model
from daedal.isa.program import Program
from daedal.isa.variant import Variant, load_variant
from daedal.isa.verifier import verify

__all__ = ["main", "measure_verifier", "with_smaller_scratchpads"]

BAR = 180.0
"""5 s, in calibrations of 27.5 ms."""
LEAST_INSTRUCTIONS = 14_000
"""Instructions of the largest program at least; with fewer the bench measures nothing."""


def with_smaller_scratchpads(variant: Variant, divisor: int = 4) -> Variant:
    """The variant with less room for inputs, weights, accumulators and outputs."""
    memory = variant.memory
    sizes = {
        name: getattr(memory, name) // divisor
        for name in ("inp_bytes", "wgt_bytes", "acc_bytes", "out_bytes")
    }
    return variant.replace(f"{variant.name}-small", **sizes)


def measure_verifier(variant: Variant, report: Callable[[str], Any]) -> list[Speed]:
    """Seconds for one program of ResNet-18 on `variant` and on the smaller one."""
    model = resnet18(np.random.default_rng(18)).SerializeToString()
    programs: list[Program] = []
    for machine in (variant, with_smaller_scratchpads(variant)):
        report(f"compiling ResNet-18 for {machine.name}")
        programs.append(compile_model(model, machine).program)

    def seconds(program: Program) -> float:
        began = time.perf_counter()
        verify(program)
        return time.perf_counter() - began

    report("measuring the verifier")
    contestants = [lambda program=program: seconds(program) for program in programs]
    values, calibrations = measure(contestants)
    return [
        Speed(
            "verifier",
            f"ResNet-18, {program.variant.name}, {len(program.instructions):,} instructions",
            "s",
            taken,
            calibrations,
            BAR,
            less_is_better=True,
        )
        for program, taken in zip(programs, values, strict=True)
    ] + [
        Speed(
            "compiler",
            "ResNet-18, the larger program",
            "instructions",
            (float(max(len(program.instructions) for program in programs)),),
            calibrations,
            LEAST_INSTRUCTIONS,
            absolute=True,
        )
    ]


def main() -> int:
    """Measure, print, and say whether every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--variant", default="vta")
    arguments = parser.parse_args()
    core = on_one_core()
    speeds = measure_verifier(load_variant(arguments.variant), Console(stderr=True).print)
    Console(width=180).print(speed_table(speeds, f"The verifier, on core {core}"))
    records = {"speeds": [speed.to_json() for speed in speeds]}
    write_json(arguments.json, records)
    return 0 if all(speed.passed for speed in speeds) else 1


if __name__ == "__main__":
    sys.exit(main())
