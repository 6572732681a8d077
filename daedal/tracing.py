"""`trace`: runs an artifact on the RTL and on the functional simulator up to a difference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daedal.api import simulate
from daedal.artifact.artifact import Artifact, Layer
from daedal.isa.assembly import format_instruction
from daedal.isa.program import Program
from daedal.runtime.driver import LoadedProgram
from daedal.sim.trace.device import TraceDevice
from daedal.sim.trace.difference import Difference
from daedal.sim.trace.place import Place, behind_row, in_memory, layer_of
from daedal.sim.trace.trace import Trace

__all__ = ["TraceReport", "trace"]

CONTEXT_INSTRUCTIONS = 5
"""Instructions shown before and after the one that differs."""


@dataclass(frozen=True)
class TraceReport:
    """Result of `trace`.

    Attributes
    ----------
    traces
        One per launch of each run, the last one with the difference if there is any.
    launch
        Number of the artifact's launch to which the last trace belongs.
    layer
        Layer of the instruction that differs.
    place
        Place in external memory of the differing data, its source or its destination; None if
        unknown.
    lines
        The disassembly around the instruction: numbers and texts.
    """

    traces: tuple[Trace, ...]
    launch: int = 0
    layer: Layer | None = None
    place: Place | None = None
    lines: tuple[tuple[int, str], ...] = ()

    @property
    def difference(self) -> Difference | None:
        """The first difference, or None."""
        return self.traces[-1].difference


def trace(
    artifact: Artifact,
    inputs: Mapping[str, npt.ArrayLike] | None = None,
    *,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> TraceReport:
    """Run on both sides, once for each item along axis 0 of the inputs, up to a difference.

    Without `inputs`, the tensors that enter the accelerator are random over their whole range, from
    `seed`. `options` go to `sim.trace.device.TraceDevice`.

    Raises ModelError for inputs that do not fit, DeviceError where the functional simulator cannot
    run the program, ToolError where a simulator is missing.
    """
    device = TraceDevice(artifact.variant, **options)
    if inputs is None:
        rng = np.random.default_rng(seed)
        for launch in artifact.launches:
            drawn = {}
            for spec in launch.program.inputs:
                limit = 1 << (spec.element_bits - 1)
                drawn[spec.name] = rng.integers(-limit, limit, spec.shape)
            LoadedProgram.place(launch.program, device).run(drawn)
    else:
        simulate(artifact, inputs, device=device, progress=progress)
    return _explained(artifact, device)


def _explained(artifact: Artifact, device: TraceDevice) -> TraceReport:
    traces = tuple(device.traces)
    which = (len(traces) - 1) % len(artifact.launches)
    difference = traces[-1].difference
    if difference is None:
        return TraceReport(traces, which)
    launch = artifact.launches[which]
    program = launch.program
    number = difference.instruction
    first = max(0, number - CONTEXT_INSTRUCTIONS)
    around = program.instructions[first : number + CONTEXT_INSTRUCTIONS + 1]
    lines = tuple((first + k, format_instruction(item)) for k, item in enumerate(around))
    place = _place(program, traces[-1])
    return TraceReport(traces, which, layer_of(launch, number), place, lines)


def _place(program: Program, found: Trace) -> Place | None:
    difference = found.difference
    assert difference is not None, "there is something to place"
    if difference.row is None:
        return None
    wrong = [
        k
        for k, (want, got) in enumerate(zip(difference.expected, difference.found, strict=True))
        if want != got
    ]
    element = difference.elements[wrong[0]] if wrong else 0
    if difference.memory is not None:
        number = difference.instruction
        return behind_row(program, number, difference.memory, difference.row, element)
    address = difference.row + element
    for base, (start, size) in enumerate(zip(found.bases, program.region_bytes, strict=True)):
        if start <= address < start + size:
            return in_memory(program, base, address - start)
    return None
