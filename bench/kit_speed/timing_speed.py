"""How fast the cycle model is, on the ResNet-18 layers among the translated VTA programs.

Seconds are the processor's, on one core; those of the model alone are wall clock.
"""

import time
from collections.abc import Callable

import numpy as np

from bench.correctness.timing_cases import vta_cases
from bench.left_out import LeftOut
from bench.speed import Speed, measure
from daedal.isa.memory_model import memory_model
from daedal.isa.variant import Variant
from daedal.sim.rtl.launch import Launch
from daedal.sim.timing.count import count_cycles

__all__ = ["measure_timing"]

BAR = 1.4e6
"""Simulated cycles per calibration; 50 million per second at 3.65 GHz."""
REPEATS = 3


def measure_timing(variant: Variant, left_out: LeftOut) -> list[Speed]:
    """Cycles and instructions per second, all included, and cycles without preparation."""
    preset = memory_model("ddr")
    launches = [case.launch(preset) for case in vta_cases(variant, left_out, "resnet18")]
    if not launches:
        return []
    memories = [np.frombuffer(bytearray(launch.memory), dtype=np.uint8) for launch in launches]

    def run(launch: Launch, memory: np.ndarray) -> tuple[int, float]:
        count = count_cycles(launch.program, launch.bases, memory, launch.timing)
        return count.profile.cycles or 0, count.model_seconds

    def per_second(kind: str) -> Callable[[], float]:
        def contestant() -> float:
            cycles, seconds = 0, 0.0
            began = time.process_time()
            for _ in range(REPEATS):
                for launch, memory in zip(launches, memories, strict=True):
                    taken, inside = run(launch, memory)
                    cycles += taken
                    seconds += inside
            elapsed = time.process_time() - began
            if kind == "instructions":
                each = sum(len(launch.program.instructions) for launch in launches)
                return REPEATS * each / elapsed
            return cycles / (seconds if kind == "model" else elapsed)

        contestant()  # compiles, or loads what is kept
        return contestant

    kinds = ("all", "model", "instructions")
    values, calibrations = measure([per_second(kind) for kind in kinds])
    units = {
        "all": "cycle/s of processor",
        "model": "cycle/s",
        "instructions": "instruction/s of processor",
    }
    names = {"all": "", "model": ", without preparation", "instructions": ""}
    return [
        Speed(
            "timing",
            f"{len(launches)} layers of ResNet-18 ({variant.name}, ddr){names[kind]}",
            units[kind],
            taken,
            calibrations,
            BAR if kind == "all" else None,
            on_processor=kind != "model",
        )
        for kind, taken in zip(kinds, values, strict=True)
    ]
