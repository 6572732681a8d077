"""A measured speed with its bar, relative to a calibration kernel timed along with it."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.calibration import Calibration, calibrate

__all__ = ["REPETITIONS", "Speed", "measure", "on_one_core"]

REPETITIONS = 3


@dataclass(frozen=True)
class Speed:
    """How fast one program does one thing.

    Attributes
    ----------
    simulator, workload, unit
        What did what; `values` count this unit, one value per repetition.
    calibrations
        Before each repetition.
    bar
        What `ratio` must reach, or stay under where `less_is_better`; None: shown only.
    less_is_better
        The values are seconds; otherwise they are so much per second.
    on_processor
        The seconds are the processor's, not the wall clock's.
    absolute
        The values have no seconds in them, and are not divided by the calibration.
    """

    simulator: str
    workload: str
    unit: str
    values: tuple[float, ...]
    calibrations: tuple[Calibration, ...]
    bar: float | None = None
    less_is_better: bool = False
    on_processor: bool = False
    absolute: bool = False

    @property
    def median(self) -> float:
        """In `unit`."""
        return float(np.median(self.values))

    @property
    def calibration_seconds(self) -> tuple[float, ...]:
        """Of the kernel, by the clock of the values."""
        if self.on_processor:
            return tuple(item.processor_seconds for item in self.calibrations)
        return tuple(item.wall_seconds for item in self.calibrations)

    @property
    def ratio(self) -> float:
        """The median in units of the calibration kernel: its runs in the time that something takes,
        or what is done while it runs once."""
        if self.absolute:
            return self.median
        pairs = zip(self.values, self.calibration_seconds, strict=True)
        return float(np.median([x / one if self.less_is_better else x * one for x, one in pairs]))

    @property
    def passed(self) -> bool:
        """Whether the bar is met."""
        if self.bar is None:
            return True
        return self.ratio <= self.bar if self.less_is_better else self.ratio >= self.bar

    def to_json(self) -> dict[str, Any]:
        """As the benches write it."""
        return {
            "simulator": self.simulator,
            "workload": self.workload,
            "unit": self.unit,
            "median": self.median,
            "values": list(self.values),
            "calibration_seconds": list(self.calibration_seconds),
            "ratio": self.ratio,
            "bar": self.bar,
            "less_is_better": self.less_is_better,
            "passed": self.passed,
        }


def measure(
    contestants: Sequence[Callable[[], float]],
) -> tuple[list[tuple[float, ...]], tuple[Calibration, ...]]:
    """Values of every contestant, taken in turns, and the calibration before each turn."""
    values: list[list[float]] = [[] for _ in contestants]
    calibrations = []
    for _ in range(REPETITIONS):
        calibrations.append(calibrate())
        for taken, contestant in zip(values, contestants, strict=True):
            taken.append(contestant())
    return [tuple(taken) for taken in values], tuple(calibrations)


def on_one_core() -> int | None:
    """Keep this process and its children on one core, where the system can; which one."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core
