"""Parts of an artifact that no compiler made: the host's models, and bindings that do not fit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import daedal
from daedal.artifact.artifact import Artifact, Binding, Move
from daedal.common.errors import ArtifactError, ModelError
from daedal.runtime.executor import Executor
from daedal.runtime.host import HostModel
from daedal.sim.functional.device import FunctionalDevice
from tests.robustness.models import small_model


def part(*nodes: onnx.NodeProto, tensors: Sequence[TensorProto] = ()) -> onnx.ModelProto:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "part",
        [value("x", TensorProto.FLOAT, [2])],
        [value("y", TensorProto.FLOAT, [2])],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def refused(model: onnx.ModelProto) -> None:
    with pytest.raises(ArtifactError) as error:
        HostModel(model.SerializeToString(), "part 0")
    assert str(error.value) == (
        "part 0 of an artifact must be a valid ONNX model; it is damaged, compile it again "
        "(ValueError)"
    )


def test_a_part_without_guile_runs() -> None:
    model = part(helper.make_node("Relu", ["x"], ["y"]))
    found = HostModel(model.SerializeToString(), "part 0").run({"x": np.array([-1, 2], np.float32)})
    assert found["y"].tolist() == [0, 2]


def endless() -> onnx.NodeProto:
    """A Loop without a count whose condition stays true."""
    value = helper.make_tensor_value_info
    names = [("n", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("v", 1, [2])]
    body = helper.make_graph(
        [helper.make_node("Identity", [a], [b]) for a, b in (("c", "d"), ("v", "w"))],
        "body",
        [value(*item) for item in names],
        [value("d", TensorProto.BOOL, []), value("w", 1, [2])],
    )
    return helper.make_node("Loop", ["", "go", "x"], ["y"], body=body)


def test_loops_end_however_deep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daedal.runtime.bounded_loop.MAX_ITERATIONS", 100)
    go = numpy_helper.from_array(np.array(True), "go")
    loop = endless()
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    branch = helper.make_graph([loop], "branch", [], [result])
    condition = helper.make_node("If", ["go"], ["y"], then_branch=branch, else_branch=branch)
    for node in (loop, condition):
        model = HostModel(part(node, tensors=[go]).SerializeToString(), "part 0")
        with pytest.raises(ModelError, match="must end within 100 iterations"):
            model.run({"x": np.ones(2, np.float32)})


def test_functions_are_refused() -> None:
    model = part(helper.make_node("Relu", ["x"], ["y"]))
    opset = helper.make_opsetid("", 21)
    body = [helper.make_node("f", ["a"], ["b"], domain="own")]
    model.functions.append(helper.make_function("own", "f", ["a"], ["b"], body, [opset]))
    refused(model)


@pytest.mark.parametrize("as_constant", [False, True])
def test_data_in_other_files_is_refused(
    as_constant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").write_bytes(bytes(8))
    tensor = numpy_helper.from_array(np.zeros(2, np.float32), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    add = helper.make_node("Add", ["x", "w"], ["y"])
    if as_constant:
        refused(part(helper.make_node("Constant", [], ["w"], value=tensor), add))
    else:
        refused(part(add, tensors=[tensor]))


def test_inputs_that_are_no_tensors_are_refused() -> None:
    model = part(helper.make_node("Relu", ["x"], ["y"]))
    model.graph.input[0].type.CopyFrom(onnx.TypeProto())
    with pytest.raises(ArtifactError, match="must be a valid ONNX model"):
        HostModel(model.SerializeToString(), "part 0")


def test_what_fails_when_it_runs_is_one_sentence() -> None:
    model = part(helper.make_node("Add", ["x", "w"], ["y"]))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), "w"))
    host = HostModel(model.SerializeToString(), "part 0")
    with pytest.raises(ModelError, match=r"^the host must be able to run .* part 0 failed: .*; "):
        host.run({"x": np.zeros(2, np.float32)})


@pytest.mark.parametrize(
    "change",
    [
        {"shape": (1, 4, 5, 6)},
        {"moves": (Move((1, 4, 5, 5), (0, 1, 2, 2)),)},
        {"moves": (Move((1, 4, 5, 5), (0, 1, 2)),)},
        {"moves": (Move((1, 4, 25), (0, 2, 1)), Move((1, 4, 5, 4), (0, 1, 2, 3)))},
    ],
)
def test_bindings_must_fit(change: dict[str, Any]) -> None:
    artifact = daedal.compile(small_model("residual"), "tiny")
    (launch,) = artifact.launches
    bad: Binding = replace(launch.inputs[0], **change)
    parts = tuple(
        replace(item, inputs=(bad,)) if item is launch else item for item in artifact.parts
    )
    broken: Artifact = replace(artifact, parts=parts)
    with pytest.raises(ArtifactError) as error:
        Executor(broken, FunctionalDevice(artifact.variant))
    assert str(error.value) == (
        f"an artifact must bind tensors to others of their size, and {bad.name!r} of shape "
        f"{bad.shape} is bound to (1, 4, 5, 5); compile the model again"
    )
