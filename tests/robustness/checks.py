"""What must become of a mutated file: it is refused in one sentence, or all that follows works."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

import daedal
from daedal.api import code_trust
from daedal.artifact.artifact import Artifact
from daedal.checking.integer_reference import processor_graph
from daedal.common.errors import DaedalError
from daedal.compiler.cpu.build import build_host_code
from daedal.compiler.graph import run
from daedal.isa.assembly import disassemble
from daedal.runtime import bounded_loop
from daedal.runtime.executor import Executor
from daedal.runtime.host_code import HostProgram
from daedal.runtime.host_parts import CodeTrust
from daedal.sim.functional.device import FunctionalDevice
from daedal.sim.timing.device import timing_with_values
from tests.robustness.cases import (
    VARIANT,
    Case,
    artifact_case,
    cpu_artifact_case,
    cpu_model_case,
    model_case,
)

__all__ = ["CHECKS", "Check"]

MAX_INPUT_ELEMENTS = 1 << 16
MAX_ITERATIONS = 1_000
"""Of the Loops of a run; the bound of all runs would take minutes."""

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

    The host's parts are interpreted, so that a float of theirs is rounded as the graph's. What the
    host computes is in float in the graph, too: at a tie, integers round to the other neighbour.
    """
    compiled = daedal.compile(case.data, VARIANT, cache=False, cpu_levels=())
    artifact = Artifact.from_bytes(compiled.to_bytes())
    executor = Executor(artifact, FunctionalDevice(artifact.variant))
    inputs = _inputs(executor)
    if inputs is None:
        return
    found = executor.run(inputs).outputs
    graph = processor_graph(case.data, artifact.variant, artifact.host_quantized)
    expected = run(graph, inputs)
    assert list(found) == list(dict.fromkeys(value.name for value in artifact.outputs))
    for name in found.keys() & expected.keys():  # some are outside the graph, some inside it only
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-4, atol=1e-5)


def check_artifact(case: Case) -> None:
    """The artifact reads, says what it holds, and runs on the functional and the timing device.

    Machine code that was changed must not run; the ONNX model is interpreted in its place.
    """
    interpret = CodeTrust(compile_model=lambda _model: ())
    artifact = Artifact.from_bytes(case.data)
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    for launch in artifact.launches:
        disassemble(launch.program.instructions)
    for open_device in (FunctionalDevice, timing_with_values):
        executor = Executor(artifact, open_device(artifact.variant), interpret)
        inputs = _inputs(executor)
        if inputs is not None:
            executor.run(inputs)


def _run_on_nasty_inputs(executor: Executor | HostProgram, model: bytes) -> None:
    """Runs on inputs of the right types; integers lie in, near and far from every range."""
    graph = onnx.ModelProto.FromString(model).graph
    shapes = {
        item.name: [int(dim.dim_value) for dim in item.type.tensor_type.shape.dim]
        for item in graph.input
    }
    if sum(int(np.prod(shape)) for shape in shapes.values()) > MAX_INPUT_ELEMENTS:
        return
    for number, choices in enumerate(((0, 1), (-3, 2, 7), (-(2**31), -1, 0, 2**31 - 1))):
        rng = np.random.default_rng(number)
        feeds: dict[str, npt.NDArray[Any]] = {}
        for item in graph.input:
            kind = item.type.tensor_type.elem_type
            dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
            if dtype.kind in "iu":
                array = rng.choice(choices, shapes[item.name]).astype(dtype)
            else:
                array = rng.normal(size=shapes[item.name]).astype(dtype)
            feeds[item.name] = np.asarray(array)
        try:
            executor.run(feeds)
        except DaedalError as error:
            if "report this defect" in str(error):
                raise AssertionError(str(error)) from error


def check_cpu_model(case: Case) -> None:
    """The model compiles for processors, its artifact reads back and runs on any input; compiled
    code whose indices are checked stays inside its tensors."""
    bounded_loop.MAX_ITERATIONS = MAX_ITERATIONS
    compiled = daedal.compile(case.data, target="cpu")
    artifact = Artifact.from_bytes(compiled.to_bytes())
    (part,) = artifact.host_parts
    _run_on_nasty_inputs(Executor(compiled, None), part.model)
    checked = build_host_code(onnx.ModelProto.FromString(part.model), checked=True)
    _run_on_nasty_inputs(HostProgram(checked), part.model)


def check_cpu_artifact(case: Case) -> None:
    """The artifact reads, and runs; machine code that was changed must not run."""
    bounded_loop.MAX_ITERATIONS = MAX_ITERATIONS
    artifact = Artifact.from_bytes(case.data)
    assert Artifact.from_bytes(artifact.to_bytes()) == artifact
    executor = Executor(artifact, None, code_trust())
    for part in artifact.host_parts:
        _run_on_nasty_inputs(executor, part.model)


CHECKS: dict[str, tuple[Callable[[int], Case], Check]] = {
    "artifact": (artifact_case, check_artifact),
    "cpu-artifact": (cpu_artifact_case, check_cpu_artifact),
    "cpu-model": (cpu_model_case, check_cpu_model),
    "model": (model_case, check_model),
}
"""By kind of file: the case of a number, and what is asked of it."""
