"""Traces of artifacts with several launches: which launch of which run a difference belongs to."""

import io
from collections.abc import Sequence

import numpy as np
import pytest
from rich.console import Console

import daedal
from daedal import tracing
from daedal.isa.profile import Profile
from daedal.isa.program import Program
from daedal.isa.variant import Variant
from daedal.reports.trace import print_trace, trace_json
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.trace.difference import Difference, Kind
from daedal.sim.trace.trace import Trace
from tests.support.small_networks import island

INSTRUCTION = 3


class Differing(FunctionalDevice):
    """Computes, and says that the fourth launch differs."""

    def __init__(self, variant: Variant) -> None:
        super().__init__(variant)
        self.traces: list[Trace] = []

    def launch(self, program: Program, bases: Sequence[int]) -> Profile:
        if len(self.traces) < 4:
            unit = program.instructions[INSTRUCTION].unit
            found = Difference(Kind.MISSING, INSTRUCTION, unit, "writes nothing")
            difference = found if len(self.traces) == 3 else None
            count = len(program.instructions)
            self.traces.append(Trace(difference, count, 10, 1, 100, tuple(bases), b""))
        return super().launch(program, bases)


def test_a_difference_belongs_to_a_launch(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "TraceDevice", Differing)
    artifact = daedal.compile(island(rng).SerializeToString(), "tiny")
    images = rng.normal(size=(3, 16, 12, 12)).astype(np.float32)
    found = tracing.trace(artifact, {"x": images})
    second = artifact.launches[1]
    assert found.launch == 1 and found.layer == second.layers[0]
    shown = dict(found.lines)
    assert shown[INSTRUCTION].startswith(second.program.instructions[INSTRUCTION].opcode.name)
    report = trace_json(found, artifact, 0)
    assert (report["compared"]["runs"], report["difference"]["run"]) == (2, 1)
    assert report["difference"]["launch"] == 1
    text = io.StringIO()
    print_trace(Console(file=text, width=200), found, artifact)
    count = len(second.program.instructions)
    assert text.getvalue().startswith(f"instruction {INSTRUCTION} of {count} of launch 1 (")


def test_without_inputs_every_launch_gets_random_tensors(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "TraceDevice", Differing)
    artifact = daedal.compile(island(rng).SerializeToString(), "tiny")
    found = tracing.trace(artifact, seed=7)
    counts = [len(launch.program.instructions) for launch in artifact.launches]
    assert [item.num_instructions for item in found.traces] == counts
    assert found.difference is None
    assert trace_json(found, artifact, 7)["compared"]["runs"] == 1
