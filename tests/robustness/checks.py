"""What must become of a mutated file: it is refused in one sentence, or all that follows works."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

import daedal
from daedal.check import integer_graph
from daedal.compiler.graph import run
from daedal.isa.artifact import Artifact
from daedal.isa.assembly import disassemble
from daedal.runtime.executor import Executor
from daedal.runtime.host_parts import CodeTrust
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import timing_with_values
from tests.robustness.cases import VARIANT, Case, artifact_case, model_case

__all__ = ["CHECKS", "Check"]

MAX_INPUT_ELEMENTS = 1 << 16

Check = Callable[[Case], None]


def _inputs(executor: Executor) -> dict[str, npt.NDArray[np.float32]] | None:
    """Random inputs of the model, or None where they are large."""
    shapes = executor.input_shapes
    if sum(int(np.prod(shape)) for shape in shapes.values()) > MAX_INPUT_ELEMENTS:
        return None
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def check_model(case: Case) -> None:
    """The model compiles, its artifact reads back, runs, and computes what the graph means.

    The host's parts are interpreted, so that a float of theirs is rounded as the graph's.
    """
    compiled = daedal.compile(case.data, VARIANT, cache=False, cpu_levels=())
    artifact = Artifact.from_bytes(compiled.to_bytes())
    executor = Executor(artifact, FunctionalDevice(artifact.variant))
    inputs = _inputs(executor)
    if inputs is None:
        return
    found = executor.run(inputs).outputs
    expected = run(integer_graph(case.data, artifact.variant), inputs)
    assert list(found) == list(dict.fromkeys(value.name for value in artifact.outputs))
    for name in found.keys() & expected.keys():  # some are outside the graph, some inside it only
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)


def check_artifact(case: Case) -> None:
    """The artifact reads, says what it holds, and runs on the functional and the timing device.

    Machine code that was changed must not run; the ONNX model is interpreted in its place.
    """
    interpret = CodeTrust(compile_model=lambda _model: None)
    artifact = Artifact.from_bytes(case.data)
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    for launch in artifact.launches:
        disassemble(launch.program.instructions)
    for open_device in (FunctionalDevice, timing_with_values):
        executor = Executor(artifact, open_device(artifact.variant), interpret)
        inputs = _inputs(executor)
        if inputs is not None:
            executor.run(inputs)


CHECKS: dict[str, tuple[Callable[[int], Case], Check]] = {
    "artifact": (artifact_case, check_artifact),
    "model": (model_case, check_model),
}
"""By kind of file: the case of a number, and what is asked of it."""
