"""A measured speed with its bar, and the calibration kernel that is timed beside it."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["REPETITIONS", "Speed", "calibrate", "measure", "on_one_core"]

REPETITIONS = 3


@dataclass(frozen=True)
class Speed:
    """How fast one simulator does one thing.

    Attributes
    ----------
    simulator, workload, unit
        What did what; `values` count this unit, one value per repetition.
    calibration_seconds
        Of the calibration kernel before each repetition.
    bar
        What the median must reach, or stay under where `less_is_better`; None: shown only.
    """

    simulator: str
    workload: str
    unit: str
    values: tuple[float, ...]
    calibration_seconds: tuple[float, ...]
    bar: float | None = None
    less_is_better: bool = False

    @property
    def median(self) -> float:
        """What counts."""
        return float(np.median(self.values))

    @property
    def passed(self) -> bool:
        """Whether the bar is met."""
        if self.bar is None:
            return True
        return self.median <= self.bar if self.less_is_better else self.median >= self.bar

    def to_json(self) -> dict[str, Any]:
        """As the benches write it."""
        return {
            "simulator": self.simulator,
            "workload": self.workload,
            "unit": self.unit,
            "median": self.median,
            "values": list(self.values),
            "calibration_seconds": list(self.calibration_seconds),
            "bar": self.bar,
            "less_is_better": self.less_is_better,
            "passed": self.passed,
        }


def measure(
    contestants: Sequence[Callable[[], float]],
) -> tuple[list[tuple[float, ...]], tuple[float, ...]]:
    """Values of every contestant, taken in turns, and the calibration before each turn."""
    values: list[list[float]] = [[] for _ in contestants]
    calibrations = []
    for _ in range(REPETITIONS):
        calibrations.append(calibrate())
        for taken, contestant in zip(values, contestants, strict=True):
            taken.append(contestant())
    return [tuple(taken) for taken in values], tuple(calibrations)


def calibrate() -> float:
    """Seconds of a fixed kernel of integers that stays in the first cache."""
    numbers = np.arange(1 << 11, dtype=np.uint32)
    began = time.perf_counter()
    for _ in range(30_000):
        numbers = numbers * np.uint32(1664525) + np.uint32(1013904223)
    return time.perf_counter() - began


def on_one_core() -> int | None:
    """Keep this process and its children on one core, where the system can; which one."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core
