"""Whether FETCH starves a unit on whole networks.

FETCH is the only source of instructions: a unit that is IDLE between its first and its last mark
(one per layer) is idle because FETCH has not delivered its next instruction, either because FETCH
waits for memory or because another unit's full queue blocks it. Each such cycle counts against
FETCH, whatever the cause. Cycles before the first mark do not, because they include the wait for
the first instruction.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.left_out import LeftOut
from daedal.compiler.model import compile_model
from daedal.isa.profile import Profile
from daedal.isa.protocols import Device
from daedal.isa.registers import CycleClass
from daedal.isa.table import Unit
from daedal.runtime.executor import Executor

__all__ = ["NETWORKS", "fed_and_starved", "measure_starvation", "networks_there"]

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = {
    "digits": ROOT / "examples" / "digits" / "digits_qdq.onnx",
    "ResNet-8": ROOT.parent / "shared" / "models" / "mlperf_tiny_resnet8" / "model_qdq.onnx",
}


def fed_and_starved(profile: Profile) -> Iterator[tuple[Unit, int, int]]:
    """Units with two marks or more: cycles between the first and the last, and IDLE ones."""
    for unit in Unit:
        marks = [mark for mark in profile.marks if mark.unit is unit]
        if len(marks) > 1:
            between = marks[-1].counters.since(marks[0].counters)
            yield unit, marks[-1].cycle - marks[0].cycle, between.classes[CycleClass.IDLE]


def networks_there(
    left_out: LeftOut, wanted: Callable[[str], bool] = lambda _name: True
) -> Iterator[tuple[str, Path]]:
    """Those of `NETWORKS` that are wanted and whose files are there; others are left out."""
    for name, path in NETWORKS.items():
        if not wanted(name):
            continue
        if path.is_file():
            yield name, path
        else:
            left_out.add(name, f"needs the file {path}")


def measure_starvation(device: Device, only: str, left_out: LeftOut) -> list[dict[str, Any]]:
    """Run the networks that are there; a record per network and unit, with a bar of 100 %."""

    def streams_of(name: str) -> dict[Unit, str]:
        return {unit: f"FETCH feeds {unit.name}: {name}" for unit in Unit}

    def wanted(name: str) -> bool:
        return any(only in stream for stream in streams_of(name).values())

    records = []
    for name, path in networks_there(left_out, wanted):
        streams = streams_of(name)
        executor = Executor(compile_model(path, device.variant), device)
        inputs = {
            key: np.zeros(shape, dtype=np.float32) for key, shape in executor.input_shapes.items()
        }
        profile = executor.run(inputs).profile
        for unit, cycles, starved in fed_and_starved(profile):
            records.append(
                {
                    "stream": streams[unit],
                    "ideal_cycles": cycles - starved,
                    "cycles": cycles,
                    "share": (cycles - starved) / cycles,
                    "bar": 1.0,
                    "passed": starved == 0,
                }
            )
    return [record for record in records if only in record["stream"]]
